"""One suite for every ledger: our node in this process, our node over HTTP, and anvil (C1)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from eth_account.signers.local import LocalAccount

from benchmarks.anvil import ABSENT, anvil, find_anvil
from chain.client.access import ChainAccess, EmptyChain
from chain.client.asking import web3_over_http
from chain.client.connection import Connection
from chain.client.empty_network import EmptyNetwork
from chain.client.founding import Founding, found_network
from chain.client.keys import address_of
from chain.client.ledger import Ledger
from chain.client.payloads import MemoryShelf
from chain.errors import (
    DeadlineError,
    LedgerError,
    NodeUnreachableError,
    RevertedError,
    RpcError,
    SidecarSizeError,
    WorkError,
)
from chain.node.access import EmptyNode, NodeAccess
from chain.node.node import Node
from chain.protocol.contract import RegistryTerms, encode_call
from chain.protocol.slots import Slot, iterate_slot
from chain.rpc.server import RpcServer, ServerParams
from chain.wire.seal import find_nonce, is_sealed
from chain.wire.sidecar import payload_digest
from chain.wire.transactions import Envelope, decode_transaction, sign_transaction
from tests.chain.network import MODEL_0, PARAMETERS, SIZES, Clock, Network, genesis, named, sized

KINDS = ("in-process", "http", "anvil")
GRADIENT, ITERATE = sized(b"gradient", SIZES.gradient), sized(b"iterate", SIZES.iterate)
MODEL_1 = sized(b"model 1", SIZES.model)


def iterate_of(step: int, server: bytes) -> bytes:
    return sized(b"iterate %d " % step + server, SIZES.iterate)


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
                self.by(server).post(iterate_slot(step), round_, iterate_of(step, address_of(server)))
        self.by(leader).post(Slot.MODEL, round_, model)
        return leader

    def agree(self, leader: LocalAccount) -> None:
        """What makes the round ready for mining: a candidate block, or a majority that endorses its result (B7)."""
        if self.node is not None:
            self.by(leader).propose()
            return
        self.endorse(self.network.servers[:2])

    def endorse(self, servers: Sequence[LocalAccount], result: bytes | None = None) -> None:
        """Servers sign the running round's result, and the first of them posts it."""
        round_, digest = self.reader.round(), self.reader.result() if result is None else result
        self.by(servers[0]).submit_endorsements([self.by(server).endorse(round_, 0, digest, 0) for server in servers])

    def seal(self, leader: LocalAccount, device: LocalAccount) -> None:
        self.agree(leader)
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
            chain = EmptyNetwork(web3_over_http(url), MemoryShelf())
            terms = RegistryTerms(contract_seal=True, seal_difficulty=64)
        else:
            node = Node.in_memory(genesis(), now=Clock())
            stack.callback(node.close)
            chain, terms = EmptyNode(node), RegistryTerms()
            if request.param == "http":
                url = stack.enter_context(RpcServer(node, ServerParams(port=0)))
                chain = EmptyNetwork(web3_over_http(url))
        charter = Founding(network.homes, PARAMETERS, MODEL_0, network.sizes, terms)
        access = found_network(chain, network.founder, charter)
        yield Harness(request.param, network, Ledger(access, deadline_s=20), node)


def test_the_founding_is_on_the_ledger(harness: Harness) -> None:
    model = harness.reader.model(0)
    assert model is not None
    assert (model.payload, model.digest, model.sender) == (
        MODEL_0,
        payload_digest(MODEL_0),
        address_of(harness.network.founder),
    )
    assert harness.reader.parameters() == PARAMETERS
    assert harness.reader.access.sizes == SIZES
    assert harness.reader.participants() == harness.network.homes
    assert harness.reader.round() == 1


def test_a_whole_round_is_posted_read_and_sealed(harness: Harness) -> None:
    leader = harness.run_round(1, MODEL_1)
    reader, devices = harness.reader, harness.network.devices
    assert reader.round() == 2
    plan, close, model = reader.plan(1), reader.close(1), reader.model(1)
    assert plan is not None
    assert close is not None
    assert model is not None
    assert (plan.payload, close.payload, model.payload) == (b"plan", b"closed", MODEL_1)
    assert {plan.sender, close.sender, model.sender} == {address_of(leader)}
    gradients = reader.gradients(1)
    assert list(gradients) == sorted(address_of(device) for device in devices)
    for sender, gradient in gradients.items():
        assert gradient.payload == b"gradient of " + sender
        assert (gradient.arguments["samples"], gradient.arguments["iterations"]) == (100, 10)
        assert gradient.arguments["base_model"] == payload_digest(MODEL_0)
        assert gradient.arguments["plan_digest"] == plan.digest
    assert close.arguments["plan_digest"] == plan.digest
    assert model.arguments["close_digest"] == close.digest
    assert {sender: (post.digest, post.size) for sender, post in reader.iterates(1, 1).items()} == {
        address_of(server): named(iterate_of(1, address_of(server))) for server in harness.network.servers
    }
    assert reader.iterates(1, 2) == {}
    assert reader.credit(address_of(devices[0])) == 1
    assert reader.leader() == harness.network.homes[address_of(devices[0])]


def test_posts_are_visible_before_the_round_is_sealed(harness: Harness) -> None:
    harness.by(harness.leader).post(Slot.PLAN, 1, b"plan")
    plan = harness.reader.plan(1)
    assert plan is not None
    assert plan.digest == harness.reader.plan_digest() == payload_digest(b"plan")
    assert (plan.payload, plan.is_here) == (b"plan", True)


def test_neighbours_read_iterates_while_the_round_runs_and_our_chain_does_not_store_them(harness: Harness) -> None:
    leader = harness.run_to_model(1, MODEL_1)
    servers = [address_of(server) for server in harness.network.servers]
    said = {sender: post.payload for sender, post in harness.reader.iterates(1, 0).items()}
    assert said == {server: iterate_of(0, server) for server in servers}
    harness.seal(leader, harness.network.devices[0])
    if harness.node is not None:
        assert not any(harness.node.has_payload(post.digest) for post in harness.reader.iterates(1, 0).values())


def test_rounds_follow_each_other_and_old_ones_stay_readable(harness: Harness) -> None:
    for round_ in (1, 2, 3):
        harness.run_round(round_, sized(b"model %d" % round_, SIZES.model))
    models = [harness.reader.model(round_) for round_ in range(4)]
    assert [model.payload for model in models if model is not None] == [
        sized(b"model %d" % round_, SIZES.model) for round_ in range(4)
    ]
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
        "not the leader of this attempt": lambda: by(successor).post(Slot.CLOSE, 1, b"x"),
        "not registered": lambda: by(harness.network.founder).submit_gradient(1, base, plan, 1, 1, GRADIENT),
        "gradient for another base model": lambda: by(other).submit_gradient(1, wrong, plan, 1, 1, GRADIENT),
        "gradient for another plan": lambda: by(other).submit_gradient(1, base, wrong, 1, 1, GRADIENT),
        "no samples or no iterations": lambda: by(other).submit_gradient(1, base, plan, 0, 1, GRADIENT),
        "already posted": lambda: by(device).submit_gradient(1, base, plan, 1, 1, GRADIENT),
        "a close for another plan": lambda: by(leader).post(Slot.CLOSE, 1, b"x", plan_digest=wrong),
        "this round is planned": lambda: by(leader).post(Slot.PLAN, 1, b"another"),
        "this round is not closed": lambda: by(leader).post(iterate_slot(0), 1, ITERATE),
        "wrong round": lambda: by(leader).post(Slot.CLOSE, 2, b"x"),
    }


def test_what_the_registry_refuses_raises_with_its_reason(harness: Harness) -> None:
    harness.by(harness.leader).post(Slot.PLAN, 1, b"plan")
    digests = (harness.reader.model_digest(), harness.reader.plan_digest())
    harness.by(harness.network.devices[0]).submit_gradient(1, *digests, 1, 1, GRADIENT)
    for reason, refused in _refusals(harness).items():
        with pytest.raises(RevertedError, match=f"^{reason}$"):
            refused()


def test_payloads_have_the_founded_sizes(harness: Harness) -> None:
    """Our own node refuses others at its door, another network's registry when it is called."""
    leader, most = harness.by(harness.leader), SIZES.plan
    with pytest.raises(
        (SidecarSizeError, RevertedError), match=r"(a plan of this size was not founded|4097 bytes of plan)"
    ):
        leader.post(Slot.PLAN, 1, bytes(most + 1))
    leader.post(Slot.PLAN, 1, bytes(most))
    device = harness.by(harness.network.devices[0])
    digests = (harness.reader.model_digest(), harness.reader.plan_digest())
    for size in (SIZES.gradient - 1, SIZES.gradient + 1):
        with pytest.raises(
            (SidecarSizeError, RevertedError), match=r"(a gradient of this size was not founded|3. bytes of gradient)"
        ):
            device.submit_gradient(1, *digests, 1, 1, bytes(size))
    device.submit_gradient(1, *digests, 1, 1, bytes(SIZES.gradient))


def test_flags_of_a_majority_exclude_a_server(harness: Harness) -> None:
    leader = harness.leader
    harness.by(leader).post(Slot.PLAN, 1, b"plan")
    harness.by(leader).post(Slot.CLOSE, 1, b"closed")
    liar = next(server for server in harness.network.servers if server is not leader)
    sent = harness.by(liar).post(iterate_slot(0), 1, sized(b"a lie", SIZES.iterate))
    honest = [server for server in harness.network.servers if server is not liar]
    for server in honest:
        assert not harness.reader.is_excluded(address_of(liar))
        harness.by(server).submit_flag(1, address_of(liar), Slot.ITERATE, sent, payload_digest(b"the truth"))
    assert harness.reader.is_excluded(address_of(liar))
    flags = harness.reader.flags(1)
    assert {flag.server for flag in flags} == {address_of(server) for server in honest}
    assert all((flag.offender, flag.transaction_hash) == (address_of(liar), sent) for flag in flags)
    with pytest.raises(RevertedError, match="excluded"):
        harness.by(liar).post(iterate_slot(1), 1, sized(b"more", SIZES.iterate))


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
    close, beside = harness.reader.close_digest(), named(sized(payload, SIZES.iterate))
    return sign_transaction(server, envelope, encode_call("iterate", 1, 0, 0, close, *beside))


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
    harness.by(harness.network.devices[0]).submit_gradient(1, *digests, 1, 1, GRADIENT)
    found = harness.reader.wait_for(1, Slot.GRADIENT, devices, deadline_s=0.2)
    assert list(found) == [devices[0]]
    with pytest.raises(DeadlineError, match="round 2 has not begun"):
        harness.reader.wait_for_round(2, deadline_s=0.2)


def test_a_nonce_stolen_from_another_device_is_refused(harness: Harness) -> None:
    harness.agree(harness.run_to_model(1, MODEL_1))
    miner, thief = harness.network.devices[:2]
    task, stolen = harness.by(miner).mining_task(), harness.by(thief).mining_task()
    assert task.puzzle != stolen.puzzle
    nonce = _nonce_for_one(task.puzzle, stolen.puzzle, task.difficulty)
    with pytest.raises((WorkError, RevertedError), match=r"no candidate|does not solve the puzzle"):
        harness.by(thief).submit_nonce(task, nonce)
    harness.by(miner).submit_nonce(task, nonce)
    assert harness.reader.round() == 2


def test_an_external_round_is_sealed_only_after_a_majority_has_endorsed_its_result(harness: Harness) -> None:
    if harness.node is not None:
        pytest.skip("a round of our own node is sealed by its block")
    with pytest.raises(RevertedError, match=r"^this round has no model$"):
        harness.endorse(harness.network.servers[:2])
    harness.run_to_model(1, MODEL_1)
    device, first, second = harness.network.devices[0], *harness.network.servers[:2]
    task = harness.by(device).mining_task()
    nonce = find_nonce(task.puzzle, task.difficulty)
    assert nonce is not None
    with pytest.raises(RevertedError, match=r"^not the result of this round$"):
        harness.endorse([first, second], bytes(32))
    harness.endorse([first])
    with pytest.raises(RevertedError, match=r"^no majority has endorsed this round's result$"):
        harness.by(device).submit_nonce(task, nonce)
    harness.endorse([second, first])
    harness.by(device).submit_nonce(task, nonce)
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
