"""A device as Flower runs any other (D2): real SuperLink, real SuperNode, a process of Flower's for each order."""

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from flwr.app import Message

from bfl.network.devices.hash_share import read_share
from bfl.network.supervision import has_child
from chain.client.keys import address_of, load_key
from chain.protocol.posts import read_signed_call
from chain.wire.documents import read_record
from chain.wire.transactions import decode_transaction
from clients.flower import identify_process
from clients.joined import read_joined
from clients.orders import Order, order_messages
from clients.remembered import Remembered, SignedAttempt
from clients.replies import SignedReply, read_reply
from tests.bfl.network.flower_parts import PASSWORD, Edge, Process, started_edge
from tests.bfl.network.kit_orders import order_of_round_1

pytestmark = pytest.mark.slow
A_PROCESS_S = 240.0
Running = tuple[Edge, Process]


def choose_stock(kit: Path) -> None:
    config = kit / "config.toml"
    config.write_text(config.read_text().replace('flower = "resident"', 'flower = "stock"'))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with ExitStack() as stack:
        edge = started_edge(tmp_path_factory.mktemp("network"), stack, choose_stock)
        yield edge, edge.supernode(stack)


def asked(edge: Edge, order: Order) -> Message:
    """The device's reply, from a process that is started for it."""
    identify_process(edge.grid.run.run_id, 1)
    [sent] = edge.grid.push_messages(order_messages([(order, edge.node)]))
    found = edge.replies(sent, A_PROCESS_S)
    assert found, (edge.pi.folder / "supernode.log").read_text()
    return found[0]


def signed(edge: Edge, order: Order) -> SignedReply:
    message = asked(edge, order)
    assert not message.has_error(), (message.error.reason, (edge.pi.folder / "supernode.log").read_text())
    reply = read_reply(message)
    assert isinstance(reply, SignedReply)
    return reply


def test_an_order_is_signed_once_whatever_process_is_asked(running: Running) -> None:
    edge, supernode = running
    kits, folder = edge.pi.folder.parent, edge.pi.folder
    order = order_of_round_1(kits, PASSWORD, hash_rate=(1e11,))

    first = signed(edge, order)
    genesis = read_joined(folder / "founding.json").genesis
    device = address_of(load_key(edge.pi.key_file, PASSWORD))
    assert read_signed_call(decode_transaction(first.transaction), genesis).sender == device
    kept = read_record(Remembered, (folder / "device.json").read_bytes())
    assert kept.signed == (SignedAttempt(0, hashlib.sha256(first.transaction).hexdigest()),)
    assert has_child(supernode.pid, "flower-superexec")

    refused = asked(edge, order_of_round_1(kits, PASSWORD, phi=2))
    assert refused.has_error()
    assert "this device has answered another order of round 1, attempt 0 already" in str(refused.error.reason)
    assert signed(edge, order) == first, "the same order again: the same bytes, from another process"

    share = read_share(folder / "hash-share.json")
    assert share is not None
    assert (share.round, share.attempt) == (1, 0)
    assert 0 < share.share < 1, "of the plan that was accepted; the refused one has no rates"
