"""A posted gradient is decoded and held against its bounds once per node (P6), however many ask for it."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from chain.client.payloads import MemoryShelf
from chain.protocol.posts import NoPayloads
from chain.protocol.slots import Slot
from chain.wire import codec
from chain.wire.sidecar import Sidecar
from edge_servers.errors import GradientRefusedError, ReplayError
from edge_servers.learning import bounds
from edge_servers.replay.record import GradientReader, RoundRecord
from edge_servers.replay.replay import closed_round
from tests.edge_servers.chain_network import ChainNetwork, chain_network
from tests.edge_servers.round_records import posts_of


def listen(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, heard: Callable[..., None]) -> None:
    """Tell `heard` of every call of a function, under whatever module's name it is called."""
    function = getattr(owner, name)

    def watched(*arguments: Any, **named: Any) -> Any:
        heard(*arguments)
        return function(*arguments, **named)

    for module in list(sys.modules.values()):
        if getattr(module, name, None) is function:
            monkeypatch.setattr(module, name, watched)


@pytest.mark.parametrize("changes", [{}, {"filter": "krum", "planner": "fixed:none"}, {"nodes": 3}], ids=str)
def test_every_gradient_of_a_round_is_decoded_and_checked_once_on_a_node(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    """Its server reads it, the leader closes the list, all servers replay, the node checks the block that is mined."""
    decoded: Counter[bytes] = Counter()
    checked: Counter[bytes] = Counter()
    listen(monkeypatch, codec, "view_floats", lambda payload, *_: decoded.update([payload]))
    listen(monkeypatch, bounds, "check_gradient", lambda gradient, *_: checked.update([gradient.transaction_hash]))
    with chain_network(**changes) as network:
        reports = network.run(2)
        posts = [post for k in (1, 2) for post in network.record(k).gradient_posts().values()]
        assert len(posts) == sum(each.training_nodes + len(each.refused) for each in reports) == 12
        nodes = len(network.hosted.nodes)
        assert {decoded[post.payload or b""] for post in posts} == {nodes}
        assert {checked[post.transaction_hash] for post in posts} == {nodes}
        unposted = checked.total() - 12 * nodes  # a server looks at what it has trained before it posts it
        assert unposted == sum(post.sender in network.founding.network.servers for post in posts)


# --- the reader alone


def test_what_was_read_once_is_the_same_object(network: ChainNetwork, record: RoundRecord) -> None:
    reader = GradientReader(network.founding)
    for post in record.gradient_posts().values():
        assert reader.read(post, record.plan) is reader.read(post, record.plan)


def test_another_plan_may_weigh_the_same_post_otherwise(network: ChainNetwork, record: RoundRecord) -> None:
    """The successor of a leader plans anew: what was refused under the one plan may count under the other."""
    post = record.gradient_posts()[network.founding.network.devices[3].address]
    other = replace(record.plan, iterations=(9,) * 6)
    reader = GradientReader(network.founding)
    for _ in range(2):
        assert reader.read(post, record.plan).iterations == 2
        with pytest.raises(GradientRefusedError, match="found 40 samples and 2 iterations, expected 40 and 9"):
            reader.read(post, other)


def test_a_refusal_is_remembered_as_well(
    network: ChainNetwork, record: RoundRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[bytes] = []
    listen(monkeypatch, codec, "view_floats", lambda payload, *_: decoded.append(payload))
    sidecar = Sidecar(b"gibberish")
    shelf = MemoryShelf([sidecar])
    post = replace(next(iter(record.gradient_posts().values())), digest=sidecar.digest, source=shelf)
    reader = GradientReader(network.founding)
    for _ in range(3):
        with pytest.raises(GradientRefusedError) as refused:
            reader.read(post, record.plan)
        assert refused.value.reason == "malformed"
    assert decoded == [b"gibberish"]


def test_that_a_payload_is_not_here_is_not_remembered(network: ChainNetwork, record: RoundRecord) -> None:
    """It may come: what was unavailable counts as soon as its payload is here."""
    post = next(iter(record.gradient_posts().values()))
    reader = GradientReader(network.founding)
    for _ in range(2):
        with pytest.raises(GradientRefusedError, match="its payload is not here") as refused:
            reader.read(post.beside(NoPayloads()), record.plan)
        assert refused.value.reason == "unavailable"
    assert reader.read(post, record.plan).sender == post.sender


def test_a_round_whose_payloads_are_not_here_is_not_taken_for_one_that_was_worked_out(
    network: ChainNetwork, record: RoundRecord
) -> None:
    def bare(slot: int) -> RoundRecord:
        posts = posts_of(record)
        return RoundRecord.of(2, [post.beside(NoPayloads()) if post.slot == slot else post for post in posts])

    reader = GradientReader(network.founding)
    with pytest.raises(ReplayError, match="which is no gradient that may count"):
        closed_round(bare(Slot.GRADIENT), reader)
    assert len(closed_round(record, reader).counted) == 6
    with pytest.raises(ReplayError, match="round 2: round 2 is not closed"):
        closed_round(bare(Slot.CLOSE), reader)
    assert len(closed_round(record, reader).counted) == 6
