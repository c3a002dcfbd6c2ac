"""One suite for every ledger: our node in this process, our node over HTTP, and anvil (C1)."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak

from benchmarks.anvil import ABSENT, anvil, find_anvil
from chain.client.access import ChainAccess, EmptyChain
from chain.client.connection import Connection, EmptyNetwork, web3_over_http
from chain.client.founding import Founding, found_network
from chain.client.keys import address_of
from chain.client.ledger import Ledger
from chain.errors import DeadlineError, LedgerError, NodeUnreachableError, RevertedError, RpcError, WorkError
from chain.node.access import EmptyNode, NodeAccess
from chain.node.node import Node
from chain.protocol import contract
from chain.protocol.contract import RegistryTerms, encode_call
from chain.protocol.slots import Slot, iterate_slot
from chain.rpc.server import RpcServer, ServerParams
from chain.wire.seal import find_nonce, is_sealed
from chain.wire.transactions import Envelope, decode_transaction, sign_transaction
from tests.chain.network import Clock, Network, genesis

PARAMETERS = b'{"scheme":"bfl"}'
MODEL_0 = b"model 0" * 10
KINDS = ("in-process", "http", "anvil")


@dataclass
class Harness:
    """A founded network of some kind."""

    kind: str
    network: Network
    reader: Ledger
    node: Node | None

    def by(self, account: LocalAccount) -> Ledger:
        return self.reader.signed_by(account)

    @property
    def leader(self) -> LocalAccount:
        leader = self.reader.leader()
        return next(s for s in self.network.servers if address_of(s) == leader)

    def run_to_model(self, round_: int, model: bytes, steps: int = 1) -> LocalAccount:
        leader = self.leader
        self.by(leader).post(Slot.PLAN, round_, b"plan")
        for device in self.network.devices:
            digests = (self.reader.model_digest(), self.reader.plan_digest())
            self.by(device).submit_gradient(round_, *digests, 100, 10, b"gradient of " + address_of(device))
        self.by(leader).post(Slot.CLOSE, round_, b"closed")
        for step in range(steps + 1):
            for server in self.network.servers:
                self.by(server).post(iterate_slot(step), round_, b"iterate %d of " % step + address_of(server))
        self.by(leader).post(Slot.MODEL, round_, model)
        return leader

    def seal(self, leader: LocalAccount, device: LocalAccount) -> None:
        if self.node is not None:
            self.by(leader).propose()
        task = self.by(device).mining_task()
        nonce = find_nonce(task.puzzle, task.difficulty)
        assert nonce is not None
        self.by(device).submit_nonce(task, nonce)

    def run_round(self, round_: int, model: bytes) -> LocalAccount:
        leader = self.run_to_model(round_, model)
        self.seal(leader, self.network.devices[0])
        return leader


@pytest.fixture(params=KINDS)
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    network = Network()
    with ExitStack() as stack:
        node: Node | None = None
        chain: EmptyChain[ChainAccess]
        if request.param == "anvil":
            program = find_anvil()
            if program is None:
                pytest.skip(ABSENT)
            accounts = [*network.servers, *network.devices, network.founder]
            url = stack.enter_context(anvil(program, [each.address for each in accounts]))
            chain = EmptyNetwork(web3_over_http(url))
            terms = RegistryTerms(contract_seal=True, turn_s=3600, seal_difficulty=64)
        else:
            node = Node.in_memory(genesis(), now=Clock())
            stack.callback(node.close)
            chain, terms = EmptyNode(node), RegistryTerms(turn_s=3600)
            if request.param == "http":
                url = stack.enter_context(RpcServer(node, ServerParams(port=0)))
                chain = EmptyNetwork(web3_over_http(url))
        charter = Founding(network.homes, PARAMETERS, MODEL_0, network.payload_bytes, terms)
        access = found_network(chain, network.founder, charter)
        yield Harness(request.param, network, Ledger(access, deadline_s=20), node)


def test_the_founding_is_on_the_ledger(harness: Harness) -> None:
    model = harness.reader.model(0)
    assert model is not None
    assert (model.payload, model.digest, model.sender) == (
        MODEL_0,
        keccak(MODEL_0),
        address_of(harness.network.founder),
    )
    assert harness.reader.parameters() == PARAMETERS
    assert harness.reader.participants() == harness.network.homes
    assert harness.reader.round() == 1


def test_a_whole_round_is_posted_read_and_sealed(harness: Harness) -> None:
    leader = harness.run_round(1, b"model 1")
    reader, devices = harness.reader, harness.network.devices
    assert reader.round() == 2
    plan, close, model = reader.plan(1), reader.close(1), reader.model(1)
    assert plan is not None
    assert close is not None
    assert model is not None
    assert (plan.payload, close.payload, model.payload) == (b"plan", b"closed", b"model 1")
    assert {plan.sender, close.sender, model.sender} == {address_of(leader)}
    gradients = reader.gradients(1)
    assert list(gradients) == sorted(address_of(device) for device in devices)
    for sender, gradient in gradients.items():
        assert gradient.payload == b"gradient of " + sender
        assert (gradient.arguments["samples"], gradient.arguments["iterations"]) == (100, 10)
        assert gradient.arguments["base_model"] == keccak(MODEL_0)
        assert gradient.is_intact
    assert {post.payload for post in reader.iterates(1, 1).values()} == {
        b"iterate 1 of " + address_of(server) for server in harness.network.servers
    }
    assert reader.iterates(1, 2) == {}
    assert reader.credit(address_of(devices[0])) == 1
    assert reader.leader() == harness.network.homes[address_of(devices[0])]


def test_posts_are_visible_before_the_round_is_sealed(harness: Harness) -> None:
    harness.by(harness.leader).post(Slot.PLAN, 1, b"plan")
    plan = harness.reader.plan(1)
    assert plan is not None
    assert plan.digest == harness.reader.plan_digest() == keccak(b"plan")


def test_rounds_follow_each_other_and_old_ones_stay_readable(harness: Harness) -> None:
    for round_ in (1, 2, 3):
        harness.run_round(round_, b"model %d" % round_)
    models = [harness.reader.model(round_) for round_ in range(4)]
    assert [model.payload for model in models if model is not None] == [MODEL_0, b"model 1", b"model 2", b"model 3"]
    assert harness.reader.model(4) is None
    harness.reader.wait_for_round(4, deadline_s=5)


def _refusals(harness: Harness) -> dict[str, Callable[[], object]]:
    """What is refused, by the registry's reason; the plan of round 1 and a gradient of device 0 are there."""
    leader, device, other = harness.leader, harness.network.devices[0], harness.network.devices[1]
    successor = next(s for s in harness.network.servers if harness.reader.rank(address_of(s)) == 1)
    base, plan, wrong = harness.reader.model_digest(), harness.reader.plan_digest(), bytes(32)
    by = harness.by
    return {
        "not an edge server": lambda: by(device).post(Slot.CLOSE, 1, b"x"),
        "a successor before its turn": lambda: by(successor).post(Slot.CLOSE, 1, b"x"),
        "not registered": lambda: by(harness.network.founder).submit_gradient(1, base, plan, 1, 1, b"x"),
        "gradient for another base model": lambda: by(other).submit_gradient(1, wrong, plan, 1, 1, b"x"),
        "gradient for another plan": lambda: by(other).submit_gradient(1, base, wrong, 1, 1, b"x"),
        "no samples or no iterations": lambda: by(other).submit_gradient(1, base, plan, 0, 1, b"x"),
        "already posted": lambda: by(device).submit_gradient(1, base, plan, 1, 1, b"y"),
        "this round is planned": lambda: by(leader).post(Slot.PLAN, 1, b"another"),
        "this round is not closed": lambda: by(leader).post(iterate_slot(0), 1, b"x"),
        "wrong round": lambda: by(leader).post(Slot.CLOSE, 2, b"x"),
    }


def test_what_the_registry_refuses_raises_with_its_reason(harness: Harness) -> None:
    harness.by(harness.leader).post(Slot.PLAN, 1, b"plan")
    digests = (harness.reader.model_digest(), harness.reader.plan_digest())
    harness.by(harness.network.devices[0]).submit_gradient(1, *digests, 1, 1, b"x")
    for reason, refused in _refusals(harness).items():
        with pytest.raises(RevertedError, match=f"^{reason}$"):
            refused()


def test_a_payload_beyond_one_transaction_travels_in_chunks(harness: Harness) -> None:
    limit = harness.reader.access.settings.payload_bytes if harness.node else contract.CHUNK_BYTES
    payload = bytes(range(256)) * (limit // 256 + 10)
    harness.by(harness.leader).post(Slot.PLAN, 1, payload)
    plan = harness.reader.plan(1)
    assert plan is not None
    assert plan.payload == payload
    assert plan.is_intact
    assert plan.arguments["chunks"] == 2


def test_flags_of_a_majority_exclude_a_server(harness: Harness) -> None:
    leader = harness.leader
    harness.by(leader).post(Slot.PLAN, 1, b"plan")
    harness.by(leader).post(Slot.CLOSE, 1, b"closed")
    liar = next(server for server in harness.network.servers if server is not leader)
    sent = harness.by(liar).post(iterate_slot(0), 1, b"a lie")
    honest = [server for server in harness.network.servers if server is not liar]
    for server in honest:
        assert not harness.reader.is_excluded(address_of(liar))
        harness.by(server).submit_flag(1, address_of(liar), Slot.ITERATE, sent, keccak(b"the truth"))
    assert harness.reader.is_excluded(address_of(liar))
    flags = harness.reader.flags(1)
    assert {flag.server for flag in flags} == {address_of(server) for server in honest}
    assert all((flag.offender, flag.transaction_hash) == (address_of(liar), sent) for flag in flags)
    with pytest.raises(RevertedError, match="excluded"):
        harness.by(liar).post(iterate_slot(1), 1, b"more")


def test_equivocation_is_proven_by_two_signatures(harness: Harness) -> None:
    leader = harness.leader
    harness.by(leader).post(Slot.PLAN, 1, b"plan")
    harness.by(leader).post(Slot.CLOSE, 1, b"closed")
    liar = next(server for server in harness.network.servers if server is not leader)
    pair = [_signed_iterate(harness, liar, payload) for payload in (b"to you", b"to others")]
    first, second = (decode_transaction(raw) for raw in pair)
    harness.by(leader).submit_equivocation(1, first, second)
    assert [flag.slot for flag in harness.reader.flags(1)] == [Slot.EQUIVOCATION]
    other = next(s for s in harness.network.servers if s not in (leader, liar))
    with pytest.raises(RevertedError, match="the same transaction twice"):
        harness.by(other).submit_equivocation(1, first, first)


def _signed_iterate(harness: Harness, server: LocalAccount, payload: bytes) -> bytes:
    access = harness.reader.access
    envelope = Envelope(access.chain_id, 0, 3_000_000, access.registry)
    return sign_transaction(server, envelope, encode_call("iterate", 1, 0, keccak(payload), 0, payload))


def test_a_new_device_joins_by_votes(harness: Harness) -> None:
    newcomer, home = b"\x77" * 20, address_of(harness.network.servers[0])
    harness.by(harness.network.servers[0]).submit_vote(newcomer, home)
    assert newcomer not in harness.reader.participants()
    harness.by(harness.network.servers[1]).submit_vote(newcomer, home)
    assert harness.reader.participants()[newcomer] == home


def test_waiting_returns_what_is_there_at_the_deadline(harness: Harness) -> None:
    harness.by(harness.leader).post(Slot.PLAN, 1, b"plan")
    devices = [address_of(device) for device in harness.network.devices]
    digests = (harness.reader.model_digest(), harness.reader.plan_digest())
    harness.by(harness.network.devices[0]).submit_gradient(1, *digests, 1, 1, b"x")
    found = harness.reader.wait_for(1, Slot.GRADIENT, devices, deadline_s=0.2)
    assert list(found) == [devices[0]]
    with pytest.raises(DeadlineError, match="round 2 has not begun"):
        harness.reader.wait_for_round(2, deadline_s=0.2)


def test_a_nonce_stolen_from_another_device_is_refused(harness: Harness) -> None:
    leader = harness.run_to_model(1, b"model 1")
    if harness.node is not None:
        harness.by(leader).propose()
    miner, thief = harness.network.devices[:2]
    task, stolen = harness.by(miner).mining_task(), harness.by(thief).mining_task()
    assert task.puzzle != stolen.puzzle
    nonce = _nonce_for_one(task.puzzle, stolen.puzzle, task.difficulty)
    with pytest.raises((WorkError, RevertedError), match=r"no candidate|does not solve the puzzle"):
        harness.by(thief).submit_nonce(task, nonce)
    harness.by(miner).submit_nonce(task, nonce)
    assert harness.reader.round() == 2


def _nonce_for_one(puzzle: bytes, other: bytes, difficulty: int) -> bytes:
    """A nonce that solves `puzzle` and not `other`; at difficulty 1 every nonce solves both."""
    start = 0
    while True:
        nonce = find_nonce(puzzle, difficulty, start)
        assert nonce is not None
        if difficulty == 1 or not is_sealed(other, nonce, difficulty):
            return nonce
        start = int.from_bytes(nonce, "big") + 1


def test_a_reader_without_a_key_cannot_post(harness: Harness) -> None:
    with pytest.raises(LedgerError, match="for reading"):
        harness.reader.post(Slot.PLAN, 1, b"plan")


def test_no_registry_at_the_address_is_said_so(harness: Harness) -> None:
    access = harness.reader.access
    if isinstance(access, Connection):
        with pytest.raises(RpcError, match="no registry at 0x0101"):
            Connection(access.web3, b"\x01" * 20)
    with pytest.raises(RpcError, match="is the network founded"):
        NodeAccess(Node.in_memory(genesis()))


def test_a_node_that_is_not_there_is_said_so() -> None:
    with pytest.raises(NodeUnreachableError, match="no node answers"):
        Ledger.connect("http://127.0.0.1:9", b"\x01" * 20)
