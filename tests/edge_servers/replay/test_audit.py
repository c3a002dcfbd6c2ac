"""A chain derived again from its blocks: it gives its models, or the first place that does not follow is named."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chain.audit.inspection import inspect_chain, inspected
from chain.errors import InspectionError, RoundRefusedError
from chain.protocol.posts import NoPayloads
from chain.protocol.round_check import RoundBody
from chain.protocol.slots import Slot
from chain.wire.documents import canonical_json, read_canonical_json
from chain.wire.sidecar import payload_digest
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.ledger.block_check import RoundChecker
from edge_servers.replay.audit import AuditError, Auditor
from edge_servers.replay.record import GradientReader, model_in
from tests.chain.small_chain import StoredChain, story
from tests.edge_servers.audited_chain import (
    chain,
    derived,
    with_other_close,
    with_other_iterate,
    with_other_model,
    with_other_plan,
)

# --- a chain that follows


def test_every_model_of_an_honest_chain_is_derived_again_bit_for_bit() -> None:
    auditor = Auditor(chain().genesis)
    rounds = list(auditor.derived(inspected(chain().archive)))
    assert [each.round for each in rounds] == [1, 2, 3]
    for each, block in zip(rounds, chain().blocks[2:], strict=True):
        np.testing.assert_array_equal(each.replayed.model, model_in(block, chain().founding, chain()))
        assert (each.replayed.offences, each.virtual, dict(each.excluded)) == ((), (), {})
    assert auditor.founding is not None
    assert auditor.founding.encode() == chain().founding.encode()
    assert (auditor.obstacle, inspect_chain(chain().archive).blocks) == ("", 5)


def test_a_derived_round_says_who_led_and_who_sealed() -> None:
    name = chain().founding.network.name
    for each, block in zip(derived(chain()), chain().blocks[2:], strict=True):
        leader = name(block.header.coinbase)
        assert [each.who_posted(slot) for slot in (Slot.PLAN, Slot.CLOSE, Slot.MODEL)] == [leader] * 3
        assert block.header.winner is not None
        assert each.sealed_by == name(block.header.winner)


def test_a_lie_and_a_silence_are_found_and_their_server_is_computed_by_everybody_afterwards() -> None:
    attack = "iterate-noise@1:server=1,step=1,strength=0.5; withheld-iterate@2:server=2,step=2"
    rounds = derived(chain(attack))
    servers = chain(attack).founding.network.servers
    assert {(o.offender, o.kind, o.step) for o in rounds[0].replayed.offences} >= {(servers[1], "iterate", 1)}
    assert [(o.offender, o.kind, o.step) for o in rounds[1].replayed.offences] == [(servers[2], "absent", 2)]
    assert [each.virtual for each in rounds] == [(), (servers[1],), (servers[1],)]
    assert [dict(each.excluded) for each in rounds] == [{servers[1]: 11}, {}, {}], "silence excludes nobody"


def test_a_leader_that_leaves_a_gradient_out_is_excluded_and_the_block_is_of_the_next_attempt() -> None:
    """Its list is in no block: the flags tell of it."""
    found = chain("omitted-gradient@2:server=leader")
    second = derived(found)[1]
    assert second.replayed.offences == ()
    assert len(second.excluded) == 1
    assert "begin_attempt" in [post.call.name for post in found.posts(3) if post.call is not None]


def test_the_scheme_without_consensus_is_derived_too() -> None:
    assert len(derived(chain(scheme="bfl-no-consensus"))) == 3


def test_phi_auto_is_the_leaders_word_within_bounds() -> None:
    assert len(derived(chain(phi="auto:2", max_phi=4))) == 3


def test_a_chain_of_another_kind_is_inspected_and_says_why_models_cannot_be_derived() -> None:
    archive = StoredChain(story().blocks)
    auditor = Auditor(archive.genesis)
    blocks = inspect_chain(archive).blocks
    rounds = list(auditor.derived(inspected(archive)))
    assert (blocks, rounds, auditor.founding) == (8, [], None)
    missing = "kind, settings, servers, devices, graph, sample-bytes, weight"
    assert auditor.obstacle == f"the founding parameters name no such network (found no {missing})"


# --- a chain that does not


def test_a_model_that_does_not_follow_is_named_though_every_seal_fits() -> None:
    forged = with_other_model(chain())
    assert inspect_chain(forged.archive).blocks == 5
    found, right = (payload_digest(each.beside(each.post("model"))).hex() for each in (forged, chain()))
    leader = forged.leader
    with pytest.raises(AuditError) as refused:
        derived(forged)
    assert str(refused.value) == (
        f"block 4, built by {leader}: round 3: the model of {leader} has digest 0x{found}, "
        f"its own gradients and closed list give 0x{right}"
    )


def test_a_closed_list_without_one_gradient_does_not_give_the_same_model() -> None:
    forged = with_other_close(chain(), lambda closed: replace(closed, accepted=closed.accepted[1:]))
    with pytest.raises(AuditError, match=r"block 4, built by server \d: round 3: the model of server \d has digest"):
        derived(forged)


def test_a_closed_list_with_a_gradient_that_nobody_posted_is_refused() -> None:
    forged = with_other_close(chain(), lambda closed: replace(closed, accepted=(*closed.accepted, b"\1" * 32)))
    with pytest.raises(AuditError, match=f"round 3: the closed list accepts 0x{'01' * 32}, which is no gradient"):
        derived(forged)


def test_a_closed_list_in_another_order_is_refused() -> None:
    forged = with_other_close(chain(), lambda closed: replace(closed, accepted=closed.accepted[::-1]))
    with pytest.raises(AuditError, match="round 3: the closed list is not in ascending order of address"):
        derived(forged)


def test_an_iterate_off_by_the_last_bit_is_an_offence_nobody_flagged_and_is_repaired() -> None:
    forged, liar = with_other_iterate(chain(), step=1, by=1)
    rounds = derived(forged)
    assert [(o.offender, o.step) for o in rounds[-1].replayed.offences] == [(liar, 1)]
    assert rounds[-1].record.flags == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"phi": 10**9}, "plan: found phi 1000000000, expected 2"),
        ({"divergence": 7.5}, "plan: found divergence 7.5 of the round before, expected "),
        ({"assignment": [9, -1, -1, -1]}, "plan: device 0 may not offload to server 9"),
        ({"samples": [1]}, "found a plan of round 3 for 4 devices"),
        ({"samples": [0, 1, 1, 1]}, "plan: found 0 samples of device 0, expected "),
        ({"iterations": [9, 9, 9, 9]}, "plan: expected 1 iterations for everybody"),
        ({"power_w": [10**400] * 4}, "plan: found power_w = [1000000000"),
        ({"round": 2}, "found a plan of round 2 for 4 devices"),
    ],
)
def test_a_plan_that_the_founding_does_not_allow_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(AuditError) as refused:
        derived(with_other_plan(chain(), **changes))
    assert str(refused.value).startswith(f"block 4, built by {chain().leader}: {message}")


@pytest.mark.parametrize("changes", [{"assignment": [-1]}, {"samples": [1]}, {"phi": 10**9}, {"cpu_hz": [10**400] * 4}])
def test_a_node_refuses_a_block_with_such_a_plan_instead_of_stumbling_over_it(changes: dict[str, Any]) -> None:
    """A block may come from anybody: what is not a plan must not end the process that checks it."""
    forged = with_other_plan(chain(), **changes)
    last, parent = forged.blocks[-1], forged.blocks[-2]
    checker = RoundChecker(GradientReader(forged.founding))
    statuses = tuple(receipt.status for receipt in last.receipts)
    body = RoundBody(last.header, parent.header, tuple(forged.posts(4)), statuses, forged)
    node = forged.node_before_the_last()
    with pytest.raises(RoundRefusedError, match="plan"):
        checker(body, node)
    node.close()


def test_what_the_inspection_refuses_is_told_before_the_replay() -> None:
    blocks = (*chain().blocks[:-1], replace(chain().blocks[-1], receipts=chain().blocks[2].receipts))
    with pytest.raises(InspectionError, match="block 4: its receipts"):
        derived(replace(chain(), blocks=blocks))


def test_a_chain_whose_founding_parameters_are_nowhere_is_refused() -> None:
    *_, founding = inspected(replace(chain(), blocks=chain().blocks[:2]).archive)
    with pytest.raises(AuditError, match="block 1: the founding parameters are not here"):
        Auditor(chain().genesis).take(replace(founding, source=NoPayloads()))


# --- the founding


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"term-cap": 9}, "block 1: found a registry with terms 0x"),
        ({"codec": "fp32"}, r"block 1: found payloads of \(\d+, .*\) bytes in the registry, expected \(\d+, "),
        ({"graph": "ring"}, r"block 1: found edges \[\(0, 1\), \(1, 2\), \(2, 3\)\] with weight "),
    ],
)
def test_founding_parameters_that_contradict_the_registry_or_themselves_are_refused(
    changes: dict[str, object], message: str
) -> None:
    settings = chain().founding.settings
    other = replace(chain().founding, settings=type(settings).read(settings.flat() | changes))
    with pytest.raises(AuditError, match=message):
        _take_founding(other)


def test_founding_parameters_must_name_those_whom_the_registry_knows() -> None:
    network = chain().founding.network
    moved = replace(network.devices[1], home=3)
    other = replace(
        chain().founding, network=replace(network, devices=(network.devices[0], moved, *network.devices[2:]))
    )
    with pytest.raises(AuditError, match=r"block 1: participant 0x[0-9a-f]{40}: found home 0x[0-9a-f]{40} in the reg"):
        _take_founding(other)


@pytest.mark.parametrize("home", [4, -1])
def test_a_home_that_is_no_server_is_refused_instead_of_stumbling_over_it(home: int) -> None:
    network = chain().founding.network
    moved = replace(network.devices[0], home=home)
    other = replace(chain().founding, network=replace(network, devices=(moved, *network.devices[1:])))
    with pytest.raises(AuditError, match=r"block 1: the founding parameters are not .*found impossible homes"):
        _take_founding(other)


def test_one_server_under_two_numbers_is_refused() -> None:
    network = chain().founding.network
    doubled = (*network.servers[:3], network.servers[0])
    with pytest.raises(AuditError, match=r"block 1: the founding parameters are not .*found impossible addresses"):
        _take_founding(replace(chain().founding, network=replace(network, servers=doubled)))


def test_a_setting_that_is_missing_is_not_made_up() -> None:
    content = read_canonical_json(chain().founding.encode())
    del content["settings"]["learning-rate"]
    with pytest.raises(AuditError, match=r"block 1: the founding parameters are not .*they would be written otherwise"):
        _take_founding(canonical_json(content))


def _take_founding(other: FoundingParameters | bytes) -> None:
    """The founding block with other parameters beside it; everything else of it as it was."""
    honest = chain()
    *_, founding = inspected(replace(honest, blocks=honest.blocks[:2]).archive)
    digest = payload_digest(honest.founding.encode())
    assert digest in honest.payloads
    parameters = other if isinstance(other, bytes) else other.encode()
    changed = replace(honest, payloads={**honest.payloads, digest: parameters})
    Auditor(honest.genesis).take(replace(founding, source=changed))
