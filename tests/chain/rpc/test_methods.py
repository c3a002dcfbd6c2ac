"""Ethereum's methods as web3 uses them, on a node in this process and over HTTP: every test runs on both."""

from collections.abc import Iterator
from typing import Any

import pytest
from eth_hash.auto import keccak
from eth_typing import HexStr
from hexbytes import HexBytes
from web3 import HTTPProvider, Web3
from web3.exceptions import BlockNotFound, ContractLogicError, TransactionNotFound, Web3RPCError

from chain.client.keys import address_of
from chain.rpc.in_process import InProcessProvider
from chain.rpc.server import RpcServer, ServerParams
from chain.wire.receipts import block_bloom
from chain.wire.sidecar import payload_digest
from tests.chain.network import CHAIN_ID, SIZES, addresses, named
from tests.chain.scene import Scene, header_of, hexed, leader_of, registry_of, scene

UNKNOWN = HexStr("0x" + "ee" * 32)
# Two pairs of points of the pairing precompile at address 8: half a second in pure Python.
PAIR = (
    f"{1:064x}{2:064x}"
    "198e9393920d483a7260bfb731fb5d25f1aa493335a9e71297e485b7aef312c21800deef121f1e76426a00665e5c4479674322d4f75edadd46"
    "debd5cd992f6ed090689d0585ff075ec9e99ad690c3395bc4b313370b38ef355acdadcd122975b12c85ea5db8c6deb4aab71808dcb408fe3d1"
    "e7690c43d37b4ce6cc0166fa7daa"
)


@pytest.fixture(scope="module", params=["in-process", "http"])
def web3(request: pytest.FixtureRequest, shared: Scene) -> Iterator[Web3]:
    if request.param == "in-process":
        yield Web3(InProcessProvider(shared.node))
        return
    with RpcServer(shared.node, ServerParams(port=0, requests_per_s=1e6)) as url:
        yield Web3(HTTPProvider(url))


# --- the network


def test_the_network_introduces_itself(web3: Any) -> None:
    assert web3.is_connected()
    assert (web3.eth.chain_id, web3.net.version) == (CHAIN_ID, str(CHAIN_ID))
    assert web3.client_version.startswith("bfl")
    assert (web3.eth.syncing, web3.eth.accounts, web3.eth.block_number) == (False, [], 2)


def test_nothing_costs_money(web3: Any, shared: Scene) -> None:
    founder = shared.network.founder.address
    assert (web3.eth.gas_price, web3.eth.max_priority_fee, web3.eth.get_balance(founder)) == (0, 0, 0)


def test_the_fee_history_says_how_full_the_blocks_were(web3: Any, shared: Scene) -> None:
    history = web3.eth.fee_history(2, "latest", [10, 90])
    used = [web3.eth.get_block(number)["gasUsed"] / shared.node.genesis.gas_limit for number in (1, 2)]
    assert (history["oldestBlock"], history["gasUsedRatio"]) == (1, used)
    assert (history["baseFeePerGas"], history["reward"]) == ([0] * 3, [[0, 0]] * 2)
    assert web3.eth.fee_history(10**9, "pending")["oldestBlock"] == 0
    assert web3.eth.fee_history(5, 1)["gasUsedRatio"] == [0, used[0]]
    with pytest.raises(Web3RPCError, match="block 0x3 was not found; the head is 2"):
        web3.eth.fee_history(1, 3)


# --- blocks


def test_a_block_has_its_header_whatever_it_is_called(web3: Any, shared: Scene) -> None:
    for number, names in ((0, ["earliest"]), (1, ["safe", "finalized"]), (2, ["latest"])):
        header = shared.node.header(number)
        assert header is not None
        for name in (number, header.hash, *names):
            block = web3.eth.get_block(name)
            assert header_of(block) == header
            assert bytes(block["hash"]) == header.hash
            assert block["totalDifficulty"] == number + 1
            raw = shared.node.raw_block(number)
            assert raw is not None
            assert block["size"] == len(raw)


def test_a_block_lists_transactions_or_their_hashes(web3: Any, shared: Scene) -> None:
    block = shared.node.block(2)
    assert block is not None
    hashes = web3.eth.get_block(2)["transactions"]
    listed = web3.eth.get_block(2, full_transactions=True)["transactions"]
    assert [bytes(each) for each in hashes] == [transaction.hash for transaction in block.transactions]
    for index, (found, transaction) in enumerate(zip(listed, block.transactions, strict=True)):
        assert found == web3.eth.get_transaction(transaction.hash)
        assert (found["blockNumber"], bytes(found["blockHash"])) == (2, block.header.hash)
        assert (found["transactionIndex"], bytes(found["hash"])) == (index, transaction.hash)


def test_the_pending_block_holds_the_pool_and_nothing_that_its_builder_decides(web3: Any, shared: Scene) -> None:
    block = web3.eth.get_block("pending")
    assert (block["number"], bytes(block["parentHash"])) == (3, shared.node.head.hash)
    assert [bytes(each) for each in block["transactions"]] == list(shared.pending)
    assert block["gasUsed"] == sum(entry.outcome.gas for entry in shared.node.pending())
    for undecided in ("hash", "nonce", "miner", "stateRoot", "logsBloom"):
        assert block[undecided] is None
    assert not block["extraData"]
    full = web3.eth.get_block("pending", full_transactions=True)["transactions"]
    assert [each["blockHash"] for each in full] == [None] * 3


@pytest.mark.parametrize("which", [3, 2**63 - 1, 2**63, 2**256 - 1, UNKNOWN])
def test_an_unknown_block_is_not_found(web3: Any, which: Any) -> None:
    with pytest.raises(BlockNotFound):
        web3.eth.get_block(which)


# --- transactions


def test_a_sealed_transaction_is_found_with_its_place(web3: Any, shared: Scene) -> None:
    block = shared.node.block(2)
    assert block is not None
    sent = block.transactions[0]
    found = web3.eth.get_transaction(sent.hash)
    assert (found["from"], found["to"]) == (
        Web3.to_checksum_address(sent.sender),
        registry_of(web3, shared.node).address,
    )
    assert (bytes(found["input"]), found["nonce"], found["gas"]) == (sent.data, sent.nonce, sent.gas)
    assert (found["type"], found["chainId"], found["value"], found["gasPrice"]) == (2, CHAIN_ID, 0, 0)
    assert int.from_bytes(found["r"], "big") == sent.r
    assert (int.from_bytes(found["s"], "big"), found["yParity"]) == (sent.s, sent.parity)


def test_a_pending_transaction_has_no_place_and_no_receipt(web3: Any, shared: Scene) -> None:
    found = web3.eth.get_transaction(shared.pending[0])
    assert (found["blockHash"], found["blockNumber"], found["transactionIndex"]) == (None, None, None)
    with pytest.raises(TransactionNotFound):
        web3.eth.get_transaction_receipt(shared.pending[0])


def test_an_unknown_transaction_is_not_found(web3: Any) -> None:
    for find in (web3.eth.get_transaction, web3.eth.get_transaction_receipt):
        with pytest.raises(TransactionNotFound):
            find(UNKNOWN)


def test_receipts_add_up_to_their_block(web3: Any, shared: Scene) -> None:
    for number in (1, 2):
        block = shared.node.block(number)
        assert block is not None
        receipts = [web3.eth.get_transaction_receipt(each.hash) for each in block.transactions]
        assert all(receipt["status"] == 1 for receipt in receipts)
        assert sum(receipt["gasUsed"] for receipt in receipts) == block.header.gas_used
        assert receipts[-1]["cumulativeGasUsed"] == block.header.gas_used
        logs = [log for receipt in receipts for log in receipt["logs"]]
        assert [log["logIndex"] for log in logs] == list(range(len(logs)))
        assert block_bloom(block.receipts) == int.from_bytes(web3.eth.get_block(number)["logsBloom"], "big")


def test_only_the_founding_receipt_names_a_contract(web3: Any, shared: Scene) -> None:
    hashes = web3.eth.get_block(1)["transactions"]
    created = [web3.eth.get_transaction_receipt(each)["contractAddress"] for each in hashes]
    assert created == [registry_of(web3, shared.node).address] + [None] * (len(hashes) - 1)


def test_a_receipt_is_read_as_events_of_the_contract(web3: Any, shared: Scene) -> None:
    receipt = web3.eth.get_transaction_receipt(web3.eth.get_block(2)["transactions"][0])
    (event,) = registry_of(web3, shared.node).events.Planned().process_receipt(receipt)
    assert (event["args"]["round"], event["args"]["digest"]) == (1, payload_digest(b"plan"))


def test_nonces_count_what_is_sealed_or_also_what_is_pending(web3: Any, shared: Scene) -> None:
    posted, idle = (shared.network.devices[i].address for i in (0, 3))
    assert [web3.eth.get_transaction_count(posted, which) for which in (1, "latest", "pending")] == [0, 1, 2]
    assert [web3.eth.get_transaction_count(idle, which) for which in (1, "latest", "pending")] == [0, 1, 1]


def test_web3_builds_signs_and_posts_by_itself() -> None:
    """Gas, fees, nonce and chain id are all asked for."""
    own = scene()
    web3: Any = Web3(InProcessProvider(own.node))
    registry, device = registry_of(web3, own.node), own.network.devices[2]
    digests = own.node.ask("model_digest"), own.node.ask("plan_digest")
    call = registry.functions.gradient(2, 0, *digests, 100, 10, *named(bytes(SIZES.gradient)))
    transaction: Any = call.build_transaction(
        {"from": device.address, "nonce": web3.eth.get_transaction_count(device.address, "pending")}
    )
    sent = web3.eth.send_raw_transaction(device.sign_transaction(transaction).raw_transaction)
    assert own.ask("bfl_pendingTransactions")[-1] == hexed(sent)


# --- state


def test_a_contract_reads_the_registrys_views(web3: Any, shared: Scene) -> None:
    functions = registry_of(web3, shared.node).functions
    servers = [Web3.to_checksum_address(each) for each in sorted(addresses(shared.network.servers))]
    assert sorted(functions.server_list().call()) == sorted(servers)
    assert [functions.round().call(block_identifier=which) for which in (1, "latest", "pending")] == [0, 1, 2]
    assert functions.round().call(block_identifier=HexBytes(shared.node.head.hash)) == 1
    device = address_of(shared.network.devices[0])
    assert functions.credit(device).call(block_identifier="pending") == 1
    assert functions.has_posted(device, 1).call(block_identifier="pending") is True
    assert functions.has_posted(device, 1).call(block_identifier="latest") is True
    idle = address_of(shared.network.devices[3])
    assert functions.has_posted(idle, 1).call(block_identifier="pending") is False
    assert functions.payload_sizes().call() == list(SIZES)
    assert functions.settings().call()[2:4] == [shared.network.terms.term_cap, shared.network.terms.flag_window]


def test_a_call_that_reverts_says_why_once(web3: Any, shared: Scene) -> None:
    plan = registry_of(web3, shared.node).functions.plan(2, 0, bytes(32), 4)
    with pytest.raises(ContractLogicError) as reverted:
        plan.call(block_identifier="pending")
    assert reverted.value.message == "execution reverted: not registered"
    sender = Web3.to_checksum_address(leader_of(shared))
    with pytest.raises(ContractLogicError, match="execution reverted: this round is planned"):
        plan.call({"from": sender}, block_identifier="pending")


def test_calldata_has_two_names_which_must_agree(shared: Scene) -> None:
    to, round_ = hexed(shared.node.genesis.registry), hexed(keccak(b"round()")[:4])
    answers = [shared.ask("eth_call", {"to": to, **names}, "pending") for names in (
        {"data": round_}, {"input": round_}, {"data": None, "input": round_}, {"data": round_, "input": round_}
    )]  # fmt: skip
    assert answers == [hexed((2).to_bytes(32, "big"))] * 4
    assert "differ" in shared.refusal("eth_call", {"to": to, "data": "0x00", "input": round_})["message"]
    big = "0x" + "ff" * 1000
    assert shared.ask("eth_estimateGas", {"to": to, "input": big}) == shared.ask(
        "eth_estimateGas", {"to": to, "data": big}
    )


def test_a_call_runs_the_registry_and_nothing_else(web3: Any) -> None:
    """A block's gas is 2,000 pairings: an hour of an unlucky node."""
    for number in (1, 2, 5, 8):
        target = Web3.to_checksum_address(number.to_bytes(20, "big"))
        assert web3.eth.call({"to": target, "data": HexStr("0x" + 2 * PAIR)}) == b""


def test_overrides_are_refused_instead_of_ignored(web3: Any, shared: Scene) -> None:
    registry = registry_of(web3, shared.node).address
    with pytest.raises(Web3RPCError, match="overrides: found some, expected none"):
        web3.eth.call({"to": registry, "data": HexStr("0x")}, "latest", {registry: {"code": HexStr("0x00")}})


def test_code_and_storage_are_of_the_asked_block(web3: Any, shared: Scene) -> None:
    registry = registry_of(web3, shared.node).address
    code = shared.node.code(shared.node.genesis.registry)
    assert [bytes(web3.eth.get_code(registry, which)) for which in ("earliest", 1, "pending")] == [b"", code, code]
    slots = [web3.eth.get_storage_at(registry, slot, "pending") for slot in range(4)]
    assert all(len(slot) == 32 for slot in slots)
    assert 2 in [int.from_bytes(slot, "big") >> 128 for slot in slots]  # the round
    assert web3.eth.get_storage_at(registry, 2**256 - 1) == bytes(32)
    assert bytes(web3.eth.get_code(registry, shared.node.head.hash)) == code


def test_the_state_of_an_unknown_block_is_an_error(web3: Any, shared: Scene) -> None:
    who = shared.network.founder.address
    for which in (3, 2**255, UNKNOWN):
        for read in (web3.eth.get_balance, web3.eth.get_code, web3.eth.get_transaction_count):
            with pytest.raises(Web3RPCError, match="was not found; the head is 2"):
                read(who, which)


def test_a_slot_beyond_256_bits_is_refused(shared: Scene) -> None:
    error = shared.refusal("eth_getStorageAt", hexed(bytes(20)), 2**256)
    assert (error["code"], error["message"][:12]) == (-32602, "slot: found ")


# --- a block is sealed between two questions to the node


def test_a_transaction_sealed_meanwhile_is_found_all_the_same(own: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    own.seal_once_after(monkeypatch, "find_sealed")
    found = own.ask("eth_getTransactionByHash", hexed(own.pending[0]))
    assert found["hash"] == hexed(own.pending[0])


def test_the_pending_block_follows_the_head_it_names(own: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    own.seal_once_after(monkeypatch, "pending")
    block = own.ask("eth_getBlockByNumber", "pending", False)
    assert (block["number"], block["parentHash"], block["transactions"]) == ("0x4", hexed(own.node.head.hash), [])
