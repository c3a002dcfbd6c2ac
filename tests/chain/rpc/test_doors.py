"""Who may ask what: every method has an entry, what has none is open nowhere, and some are the owner's alone."""

from typing import Any

import pytest

from chain.client.asking import request, web3_over_http
from chain.client.keys import address_of
from chain.errors import DoorError, LedgerError
from chain.rpc.dispatcher import Dispatcher
from chain.rpc.doors import AUDITORS, MEMBERS, NOBODYS, OPEN, OWNERS, Door, Doors, check_open
from chain.rpc.limits import ServerParams
from chain.rpc.server import RpcServer
from tests.chain.network import Network, founded_node

NETWORK = Network()
CHANGES = {
    "eth_sendRawTransaction", "bfl_sendPost", "bfl_sendSidecar", "bfl_getWork", "bfl_submitWork", "bfl_importBlock",
    "bfl_sendEndorsement", "bfl_sendPass", "bfl_propose", "bfl_holdEvidence",
}  # fmt: skip


def test_every_method_has_an_entry_and_every_entry_is_a_method() -> None:
    node = founded_node(NETWORK)
    assert Dispatcher(node).methods == OPEN.keys()


def test_what_has_no_entry_is_open_nowhere() -> None:
    with pytest.raises(DoorError, match="bfl_new is not open at this door"):
        check_open("bfl_new", frozenset(Door))


def test_the_owner_may_do_everything_and_nobody_else_proposes() -> None:
    assert all(Door.OWNER in doors for doors in OPEN.values())
    assert {name for name, doors in OPEN.items() if doors == OWNERS} == {
        "bfl_propose",
        "bfl_holdEvidence",
    }


def test_auditors_read_and_change_nothing() -> None:
    assert {name for name, doors in OPEN.items() if Door.AUDITOR not in doors} == CHANGES


def test_devices_post_and_mine_and_peers_post_and_push() -> None:
    of = {door: {name for name in CHANGES if door in OPEN[name]} for door in Door}
    posts = {"eth_sendRawTransaction", "bfl_sendPost", "bfl_sendSidecar"}
    assert of[Door.DEVICE] == posts | {"bfl_getWork", "bfl_submitWork"}
    assert of[Door.PEER] == posts | {"bfl_importBlock", "bfl_sendEndorsement", "bfl_sendPass"}


def answer(dispatcher: Dispatcher, doors: Doors, method: str, *params: Any) -> Any:
    return dispatcher.at(doors).respond({"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)})


@pytest.mark.parametrize("doors", [MEMBERS, AUDITORS, NOBODYS])
def test_a_closed_method_does_nothing_and_says_where_it_is_open(doors: Doors) -> None:
    node = founded_node(NETWORK)
    NETWORK.post_plan(node)
    leader = "0x" + address_of(NETWORK.leader(node)).hex()
    dispatcher = Dispatcher(node)
    for method, parameter in (("bfl_propose", leader), ("bfl_holdEvidence", "0x" + bytes(32).hex())):
        error = answer(dispatcher, doors, method, parameter)["error"]
        assert error["data"]["error"] == "DoorError"
        assert "ask at the owner's, on the node's own machine" in error["message"]
    assert len(node.pending()) == 1
    assert "result" in answer(dispatcher, OWNERS, "bfl_holdEvidence", "0x" + bytes(32).hex()), "the owner still may"


def test_over_http_a_door_is_what_its_server_opens() -> None:
    node = founded_node(NETWORK)
    with (
        RpcServer(node, ServerParams(port=0, doors=MEMBERS)) as members,
        RpcServer(node, ServerParams(port=0, doors=AUDITORS)) as auditors,
        RpcServer(node, ServerParams(port=0)) as owner,
    ):
        leader = NETWORK.leader(node)
        raw = "0x" + NETWORK.signed(node, leader, "plan", 1, 0, b"\1" * 32, 4).hex()
        for url in (members, auditors):
            with pytest.raises(DoorError, match="not open at this door"):
                request(web3_over_http(url), "bfl_propose", leader.address)
        with pytest.raises(DoorError):
            request(web3_over_http(auditors), "bfl_sendPost", raw)
        assert request(web3_over_http(auditors), "eth_blockNumber") == "0x1"
        request(web3_over_http(members), "bfl_sendPost", raw)
        assert len(node.pending()) == 1
        assert request(web3_over_http(owner), "bfl_holdEvidence", "0x" + bytes(32).hex()) is False


def test_the_owners_door_is_on_this_machine_and_others_need_certificates() -> None:
    with pytest.raises(LedgerError, match=r"found host 0.0.0.0 for the owner's door"):
        ServerParams("0.0.0.0", allows_plain=True)  # noqa: S104
    with pytest.raises(LedgerError, match=r"found host 0.0.0.0 without TLS"):
        ServerParams("0.0.0.0", doors=MEMBERS)  # noqa: S104
    assert ServerParams("0.0.0.0", doors=MEMBERS, allows_plain=True).host == "0.0.0.0"  # noqa: S104
    assert ServerParams("::1").doors == OWNERS
