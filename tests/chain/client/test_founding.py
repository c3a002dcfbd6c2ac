"""Founding a network (P2) through web3: everything an auditor needs is in block 1, or nothing is founded."""

import pytest

from chain.client.connection import Connection
from chain.client.empty_network import EmptyNetwork
from chain.client.founding import Founding, found_network
from chain.client.keys import address_of
from chain.client.ledger import Ledger
from chain.errors import ContractError, NotRegistryCallError, OversizedTransactionError, RevertedError, RpcError
from chain.node.access import EmptyNode
from chain.node.node import Node
from chain.protocol.contract import PayloadSizes, RegistryTerms
from chain.protocol.genesis import block_gas
from chain.protocol.posts import read_signed_call
from chain.rpc.in_process import web3_in_process
from chain.wire.seal import is_sealed
from chain.wire.sidecar import payload_digest
from tests.chain.network import MODEL_0, SIZES, Clock, Network, account, genesis

NETWORK = Network()
PARAMETERS = b'{"eta":0.1,"scheme":"bfl"}'


def charter(
    homes: dict[bytes, bytes] | None = None,
    model: bytes = MODEL_0,
    parameters: bytes = PARAMETERS,
    sizes: PayloadSizes = SIZES,
    terms: RegistryTerms = NETWORK.terms,
) -> Founding:
    return Founding(NETWORK.homes if homes is None else homes, parameters, model, sizes, terms)


def empty_node(**changes: object) -> Node:
    return Node.in_memory(genesis(**changes), now=Clock())


def founded(node: Node, wanted: Founding) -> Ledger:
    return Ledger(found_network(EmptyNode(node), NETWORK.founder, wanted))


def test_the_founding_block_says_it_all() -> None:
    node = empty_node()
    ledger = founded(node, charter())
    assert node.head.block_number == 1
    assert ledger.participants() == NETWORK.homes
    assert ledger.parameters() == PARAMETERS
    model = ledger.model(0)
    assert model is not None
    assert (model.payload, model.digest, model.sender) == (
        MODEL_0,
        payload_digest(MODEL_0),
        address_of(NETWORK.founder),
    )
    assert (model.size, model.is_here) == (SIZES.model, True)
    assert (ledger.round(), ledger.model_digest()) == (1, payload_digest(MODEL_0))
    assert ledger.access.sizes == SIZES


def test_parameters_and_model_0_are_beside_the_founding_block_and_kept_with_it() -> None:
    node = empty_node()
    founded(node, charter())
    raw = node.raw_block(1)
    assert raw is not None
    assert PARAMETERS not in raw
    assert MODEL_0 not in raw
    digests = {payload_digest(PARAMETERS), payload_digest(MODEL_0)}
    assert {kept.digest for kept in node._store.kept_by(node.head.hash)} == digests


def test_a_network_founded_through_web3_is_the_same_to_the_byte() -> None:
    near, far = empty_node(), empty_node()
    founded(near, charter())
    found_network(EmptyNetwork(web3_in_process(far)), NETWORK.founder, charter())
    assert near.raw_block(1) == far.raw_block(1)


def test_the_founder_creates_registers_founds_and_seals_it_alone() -> None:
    node = empty_node()
    founded(node, charter())
    block = node.block(1)
    assert block is not None
    posts = [read_signed_call(transaction, node.genesis) for transaction in block.transactions]
    assert [post.call.name if post.call else "creation" for post in posts] == ["creation", "register", "found"]
    assert {post.sender for post in posts} == {address_of(NETWORK.founder)} == {block.header.coinbase}
    assert block.header.winner is None
    assert node.pending() == ()


def test_the_founding_is_sealed_by_work() -> None:
    node = empty_node(difficulty=500)
    founded(node, charter())
    assert is_sealed(node.head.mining_hash, node.head.nonce, 500)


def test_the_registry_is_deployed_with_the_charters_terms_where_the_genesis_says() -> None:
    node, terms = empty_node(), RegistryTerms(term_cap=2, flag_window=4, exclusion_rounds=5)
    connection = found_network(EmptyNetwork(web3_in_process(node)), NETWORK.founder, charter(terms=terms))
    assert connection.registry == node.genesis.registry
    assert (connection.settings.term_cap, connection.settings.flag_window) == (2, 4)
    settings = connection.ask("settings")
    assert settings[1:] == (False, 2, 4, 5, 1)
    assert settings[0] == node.genesis.founder_address


def test_servers_are_registered_before_their_devices_however_they_are_listed() -> None:
    homes = dict(sorted(NETWORK.homes.items(), key=lambda item: item[0] == item[1]))
    first = next(iter(homes))
    assert homes[first] != first, "a device comes first"
    assert founded(empty_node(), charter(homes)).participants() == NETWORK.homes


def test_many_participants_are_registered_in_batches() -> None:
    servers: dict[bytes, bytes] = {address_of(account(f"s{i}")): address_of(account(f"s{i}")) for i in range(5)}
    devices: dict[bytes, bytes] = {i.to_bytes(20, "big"): list(servers)[i % 5] for i in range(1, 141)}
    node = empty_node(gas_limit=block_gas(300))
    assert founded(node, charter(servers | devices)).participants() == servers | devices
    block = node.block(1)
    assert block is not None
    assert len(block.transactions) == 5, "creation, 64 + 64 + 17, found"


def test_a_model_as_large_as_one_likes_is_founded_by_the_same_small_call() -> None:
    model = bytes(i % 251 for i in range(5 << 20))
    node = empty_node()
    found = founded(node, charter(model=model, sizes=SIZES._replace(model=len(model)))).model(0)
    assert found is not None
    assert (found.payload, found.size) == (model, len(model))
    block = node.block(1)
    assert block is not None
    assert len(block.transactions[-1].data) < 500


# --- refusals


def test_only_the_founder_of_the_genesis_founds() -> None:
    with pytest.raises(NotRegistryCallError, match="only the founder creates"):
        found_network(EmptyNode(empty_node()), account("somebody"), charter())


def test_a_network_is_founded_once() -> None:
    node = empty_node()
    founded(node, charter())
    with pytest.raises(OversizedTransactionError, match="expected at most 8192"):  # of a network that is founded
        founded(node, charter())
    assert node.head.block_number == 1


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (charter(homes={}), "no edge server is registered"),
        (charter(homes={b"\1" * 20: b"\2" * 20}), "the home is no edge server"),
        (charter(homes={bytes(20): bytes(20)}), "no address"),
        (charter(parameters=b""), "no parameters"),
        (charter(sizes=SIZES._replace(gradient=0)), r"a payload has 1 byte to 2\*\*48"),
    ],
)
def test_what_the_registry_refuses_is_not_founded(wanted: Founding, reason: str) -> None:
    node = empty_node()
    with pytest.raises(RevertedError, match=f"^{reason}$"):
        founded(node, wanted)
    assert node.head.block_number == 0


def test_a_model_0_of_another_size_than_models_have_is_refused_before_anything_is_posted() -> None:
    node = empty_node()
    with pytest.raises(ContractError, match="model 0 has 7 bytes, models are founded with 52"):
        founded(node, charter(model=b"model 0"))
    assert node.pending() == ()


def test_before_the_founding_there_is_nothing_to_connect_to() -> None:
    node = empty_node()
    with pytest.raises(RpcError, match="is the network founded"):
        Connection(web3_in_process(node), node.genesis.registry)
