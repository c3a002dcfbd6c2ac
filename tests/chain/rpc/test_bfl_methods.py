"""Our own methods: work for miners, blocks between nodes, what is pending, evidence and proofs. Over HTTP."""

import zlib
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import rlp
from eth_hash.auto import keccak

from chain.client.keys import address_of
from chain.errors import ProofError
from chain.mining.miner import Miner, mine
from chain.node.node import Node
from chain.protocol.genesis import read_genesis
from chain.protocol.posts import read_signed_call
from chain.protocol.proof import TransactionProof, check_transaction
from chain.rpc.server import RpcServer, ServerParams
from chain.wire.headers import Header
from chain.wire.receipts import decode_receipt
from chain.wire.seal import is_sealed
from chain.wire.transactions import decode_transaction
from tests.chain.network import Clock, Network, genesis
from tests.chain.scene import Scene, gradient_of, hexed, leader_of

DIFFICULTY = 500


class Remote:
    """A node at the other end of HTTP."""

    def __init__(self, url: str) -> None:
        self._url, self._session = url, requests.Session()

    def answer(self, method: str, *params: Any) -> Any:
        request: Any = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self._session.post(self._url, json=request, timeout=20).json()

    def ask(self, method: str, *params: Any) -> Any:
        answer = self.answer(method, *params)
        assert "error" not in answer, answer
        return answer["result"]

    def refusal(self, method: str, *params: Any) -> str:
        """The class of the error."""
        return str(self.answer(method, *params)["error"]["data"]["error"])


@pytest.fixture
def remote(own: Scene) -> Iterator[Remote]:
    with RpcServer(own.node, ServerParams(port=0)) as url:
        yield Remote(url)


def data(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


# --- work


def post_rest(own: Scene) -> None:
    """Everything that round 2 lacks, up to its model."""
    leader = own.network.leader(own.node)
    own.network.post_close(own.node, leader)
    for server in own.network.servers:
        own.network.post_iterate(own.node, server, 0)
    own.network.post_model(own.node, leader)


def test_a_device_mines_the_round_for_real_over_http() -> None:
    network = Network()
    node = Node.in_memory(genesis(difficulty=DIFFICULTY), now=Clock())
    network.found(node)
    leader, device = network.post_round(node), address_of(network.devices[2])
    with RpcServer(node, ServerParams(port=0)) as url, Miner() as miner:
        remote = Remote(url)
        proposed = Header.from_bytes(data(remote.ask("bfl_propose", hexed(address_of(leader)))))
        work = Header.from_bytes(data(remote.ask("bfl_getWork", hexed(device))))
        assert (work.difficulty, work.winner, work) == (DIFFICULTY, device, proposed.for_winner(device))
        sealed = mine(work, miner, 20)
        assert sealed is not None
        found = (hexed(work.mining_hash), hexed(sealed.nonce))
        thief = hexed(address_of(network.devices[0]))
        assert remote.refusal("bfl_submitWork", *found, thief) == "WorkError"
        assert data(remote.ask("bfl_submitWork", *found, hexed(device))) == sealed.hash == node.head.hash
        assert remote.refusal("bfl_submitWork", *found, hexed(device)) == "WorkError"
        assert node.ask("credit", device) == 1


def test_a_nonce_that_does_not_seal_is_refused() -> None:
    network = Network()
    node = Node.in_memory(genesis(difficulty=DIFFICULTY), now=Clock())
    network.found(node)
    leader, device = address_of(network.post_round(node)), address_of(network.devices[0])
    own = Scene(network, node, ())
    own.ask("bfl_propose", hexed(leader))
    work = Header.from_bytes(data(own.ask("bfl_getWork", hexed(device), hexed(leader))))
    wrong = next(n.to_bytes(8, "big") for n in range(99) if not is_sealed(work.mining_hash, n.to_bytes(8, "big"), 500))
    error = own.refusal("bfl_submitWork", hexed(work.mining_hash), hexed(wrong), hexed(device))
    assert (error["code"], error["data"]["error"]) == (-32000, "InvalidSealError")
    assert node.head.block_number == 1


def test_work_is_refused_where_there_is_none_and_to_who_is_no_device(own: Scene, remote: Remote) -> None:
    device, server = (hexed(address_of(each[0])) for each in (own.network.devices, own.network.servers))
    assert remote.refusal("bfl_getWork", device) == "WorkError"
    follower = hexed(address_of(own.network.leader(own.node, 1)))
    assert remote.refusal("bfl_propose", follower) == "LeaderError"
    post_rest(own)
    remote.ask("bfl_propose", hexed(leader_of(own)))
    assert remote.refusal("bfl_getWork", server) == "WinnerError"
    assert remote.refusal("bfl_getWork", device, follower) == "WorkError"
    assert remote.answer("bfl_submitWork", "0x00", "0x00", device)["error"]["code"] == -32602


# --- blocks between nodes


def test_a_second_node_follows_by_importing_blocks(own: Scene, remote: Remote) -> None:
    other = Node.in_memory(genesis(), now=Clock())
    with RpcServer(other, ServerParams(port=0)) as url:
        follower = Remote(url)
        blocks = [remote.ask("bfl_getRawBlock", which) for which in ("0x1", "latest")]
        assert follower.refusal("bfl_importBlock", blocks[1]) == "UnknownParentError"
        for block in blocks:
            assert follower.refusal("bfl_importBlock", block) == "WaitingBlockError"
            for digest, _ in follower.ask("bfl_wantedSidecars"):
                follower.ask("bfl_sendSidecar", digest, remote.ask("bfl_getSidecar", digest)["data"])
        hashes = [data(follower.ask("bfl_importBlock", block)) for block in blocks]  # known: no error
        assert hashes[1] == other.head.hash == own.node.head.hash
        assert follower.ask("bfl_wantedSidecars") == []
        assert follower.refusal("bfl_importBlock", "0xc0") == "MalformedBlockError"
        assert follower.ask("eth_getBlockByNumber", "latest", True) == remote.ask(
            "eth_getBlockByNumber", "latest", True
        )


def test_raw_blocks_and_headers_are_named_by_number_tag_or_hash(shared: Scene) -> None:
    header = shared.node.head
    for which in ("latest", 2, "0x2", hexed(header.hash)):
        assert Header.from_bytes(data(shared.ask("bfl_getRawHeader", which))) == header
        assert data(shared.ask("bfl_getRawBlock", which)) == shared.node.raw_block(2)
    assert Header.from_bytes(data(shared.ask("bfl_getRawHeader", "earliest"))) == shared.node.genesis.header
    for method in ("bfl_getRawBlock", "bfl_getRawHeader"):
        for unknown in (3, 2**64, "0x" + "f" * 63, "0x" + "ee" * 32):
            assert shared.ask(method, unknown) is None
        assert "expected a sealed one" in shared.refusal(method, "pending")["message"]


def test_raw_receipts_are_those_of_the_block(shared: Scene) -> None:
    block = shared.node.block(2)
    assert block is not None
    listed = rlp.decode(zlib.decompress(data(shared.ask("bfl_getRawReceipts", "0x2"))))
    assert tuple(map(decode_receipt, listed)) == block.receipts
    assert shared.ask("bfl_getRawReceipts", "0x3") is None


def test_the_genesis_is_told_as_it_is(shared: Scene) -> None:
    assert read_genesis(shared.ask("bfl_genesis")) == shared.node.genesis


# --- what is pending


def test_the_pool_is_listed_in_the_order_of_arrival(own: Scene, remote: Remote) -> None:
    raw = gradient_of(own, 3)
    assert remote.ask("eth_sendRawTransaction", hexed(raw)) == hexed(keccak(raw))
    assert remote.ask("bfl_pendingTransactions") == [hexed(each) for each in (*own.pending, keccak(raw))]


def test_two_posts_for_one_slot_are_kept_as_evidence(own: Scene, remote: Remote) -> None:
    assert remote.ask("bfl_conflicts") == []
    first, second = gradient_of(own, 2, b"one"), gradient_of(own, 2, b"two")
    remote.ask("eth_sendRawTransaction", hexed(first))
    assert "error" in remote.answer("eth_sendRawTransaction", hexed(second))
    ((left, right),) = remote.ask("bfl_conflicts")
    assert (data(left), data(right)) == (first, second)


# --- proofs


def test_a_proof_convinces_who_knows_the_header_only(shared: Scene) -> None:
    block = shared.node.block(2)
    assert block is not None
    for sent in block.transactions:
        proof = TransactionProof.from_json(shared.ask("bfl_getProof", hexed(sent.hash)))
        transaction, receipt = check_transaction(proof)
        assert proof.header == block.header
        assert (transaction, receipt.status) == (sent, 1)
    assert read_signed_call(decode_transaction(block.transactions[-1].raw), shared.node.genesis).phase == "model"


def test_a_proof_of_something_else_convinces_nobody(shared: Scene) -> None:
    block = shared.node.block(2)
    assert block is not None
    proofs = [shared.ask("bfl_getProof", hexed(each.hash)) for each in block.transactions[:2]]
    swapped = proofs[0] | {"index": proofs[1]["index"]}
    with pytest.raises(ProofError):
        check_transaction(TransactionProof.from_json(swapped))


def test_what_is_not_sealed_has_no_proof(shared: Scene) -> None:
    for each in (shared.pending[0], bytes(32)):
        assert shared.ask("bfl_getProof", hexed(each)) is None
