"""Payloads over JSON-RPC (B1): sent with a post or after it, read in ranges, asked for by digest; over HTTP."""

from typing import Any

import pytest

from chain.client.asking import request
from chain.client.keys import address_of
from chain.client.payloads import RANGE_BYTES
from chain.protocol.slots import iterate_slot
from chain.rpc.dispatcher import INVALID_PARAMS
from chain.rpc.in_process import web3_in_process
from chain.rpc.sidecar_methods import SidecarMethods
from chain.wire.sidecar import payload_digest
from tests.chain.network import PARAMETERS, SIZES, founded_node, seal, sized
from tests.chain.scene import Scene, gradient_of, hexed

LATE = sized(b"late gradient", SIZES.gradient)
DIGEST = payload_digest(LATE)
WANTED = [hexed(DIGEST), SIZES.gradient]
ENDLESS = 2**256 - 1


def data(answer: Any) -> bytes:
    return bytes.fromhex(answer["data"].removeprefix("0x"))


# --- sending


def test_a_post_comes_with_its_payload(own: Scene) -> None:
    raw = gradient_of(own, 3)
    sent = own.ask("bfl_sendPost", hexed(raw), [hexed(LATE)])
    assert own.ask("bfl_pendingTransactions")[-1] == sent
    assert own.ask("bfl_wantedSidecars") == []
    assert own.ask("bfl_getSidecar", hexed(DIGEST)) == {"size": SIZES.gradient, "data": hexed(LATE)}


@pytest.mark.parametrize("method", ["bfl_sendPost", "eth_sendRawTransaction"])
def test_a_post_may_come_before_its_payload_which_is_asked_for(own: Scene, method: str) -> None:
    own.ask(method, hexed(gradient_of(own, 3)))
    assert own.ask("bfl_wantedSidecars") == [WANTED]
    assert own.ask("bfl_getSidecar", hexed(DIGEST)) is None
    assert own.ask("bfl_sendSidecar", hexed(DIGEST), hexed(LATE)) is True
    assert own.ask("bfl_wantedSidecars") == []
    assert own.ask("bfl_getSidecar", hexed(DIGEST))["data"] == hexed(LATE)
    assert own.refusal("bfl_sendSidecar", hexed(DIGEST), hexed(LATE))["data"]["error"] == "UnwantedSidecarError"


@pytest.mark.parametrize(
    ("beside", "error"),
    [
        ([LATE[:-1]], "SidecarSizeError"),
        ([bytes(SIZES.gradient)], "SidecarDigestError"),
        ([LATE, LATE], "UnwantedSidecarError"),
    ],
)
def test_a_refused_payload_keeps_its_class_and_takes_its_post_with_it(
    own: Scene, beside: list[bytes], error: str
) -> None:
    refused = own.refusal("bfl_sendPost", hexed(gradient_of(own, 3)), [hexed(each) for each in beside])
    assert refused["data"]["error"] == error
    assert own.ask("bfl_pendingTransactions") == [hexed(each) for each in own.pending]
    own.ask("bfl_sendPost", hexed(gradient_of(own, 3)), [hexed(LATE)])


@pytest.mark.parametrize(
    ("payload", "error"),
    [(LATE + b"\0", "SidecarSizeError"), (bytes(SIZES.gradient), "SidecarDigestError")],
)
def test_a_wrong_payload_after_its_post_keeps_its_class(own: Scene, payload: bytes, error: str) -> None:
    own.ask("bfl_sendPost", hexed(gradient_of(own, 3)))
    assert own.refusal("bfl_sendSidecar", hexed(DIGEST), hexed(payload))["data"]["error"] == error
    assert own.ask("bfl_wantedSidecars") == [WANTED]


def test_what_is_no_payload_is_no_argument(shared: Scene) -> None:
    raw = hexed(gradient_of(shared, 3))
    wrong: list[Any] = [hexed(LATE), {}, None, 7, ["0x"] * 3, ["late"], [7], [None], [[hexed(LATE)]]]
    for sidecars in wrong:
        assert shared.refusal("bfl_sendPost", raw, sidecars)["code"] == INVALID_PARAMS
    for digest, payload in (("0x00", "0x"), (hexed(DIGEST), "late"), (hexed(DIGEST), None), (7, "0x")):
        assert shared.refusal("bfl_sendSidecar", digest, payload)["code"] == INVALID_PARAMS
    assert "sidecars: expected a list of at most 2" in shared.refusal("bfl_sendPost", raw, ["0x"] * 3)["message"]


# --- reading in ranges


@pytest.mark.parametrize("payload", [PARAMETERS, sized(b"gradient", SIZES.gradient)], ids=["stored", "pending"])
@pytest.mark.parametrize(
    ("start", "length"),
    [(0, 4), (3, 5), ("0x3", "0x5"), (0, 0), (10, 1000), (15, 1), (0, ENDLESS), (3, hex(ENDLESS))],
)
def test_a_range_is_that_of_the_payload(shared: Scene, payload: bytes, start: Any, length: Any) -> None:
    found = shared.ask("bfl_getSidecar", hexed(payload_digest(payload)), start, length)
    first, most = (int(each, 16) if isinstance(each, str) else each for each in (start, length))
    assert (found["size"], data(found)) == (len(payload), payload[first : first + most])


@pytest.mark.parametrize("payload", [PARAMETERS, sized(b"gradient", SIZES.gradient)], ids=["stored", "pending"])
@pytest.mark.parametrize("start", [32, 33, 2**31, 2**63, ENDLESS])
def test_a_range_behind_the_end_is_empty(shared: Scene, payload: bytes, start: int) -> None:
    for length in (1, RANGE_BYTES, ENDLESS):
        found = shared.ask("bfl_getSidecar", hexed(payload_digest(payload)), start, length)
        assert found == {"size": len(payload), "data": "0x"}


def test_absurd_numbers_are_no_arguments_and_unknown_payloads_are_none(shared: Scene) -> None:
    digest = hexed(payload_digest(PARAMETERS))
    numbers: list[Any] = [-1, 2**256, 1.5, True, None, "", "0x", "-0x1", [], {}, "0x" + "f" * 65]
    for absurd in numbers:
        assert shared.refusal("bfl_getSidecar", digest, absurd)["code"] == INVALID_PARAMS
        assert shared.refusal("bfl_getSidecar", digest, 0, absurd)["code"] == INVALID_PARAMS
    for unknown in ("0x00", None, 7, digest + "00"):
        assert shared.refusal("bfl_getSidecar", unknown)["code"] == INVALID_PARAMS
    assert shared.ask("bfl_getSidecar", hexed(bytes(32)), 0, ENDLESS) is None


def test_nobody_has_endorsed_in_an_absurd_round(shared: Scene) -> None:
    assert shared.node.contradictions() == []
    methods = SidecarMethods(shared.node)
    assert methods.bfl_votes(ENDLESS) == []
    assert methods.bfl_contradictions(ENDLESS) == []


def test_no_answer_is_longer_than_a_range(own: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chain.rpc.sidecar_methods.RANGE_BYTES", 10)
    for payload in (PARAMETERS, sized(b"gradient", SIZES.gradient)):
        for length in (11, ENDLESS):
            found = own.ask("bfl_getSidecar", hexed(payload_digest(payload)), 1, length)
            assert (found["size"], data(found)) == (len(payload), payload[1:11])


# --- evidence, pruning


def test_evidence_is_held_for_the_block_with_its_flag(own: Scene) -> None:
    network, node = own.network, own.node
    lie = sized(b"a lie", SIZES.iterate)
    network.post_close(node)
    assert own.ask("bfl_holdEvidence", hexed(payload_digest(lie))) is False
    network.post_iterate(node, network.servers[0], 0, lie)
    assert own.ask("bfl_holdEvidence", hexed(payload_digest(lie))) is True
    offender, sent = address_of(network.servers[0]), node.pending()[-1].post.transaction.hash
    network.post(node, network.servers[1], "flag", 2, offender, iterate_slot(0), sent, payload_digest(b"the truth"))
    node.propose(address_of(network.leader(node)))
    seal(node, address_of(network.devices[0]))
    assert data(own.ask("bfl_getSidecar", hexed(payload_digest(lie)))) == lie
    assert own.refusal("bfl_holdEvidence", "0x00")["code"] == INVALID_PARAMS


def test_a_pruned_node_says_so_and_has_the_payload_no_more(own: Scene) -> None:
    own.seal_round()
    assert own.ask("bfl_pruned") == []
    digest = hexed(payload_digest(sized(b"model 1", SIZES.model)))
    assert own.ask("bfl_getSidecar", digest) is not None
    own.node._store.prune(4)
    assert own.ask("bfl_pruned") == [2, 3]
    assert own.ask("bfl_getSidecar", digest) is None
    assert data(own.ask("bfl_getSidecar", hexed(payload_digest(sized(b"model 2", SIZES.model))))).startswith(b"model 2")


def test_a_round_that_no_database_can_number_has_no_signatures() -> None:
    web3 = web3_in_process(founded_node())
    assert request(web3, "bfl_contradictions", hex(2**64)) == []
    assert request(web3, "bfl_votes", hex(2**255)) == []
