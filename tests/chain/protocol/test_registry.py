"""Every rule of the registry contract, executed: who may post what, when, and what an attacker gets."""

import hashlib
import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import rlp
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak
from eth_keys import keys

from chain.client.keys import address_of
from chain.errors import (
    LeaderError,
    NotRegistryCallError,
    OversizedPayloadError,
    RevertedError,
    UnregisteredSenderError,
)
from chain.node.node import Node
from chain.protocol import contract
from chain.protocol.contract import Call, RegistryTerms, encode_call, registry_settings
from chain.protocol.slots import MAX_STEP, Slot, iterate_slot
from chain.wire.seal import contract_puzzle, find_nonce, seal_hash, target
from chain.wire.transactions import Envelope, Transaction, decode_transaction, sign_transaction
from tests.chain.network import (
    CHAIN_ID,
    MODEL_0,
    START,
    TERMS,
    BareRegistry,
    Clock,
    Network,
    account,
    addresses,
    founded_node,
    genesis,
    seal,
)

NOBODY = bytes(20)
NEVER = 2**256 - 1
STRANGER = account("stranger")
SECP256K1_N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def reverts(reason: str) -> Any:
    """The registry refuses for exactly this reason."""
    return pytest.raises(RevertedError, match=f"^{re.escape(reason)}$")


def text(address: bytes) -> str:
    """As eth_abi shows addresses."""
    return "0x" + address.hex()


@dataclass
class Bench:
    """A founded network and its node, whose rounds pass when told to."""

    network: Network = field(default_factory=Network)
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.node: Node = founded_node(self.network, self.clock)

    @property
    def round(self) -> int:
        return int(self.node.ask("round"))

    @property
    def leader(self) -> LocalAccount:
        return self.network.leader(self.node)

    @property
    def others(self) -> list[LocalAccount]:
        """The servers that do not lead."""
        return [server for server in self.network.servers if server != self.leader]

    def post(self, sender: LocalAccount, name: str, *arguments: Any, **changes: Any) -> list[Call]:
        """Post a call; returns its events."""
        entry = self.node.pool.find(self.network.post(self.node, sender, name, *arguments, **changes))
        assert entry is not None
        events = [contract.decode_log(log.topics, log.data) for log in entry.outcome.logs]
        return [event for event in events if event is not None]

    def plan(self, sender: LocalAccount | None = None, payload: bytes = b"plan") -> list[Call]:
        return self.post(sender or self.leader, "plan", self.round, keccak(payload), 0, payload)

    def close(self, sender: LocalAccount | None = None) -> list[Call]:
        return self.post(sender or self.leader, "close", self.round, keccak(b"closed"), 0, b"closed")

    def model(self, sender: LocalAccount | None = None) -> list[Call]:
        return self.post(sender or self.leader, "model", self.round, keccak(b"model"), 0, b"model")

    def iterate(self, sender: LocalAccount, step: int = 0, payload: bytes = b"iterate") -> list[Call]:
        return self.post(sender, "iterate", self.round, step, keccak(payload), 0, payload)

    def gradient(self, sender: LocalAccount, **changes: Any) -> list[Call]:
        said = {
            "round": self.round,
            "base_model": self.node.ask("model_digest"),
            "plan_digest": self.node.ask("plan_digest"),
            "samples": 100,
            "iterations": 10,
            "digest": keccak(b"gradient"),
            "chunks": 0,
            "payload": b"gradient",
        }
        return self.post(sender, "gradient", *(said | changes).values())

    def flag(
        self, server: LocalAccount, offender: LocalAccount, slot: int = Slot.ITERATE, sent: bytes = b""
    ) -> list[Call]:
        said = (address_of(offender), slot, sent.rjust(32, b"\0"), keccak(b"expected"))
        return self.post(server, "flag", self.round, *said, b"")

    def exclude(self, offender: LocalAccount, by: Sequence[LocalAccount] = ()) -> None:
        """Have everybody else (or `by`) flag it until it is excluded."""
        for server in by or self.network.servers:
            if server != offender and not self.is_excluded(offender) and not self.is_excluded(server):
                self.flag(server, offender)
        assert self.is_excluded(offender)

    def vote(self, server: LocalAccount, participant: LocalAccount, home: LocalAccount) -> list[Call]:
        return self.post(server, "vote", address_of(participant), address_of(home))

    def is_excluded(self, who: LocalAccount) -> bool:
        return bool(self.node.ask("is_excluded", address_of(who)))

    def rank(self, who: LocalAccount) -> int:
        return int(self.node.ask("rank", address_of(who)))

    def end_round(self, winner: LocalAccount | None = None, leader: LocalAccount | None = None) -> None:
        """Seal what is posted."""
        self.node.propose(address_of(leader or self.leader))
        seal(self.node, address_of(winner or self.network.devices[0]))

    def end_rounds(self, count: int) -> None:
        for _ in range(count):
            self.end_round()


def bench_of(servers: int, **terms: Any) -> Bench:
    """A network of so many servers."""
    accounts = [account(f"server {i}") for i in range(servers)]
    return Bench(Network(servers=accounts, terms=replace(TERMS, **terms)))


@dataclass
class Bare:
    """The registry without a chain around it: three servers, two devices each; the first server leads round 1."""

    terms: RegistryTerms = TERMS
    payload_bytes: int = 4096

    def __post_init__(self) -> None:
        self.servers = [account(f"server {i}") for i in range(3)]
        self.devices = [account(f"device {i}") for i in range(6)]
        self.network = Network(self.servers, self.devices, terms=self.terms)
        self.registry = BareRegistry(self.terms, self.payload_bytes)
        self.registry.found(self.network.homes)
        if not self.terms.contract_seal:
            self.registry.begin(address_of(self.devices[0]), NOBODY, keccak(b"block 1"), START)

    def send(self, sender: LocalAccount, name: str, *arguments: Any) -> list[Call]:
        return self.registry.send(address_of(sender), name, *arguments)


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --- founding (P2)


@pytest.fixture
def new() -> Iterator[tuple[Network, Node]]:
    """A network whose registry is deployed and empty."""
    network, node = Network(), Node.in_memory(genesis(), now=Clock())
    creation = contract.deployment(network.payload_bytes, network.terms)
    node.submit(sign_transaction(network.founder, Envelope(CHAIN_ID, 0, 20_000_000, b""), creation))
    yield network, node
    node.close()


def test_the_founding_block_knows_every_participant_and_its_home(bench: Bench) -> None:
    ask, network = bench.node.ask, bench.network
    assert {who: bytes.fromhex(ask("home", who)[2:]) for who in network.homes} == network.homes
    assert list(ask("server_list")) == [text(server) for server in addresses(network.servers)]
    assert [ask("is_device", who) for who in network.homes] == [False] * 3 + [True] * 4
    assert ask("home", address_of(STRANGER)) == text(NOBODY)
    assert not ask("is_device", address_of(STRANGER))


def test_the_first_round_starts_from_model_0_with_nothing_posted(bench: Bench) -> None:
    ask = bench.node.ask
    assert ask("founded")
    assert (ask("round"), ask("planned"), ask("closed"), ask("published")) == (1, 0, 0, 0)
    assert ask("model_digest") == keccak(MODEL_0)
    assert ask("published_by") == text(address_of(bench.network.founder))
    assert ask("parent_hash") == bench.node.head.hash
    assert all(ask("credit", who) == 0 for who in bench.network.homes)
    assert ask("settings") == (text(address_of(bench.network.founder)), False, 3, 60, 3, 10, 1, 1 << 17)


def test_only_the_founder_registers_and_founds(new: tuple[Network, Node]) -> None:
    network, node = new
    server = network.servers[0]
    network.post(node, network.founder, "register", [address_of(server)], [address_of(server)])
    with pytest.raises(UnregisteredSenderError):
        network.post(node, server, "register", [address_of(STRANGER)], [address_of(server)])
    registry = BareRegistry()
    registry.send(registry.founder, "register", [A], [A])
    for sender in (A, B):
        with reverts("only the founder registers"):
            registry.send(sender, "register", [B], [A])
        with reverts("only the founder founds"):
            registry.send(sender, "found", b"{}", keccak(MODEL_0), 0, MODEL_0)


def test_what_is_founded_cannot_be_founded_or_registered_again(bench: Bench) -> None:
    founder = bench.network.founder
    with reverts("already founded"):
        bench.post(founder, "register", [address_of(STRANGER)], [address_of(STRANGER)])
    with reverts("already founded"):
        bench.post(founder, "found", b"{}", keccak(b"another"), 0, b"another")
    assert bench.node.ask("model_digest") == keccak(MODEL_0)


A, B, C = (address_of(account(name)) for name in "abc")


@pytest.mark.parametrize(
    ("participants", "homes", "reason"),
    [
        ([A, A], [A, A], "already registered"),
        ([A, B, B], [A, A, A], "already registered"),
        ([B, A], [A, A], "the home is no edge server"),
        ([A, B, C], [A, A, B], "the home is no edge server"),
        ([A, B], [A, C], "the home is no edge server"),
        ([A, B], [A, NOBODY], "the home is no edge server"),
        ([NOBODY], [NOBODY], "no address"),
        ([A, NOBODY], [A, A], "no address"),
        ([A, B], [A], "one home per participant"),
        ([], [A], "one home per participant"),
    ],
    ids=[
        "a server twice",
        "a device twice",
        "a device before its server",
        "at home with a device",
        "at home with a stranger",
        "at home nowhere",
        "nobody as server",
        "nobody as device",
        "a home is missing",
        "a home too many",
    ],
)
def test_a_registration_that_makes_no_sense_is_refused_as_a_whole(
    new: tuple[Network, Node], participants: list[bytes], homes: list[bytes], reason: str
) -> None:
    network, node = new
    with reverts(reason):
        network.post(node, network.founder, "register", participants, homes)
    assert node.ask("server_list") == ()
    assert node.ask("home", A) == text(NOBODY)


def test_sixty_four_servers_have_room_and_not_one_more(new: tuple[Network, Node]) -> None:
    network, node = new
    servers = [i.to_bytes(20, "big") for i in range(1, 66)]
    network.post(node, network.founder, "register", servers[:64], servers[:64], gas=20_000_000)
    with reverts("no room for another edge server"):
        network.post(node, network.founder, "register", servers[64:], servers[64:])
    network.post(node, network.founder, "register", servers[64:], servers[:1])
    assert len(node.ask("server_list")) == 64


def test_a_founding_needs_a_server_and_the_model_it_names(new: tuple[Network, Node]) -> None:
    network, node = new
    with reverts("no edge server is registered"):
        network.post(node, network.founder, "found", b"{}", keccak(MODEL_0), 0, MODEL_0)
    network.post(node, network.founder, "register", [A], [A])
    with reverts("the payload does not have this digest"):
        network.post(node, network.founder, "found", b"{}", keccak(b"another"), 0, MODEL_0)
    assert not node.ask("founded")


def test_model_0_may_come_in_chunks(new: tuple[Network, Node]) -> None:
    network, node = new
    founder, server = network.founder, network.servers[0]
    network.post(node, founder, "register", [address_of(server)], [address_of(server)])
    with reverts("not founded yet"):
        network.post(node, founder, "chunk", 1, Slot.MODEL, 0, b"of another round")
    network.post(node, founder, "chunk", 0, Slot.MODEL, 0, b"model ")
    with reverts("chunks are missing"):
        network.post(node, founder, "found", b"{}", keccak(MODEL_0), 2, b"")
    network.post(node, founder, "chunk", 0, Slot.MODEL, 1, b"0")
    network.post(node, founder, "found", b"{}", keccak(MODEL_0), 2, b"")
    assert node.ask("model_digest") == keccak(MODEL_0)


def test_the_founding_block_is_no_round() -> None:
    registry, model, digest = BareRegistry(), keccak(MODEL_0), keccak(b"x")
    registry.send(registry.founder, "register", [A, B], [A, A])
    posts: list[tuple[Any, ...]] = [
        (A, "plan", 0, digest, 0, b"x"),
        (B, "gradient", 0, model, bytes(32), 1, 1, digest, 0, b"x"),
        (A, "close", 0, digest, 0, b"x"),
        (A, "iterate", 0, 0, digest, 0, b"x"),
        (A, "flag", 0, B, Slot.ITERATE, bytes(32), bytes(32), b""),
        (A, "endorse", 0, bytes(32)),
        (A, "model", 0, digest, 0, b"x"),
        (A, "chunk", 0, Slot.MODEL, 0, b"x"),
        (A, "vote", C, A),
    ]
    for is_founded in (False, True):
        for sender, name, *arguments in posts:
            with reverts("not founded yet"):
                registry.send(sender, name, *arguments)
        if not is_founded:
            registry.send(registry.founder, "found", b"{}", model, 0, MODEL_0)


@pytest.mark.parametrize("zero", [{"term_cap": 0}, {"turn_s": 0}, {"seal_difficulty": 0}])
def test_terms_of_zero_are_refused(zero: dict[str, Any]) -> None:
    with reverts("term cap, turn and difficulty must be positive"):
        BareRegistry(RegistryTerms(**zero))


@pytest.mark.parametrize("term", ["turn_s", "flag_window", "exclusion_rounds"])
def test_terms_whose_sums_would_overflow_are_refused(term: str) -> None:
    most: dict[str, Any] = {term: 2**64 - 1}
    BareRegistry(RegistryTerms(**most))
    too_much: dict[str, Any] = {term: 2**64}
    with reverts("turn, flag window and exclusion have 64 bits"):
        BareRegistry(RegistryTerms(**too_much))


# --- later additions


def test_a_strict_majority_of_servers_adds_a_device(bench: Bench) -> None:
    one, two, _ = bench.network.servers
    assert [event.name for event in bench.vote(one, STRANGER, two)] == ["Voted"]
    assert not bench.node.ask("is_device", address_of(STRANGER))
    voted, registered = bench.vote(two, STRANGER, two)
    fields = {"participant": text(address_of(STRANGER)), "home": text(address_of(two))}
    assert voted.arguments == {**fields, "server": text(address_of(two))}
    assert (registered.name, registered.arguments) == ("Registered", fields)
    assert bench.node.ask("is_device", address_of(STRANGER))


def test_half_of_the_servers_is_no_majority() -> None:
    bench = bench_of(4)
    for server in bench.network.servers[:2]:
        bench.vote(server, STRANGER, bench.network.servers[0])
    assert bench.node.ask("home", address_of(STRANGER)) == text(NOBODY)
    bench.vote(bench.network.servers[2], STRANGER, bench.network.servers[0])
    assert bench.node.ask("home", address_of(STRANGER)) == text(address_of(bench.network.servers[0]))


def test_voting_twice_counts_once_and_votes_for_two_homes_do_not_add_up(bench: Bench) -> None:
    one, two, three = bench.network.servers
    bench.vote(one, STRANGER, one)
    bench.vote(one, STRANGER, one)
    bench.vote(two, STRANGER, two)
    bench.vote(three, STRANGER, STRANGER)
    assert bench.node.ask("home", address_of(STRANGER)) == text(NOBODY)


def test_votes_are_for_servers_and_about_strangers(bench: Bench) -> None:
    one, two, _ = bench.network.servers
    device = bench.network.devices[0]
    with reverts("not an edge server"):
        bench.vote(device, STRANGER, one)
    with reverts("already registered"):
        bench.vote(one, device, two)
    with reverts("already registered"):
        bench.vote(one, device, device)
    with pytest.raises(UnregisteredSenderError):
        bench.vote(STRANGER, STRANGER, STRANGER)


@pytest.mark.parametrize(
    ("participant", "home", "reason"),
    [(C, A, "the home is no edge server"), (C, NOBODY, "the home is no edge server"), (NOBODY, NOBODY, "no address")],
)
def test_a_majority_cannot_register_nonsense(bench: Bench, participant: bytes, home: bytes, reason: str) -> None:
    one, two, _ = bench.network.servers
    bench.post(one, "vote", participant, home)
    with reverts(reason):
        bench.post(two, "vote", participant, home)


def test_votes_count_among_the_servers_that_are_not_excluded() -> None:
    bench = bench_of(5)
    one, two, three, four, five = bench.network.servers
    bench.vote(five, STRANGER, one)
    bench.vote(one, STRANGER, one)
    bench.exclude(five)
    bench.end_round()  # who has flagged votes in the next round: posts follow the phases
    assert bench.vote(two, STRANGER, one)[-1].name == "Voted"  # two of four, the excluded one's no longer counts
    with reverts("excluded"):
        bench.vote(five, STRANGER, one)
    assert bench.vote(three, STRANGER, one)[-1].name == "Registered"
    assert not bench.is_excluded(four)


def test_a_device_that_joins_may_post_at_once(bench: Bench) -> None:
    one, two, _ = bench.network.servers
    for server in (one, two):
        bench.vote(server, STRANGER, two)
    bench.plan()
    assert bench.gradient(STRANGER)[0].name == "GradientPosted"


def test_a_server_that_joins_takes_part_from_the_next_round(bench: Bench) -> None:
    """Otherwise one who chooses its address well would take the turn of a leader that has planned already."""
    leader, parent_hash = bench.leader, bench.node.head.hash
    assert bench.node.ask("winner_home") == text(NOBODY)
    bench.plan(leader)

    def place(server: LocalAccount) -> bytes:
        return hashlib.sha256(parent_hash + address_of(server)).digest()

    candidates = (account(f"usurper {i}") for i in itertools.count())
    usurper = next(each for each in candidates if place(each) < place(leader))
    for server in bench.network.servers[:2]:
        bench.vote(server, usurper, usurper)
    assert text(address_of(usurper)) in bench.node.ask("server_list")
    assert (bench.rank(leader), bench.rank(usurper)) == (0, NEVER)
    with reverts("excluded"):
        bench.close(usurper)
    bench.close(leader)
    bench.end_round(leader=leader)
    ranks = sorted(bench.rank(server) for server in [*bench.network.servers, usurper])
    assert ranks == [0, 1, 2, 3]


# --- posts


def test_a_whole_round_says_what_was_posted(bench: Bench) -> None:
    leader, (device, *_) = bench.leader, bench.network.devices
    by_leader = {"round": 1, "leader": text(address_of(leader)), "chunks": 0, "rank": 0}
    (planned,) = bench.plan()
    assert (planned.name, planned.arguments) == ("Planned", {**by_leader, "digest": keccak(b"plan")})
    (posted,) = bench.gradient(device)
    assert (posted.name, posted.arguments) == (
        "GradientPosted",
        {
            "round": 1,
            "sender": text(address_of(device)),
            "digest": keccak(b"gradient"),
            "chunks": 0,
            "samples": 100,
            "iterations": 10,
        },
    )
    (closed,) = bench.close()
    assert (closed.name, closed.arguments) == ("Closed", {**by_leader, "digest": keccak(b"closed")})
    for server, step in itertools.product(bench.network.servers, (0, 1)):
        (iterate,) = bench.iterate(server, step)
        said = {"round": 1, "sender": text(address_of(server)), "step": step, "digest": keccak(b"iterate"), "chunks": 0}
        assert (iterate.name, iterate.arguments) == ("IteratePosted", said)
    (published,) = bench.model()
    assert (published.name, published.arguments) == ("ModelPublished", {**by_leader, "digest": keccak(b"model")})
    ask = bench.node.ask
    assert (ask("planned"), ask("closed"), ask("published")) == (1, 1, 1)
    assert (ask("plan_digest"), ask("model_digest")) == (keccak(b"plan"), keccak(b"model"))
    assert ask("published_by") == text(address_of(leader))
    posted_by_leader = [
        ask("posted", address_of(leader), slot)
        for slot in (Slot.PLAN, Slot.CLOSE, Slot.ITERATE, iterate_slot(1), Slot.MODEL)
    ]
    assert posted_by_leader == [keccak(said) for said in (b"plan", b"closed", b"iterate", b"iterate", b"model")]
    assert ask("posted", address_of(device), Slot.GRADIENT) == keccak(b"gradient")


def test_the_registry_remembers_the_digests_of_the_current_round_only(bench: Bench) -> None:
    device = address_of(bench.network.devices[0])
    bench.plan()
    assert bench.node.ask("posted", device, Slot.GRADIENT) == bytes(32)
    bench.gradient(bench.network.devices[0])
    assert bench.node.ask("posted", device, Slot.GRADIENT) == keccak(b"gradient")
    assert bench.node.ask("posted", device, Slot.ITERATE) == bytes(32)
    assert bench.node.ask("posted", device, 2**255) == bytes(32)
    bench.end_round()
    assert bench.node.ask("posted", device, Slot.GRADIENT) == bytes(32)


def test_only_a_server_posts_what_a_server_posts(bench: Bench) -> None:
    device = bench.network.devices[0]
    with reverts("not an edge server"):
        bench.plan(device)
    bench.plan()
    with reverts("not an edge server"):
        bench.close(device)
    bench.close()
    with reverts("not an edge server"):
        bench.iterate(device)
    with reverts("not an edge server"):
        bench.model(device)
    with reverts("not an edge server"):
        bench.flag(device, bench.network.servers[0])
    with reverts("not an edge server"):
        bench.post(device, "endorse", 1, bench.node.head.hash)


def test_a_stranger_and_the_founder_post_nothing(bench: Bench) -> None:
    with pytest.raises(UnregisteredSenderError):
        bench.plan(STRANGER)
    with reverts("not registered"):
        bench.plan(bench.network.founder)
    bench.plan()
    with reverts("not registered"):
        bench.gradient(bench.network.founder)
    with reverts("not registered"):
        bench.post(bench.network.founder, "chunk", 1, Slot.GRADIENT, 0, b"x")


@pytest.mark.parametrize("wrong", [0, 1, 3, 2**256 - 1])
def test_every_post_names_the_round_that_runs(bench: Bench, wrong: int) -> None:
    bench.end_round()
    leader, digest = bench.leader, keccak(b"x")
    other = address_of(bench.others[0])
    bench.plan()
    posts: dict[str, tuple[Any, ...]] = {
        "plan": (digest, 0, b"x"),
        "gradient": (keccak(MODEL_0), keccak(b"plan"), 1, 1, digest, 0, b"x"),
        "close": (digest, 0, b"x"),
        "iterate": (0, digest, 0, b"x"),
        "flag": (other, Slot.ITERATE, bytes(32), digest, b""),
        "flag_equivocation": (other, b"x", bytes(65), b"y", bytes(65)),
        "model": (digest, 0, b"x"),
        "chunk": (Slot.GRADIENT, 0, b"x"),
        "endorse": (bench.node.head.hash,),
    }
    for name, arguments in posts.items():
        with reverts("wrong round"):
            bench.post(leader, name, wrong, *arguments)


def test_a_payload_has_the_digest_it_is_posted_under(bench: Bench) -> None:
    leader, device = bench.leader, bench.network.devices[0]
    wrong = (keccak(b"another"), 0, b"payload")
    reason = "the payload does not have this digest"
    with reverts(reason):
        bench.post(leader, "plan", 1, *wrong)
    bench.plan()
    with reverts(reason):
        bench.gradient(device, digest=keccak(b"another"))
    with reverts(reason):
        bench.post(leader, "close", 1, *wrong)
    bench.close()
    with reverts(reason):
        bench.post(leader, "iterate", 1, 0, *wrong)
    with reverts(reason):
        bench.post(leader, "model", 1, *wrong)


def test_the_phases_come_in_order_and_once(bench: Bench) -> None:
    device, leader = bench.network.devices[0], bench.leader
    with reverts("gradient for another plan"):
        bench.gradient(device)
    with reverts("this round is not planned"):
        bench.close()
    bench.plan()
    with reverts("this round is planned"):
        bench.plan(payload=b"another")
    with reverts("this round is not closed"):
        bench.iterate(leader)
    with reverts("this round is not closed"):
        bench.model()
    bench.close()
    with reverts("this round is closed"):
        bench.close()
    with reverts("this round is closed"):
        bench.gradient(device)
    bench.model()
    with reverts("this round has a model"):
        bench.model()
    bench.end_round()
    with reverts("gradient for another plan"):
        bench.gradient(device)
    with reverts("this round is not planned"):
        bench.close()
    bench.plan()
    with reverts("this round is not closed"):
        bench.iterate(leader)


def test_a_gradient_is_of_this_model_and_this_plan_and_of_some_samples(bench: Bench) -> None:
    device = bench.network.devices[0]
    bench.plan()
    with reverts("gradient for another base model"):
        bench.gradient(device, base_model=keccak(b"model"))
    with reverts("gradient for another plan"):
        bench.gradient(device, plan_digest=keccak(b"another plan"))
    for empty in ("samples", "iterations"):
        with reverts("no samples or no iterations"):
            bench.gradient(device, **{empty: 0})
    bench.gradient(device, samples=1, iterations=1)


def test_one_post_per_sender_round_and_slot(bench: Bench) -> None:
    server, other = bench.network.servers[:2]
    device = bench.network.devices[0]
    bench.plan()
    for sender in (server, device):
        bench.gradient(sender)  # a server's own gradient counts like a device's (P7)
        with reverts("already posted"):
            bench.gradient(sender, samples=2)
    bench.close()
    bench.iterate(server, 0)
    bench.iterate(server, 1)
    for step in (0, 1):
        with reverts("already posted"):
            bench.iterate(server, step, b"another")
    bench.iterate(other, 0)
    bench.end_round()
    bench.plan()
    bench.gradient(device)
    bench.close()
    bench.iterate(server, 0)


def test_iterates_have_a_last_step(bench: Bench) -> None:
    bench.plan()
    bench.close()
    bench.iterate(bench.leader, MAX_STEP)
    for beyond in (MAX_STEP + 1, 128, 2**256 - 1, 2**256 - Slot.ITERATE):
        with reverts("no such step"):
            bench.post(bench.leader, "iterate", 1, beyond, keccak(b"x"), 0, b"x")


def test_a_payload_fills_its_frame_and_no_more(bench: Bench) -> None:
    full = bytes([1]) * (1 << 17)
    bench.plan()
    bench.gradient(bench.network.devices[0])
    bench.close()
    bench.post(bench.leader, "iterate", 1, 0, keccak(full), 0, full, gas=6_000_000)
    with pytest.raises(OversizedPayloadError):
        bench.post(bench.leader, "iterate", 1, 1, keccak(full + b"x"), 0, full + b"x", gas=6_000_000)


def test_the_contract_itself_refuses_what_is_beyond_its_frames() -> None:
    """Where no pool of ours stands before it."""
    bare = Bare()
    leader, other = bare.servers[0], address_of(bare.servers[1])
    full = bytes(1 << 17)
    for name, *arguments in (
        ("plan", 1, keccak(full + b"x"), 0, full + b"x"),
        ("chunk", 1, Slot.GRADIENT, 0, bytes(contract.CHUNK_BYTES + 1)),
        ("flag", 1, other, Slot.ITERATE, bytes(32), bytes(32), bytes(1025)),
        ("flag_equivocation", 1, other, full + bytes(1025), bytes(65), b"", bytes(65)),
        ("flag_equivocation", 1, other, b"", bytes(66), b"", bytes(65)),
    ):
        with pytest.raises(RevertedError, match="no reason"):
            bare.send(leader, name, *arguments)
    bare.send(leader, "plan", 1, keccak(full), 0, full)
    bare.send(leader, "chunk", 1, Slot.GRADIENT, 0, bytes(contract.CHUNK_BYTES))
    bare.send(leader, "flag", 1, other, Slot.ITERATE, bytes(32), bytes(32), bytes(1024))


def test_a_refused_post_leaves_no_trace(bench: Bench) -> None:
    nonce = bench.node.state().nonce(address_of(bench.leader))
    with reverts("wrong round"):
        bench.post(bench.leader, "plan", 2, keccak(b"x"), 0, b"x")
    assert len(bench.node.pool) == 0
    assert bench.node.state().nonce(address_of(bench.leader)) == nonce


# --- leading (P12)


@pytest.mark.parametrize("rank", [1, 2])
def test_a_successor_waits_for_its_turn(bench: Bench, rank: int) -> None:
    successor = bench.network.leader(bench.node, rank)
    posts: list[Callable[[LocalAccount], list[Call]]] = [bench.plan, bench.close, bench.model]
    turn_s = rank * bench.network.terms.turn_s
    with reverts("a successor before its turn"):
        bench.plan(successor)
    bench.clock.pass_s(turn_s - 1)
    with reverts("a successor before its turn"):
        bench.plan(successor)
    assert not bench.node.ask("is_lawful", address_of(successor), START + turn_s - 1)
    with pytest.raises(LeaderError):
        bench.node.propose(address_of(successor))
    bench.clock.pass_s(1)
    for post in posts:
        (event,) = post(successor)
        assert (event["leader"], event["rank"]) == (text(address_of(successor)), rank)
    bench.end_round(leader=successor)
    assert bench.node.head.coinbase == address_of(successor)


def test_the_leader_itself_is_never_too_late(bench: Bench) -> None:
    bench.clock.pass_s(10**6)
    bench.plan(bench.leader)
    assert bench.node.ask("is_lawful", address_of(bench.leader), 0)


def test_whoever_comes_first_posts_and_the_other_is_refused(bench: Bench) -> None:
    leader, successor = bench.leader, bench.network.leader(bench.node, 1)
    bench.clock.pass_s(60)
    bench.plan(successor)
    with reverts("this round is planned"):
        bench.plan(leader)
    bench.close(leader)
    with reverts("this round is closed"):
        bench.close(successor)


def test_turns_count_from_the_parent_block(bench: Bench) -> None:
    bench.clock.pass_s(1000)
    bench.end_round()
    assert bench.node.ask("parent_time") == bench.node.head.timestamp == START + 1000
    successor = bench.network.leader(bench.node, 1)
    bench.clock.pass_s(59)
    with reverts("a successor before its turn"):
        bench.plan(successor)
    bench.clock.pass_s(1)
    bench.plan(successor)


def test_who_is_no_server_never_leads(bench: Bench) -> None:
    for who in (address_of(bench.network.devices[0]), address_of(STRANGER), NOBODY):
        assert bench.node.ask("rank", who) == NEVER
        assert not bench.node.ask("is_lawful", who, 2**255)


def test_the_home_of_the_device_that_sealed_leads_next(bench: Bench) -> None:
    for device in (bench.network.devices[1], bench.network.devices[2], bench.network.devices[3]):
        bench.end_round(winner=device)
        home = bench.network.homes[address_of(device)]
        assert address_of(bench.leader) == home
        assert bench.node.ask("winner_home") == text(home)


def test_nobody_leads_more_rounds_in_a_row_than_the_term_cap(bench: Bench) -> None:
    leaders = []
    for _ in range(12):
        leaders.append(address_of(bench.leader))
        bench.end_round(winner=bench.network.devices[0])
    reigns = [(leader, len(list(rounds))) for leader, rounds in itertools.groupby(leaders)]
    home = address_of(bench.network.servers[0])
    assert max(terms for _, terms in reigns) == 3
    assert [terms for leader, terms in reigns if leader == home][:2] == [3, 3]
    assert {terms for leader, terms in reigns if leader != home} == {1}


def test_a_spent_leader_is_the_last_successor(bench: Bench) -> None:
    server = bench.network.servers[0]
    while bench.node.ask("reign_terms") < 3 or bench.node.ask("reign_leader") != text(address_of(server)):
        bench.end_round(winner=bench.network.devices[0])
    assert bench.rank(server) == 2
    bench.clock.pass_s(120)
    bench.end_round(winner=bench.network.devices[0], leader=server)
    assert bench.rank(server) == 2  # four in a row, because nobody else came


def test_credit_counts_the_rounds_a_device_has_sealed(bench: Bench) -> None:
    one, two, three, _ = bench.network.devices
    for winner in (one, two, one, one):
        bench.end_round(winner=winner)
    assert [bench.node.ask("credit", address_of(device)) for device in (one, two, three)] == [3, 1, 0]
    assert all(bench.node.ask("credit", address_of(server)) == 0 for server in bench.network.servers)


def test_only_the_chain_begins_a_block(bench: Bench) -> None:
    said = (address_of(bench.network.devices[0]), address_of(bench.leader), bytes(32), START)
    with pytest.raises(NotRegistryCallError):
        bench.post(bench.leader, "begin_block", *said)
    bare = Bare()
    for sender in (*bare.servers, *bare.devices, STRANGER):
        with reverts("only the chain itself begins a block"):
            bare.send(sender, "begin_block", *said)
    with reverts("only the chain itself begins a block"):
        bare.registry.send(bare.registry.founder, "begin_block", *said)


def test_a_winner_that_is_no_device_earns_nothing() -> None:
    bare = Bare()
    for winner in (address_of(bare.servers[0]), address_of(STRANGER), NOBODY):
        bare.registry.begin(winner, NOBODY, bytes(32), START)
        assert bare.registry.ask("credit", winner) == 0
        assert bare.registry.ask("winner_home") == text(NOBODY)


# --- flags and exclusion (P14, P15)


def test_a_strict_majority_of_flags_excludes() -> None:
    bench = bench_of(5, exclusion_rounds=4)
    *honest, liar = bench.network.servers
    for server in honest[:2]:
        assert [event.name for event in bench.flag(server, liar)] == ["Flagged"]
    assert not bench.is_excluded(liar)
    flagged, excluded = bench.flag(honest[2], liar, sent=b"hash")
    assert flagged.arguments == {
        "round": 1,
        "offender": text(address_of(liar)),
        "server": text(address_of(honest[2])),
        "slot": Slot.ITERATE,
        "transaction_hash": b"hash".rjust(32, b"\0"),
        "expected": keccak(b"expected"),
    }
    said = {"round": 1, "participant": text(address_of(liar)), "last_round": 5}
    assert (excluded.name, excluded.arguments) == ("Excluded", said)
    assert bench.is_excluded(liar)


def test_half_of_the_servers_excludes_nobody() -> None:
    bench = bench_of(4)
    liar, *honest = bench.network.servers
    for server in honest[:2]:
        bench.flag(server, liar)
    assert not bench.is_excluded(liar)
    bench.flag(honest[2], liar)
    assert bench.is_excluded(liar)


def test_of_two_servers_neither_can_be_excluded() -> None:
    bench = bench_of(2)
    one, two = bench.network.servers
    for _ in range(3):
        bench.flag(one, two)
        bench.flag(two, one)
        bench.end_round()
    assert not bench.is_excluded(one)
    assert not bench.is_excluded(two)


def test_a_minority_never_excludes_however_often_it_flags() -> None:
    bench = bench_of(5, flag_window=100)
    *honest, liar, other_liar = bench.network.servers
    for _ in range(4):
        for server in honest:
            bench.flag(liar, server)
            bench.flag(other_liar, server)
        bench.end_round()
    assert not any(bench.is_excluded(server) for server in honest)


@pytest.mark.parametrize(("window", "rounds"), [(0, 0), (1, 1), (3, 3), (0, 1), (1, 2), (3, 4)])
def test_a_flag_counts_in_its_round_and_the_window_after_it(window: int, rounds: int) -> None:
    bench = bench_of(3, flag_window=window)
    liar, one, two = bench.network.servers
    bench.flag(one, liar)
    bench.end_rounds(rounds)
    bench.flag(two, liar)
    assert bench.is_excluded(liar) == (rounds <= window)


def test_a_flag_raised_again_counts_anew() -> None:
    bench = bench_of(3, flag_window=1)
    liar, one, two = bench.network.servers
    bench.flag(one, liar)
    with reverts("already flagged"):
        bench.flag(one, liar, slot=Slot.PLAN)
    bench.end_rounds(2)
    bench.flag(one, liar)
    bench.end_round()
    bench.flag(two, liar)
    assert bench.is_excluded(liar)


def test_an_excluded_server_may_do_nothing_until_it_comes_back() -> None:
    bench = bench_of(3, exclusion_rounds=2)
    liar, one, two = bench.network.servers
    bench.plan()
    bench.exclude(liar)
    first, second = (iterate_saying(bench, one, payload) for payload in (b"one", b"two"))
    for round_ in (1, 2, 3):
        assert (bench.round, bench.is_excluded(liar), bench.rank(liar)) == (round_, True, NEVER)
        acts: list[Callable[[], Any]] = [
            lambda: bench.plan(liar),
            lambda: bench.gradient(liar),
            lambda: bench.close(liar),
            lambda: bench.iterate(liar),
            lambda: bench.model(liar),
            lambda: bench.flag(liar, one),
            lambda: prove(bench, liar, one, first, second),
            lambda: bench.vote(liar, STRANGER, one),
            lambda: bench.post(liar, "endorse", bench.round, bench.node.head.hash),
            lambda: bench.post(liar, "chunk", bench.round, Slot.GRADIENT, 0, b"x"),
        ]
        for act in acts:
            with reverts("excluded"):
                act()
        with pytest.raises(LeaderError):
            bench.node.propose(address_of(liar))
        bench.end_round()
    assert (bench.round, bench.is_excluded(liar)) == (4, False)
    assert sorted(map(bench.rank, (liar, one, two))) == [0, 1, 2]
    bench.plan()
    bench.gradient(liar)
    bench.close()
    bench.iterate(liar)
    bench.flag(liar, one)


def test_the_devices_of_an_excluded_server_go_on() -> None:
    bench = bench_of(3)
    liar, one, two = bench.network.servers
    device = next(d for d in bench.network.devices if bench.network.homes[address_of(d)] == address_of(liar))
    bench.plan()
    bench.exclude(liar)
    assert bench.gradient(device)[0].name == "GradientPosted"
    leader = bench.leader
    bench.end_round(winner=device, leader=leader)
    assert bench.node.ask("credit", address_of(device)) == 1
    assert sorted(map(bench.rank, (one, two))) == [0, 1]
    assert bench.rank(liar) == NEVER


def test_flags_count_among_the_servers_that_are_not_excluded() -> None:
    bench = bench_of(5)
    first, second, *honest = bench.network.servers
    bench.flag(first, honest[0])
    bench.flag(second, honest[0])
    bench.exclude(first)
    bench.flag(honest[1], honest[0])  # two of four: the flag of the excluded one no longer counts
    assert not bench.is_excluded(honest[0])
    bench.flag(honest[2], honest[0])
    assert bench.is_excluded(honest[0])
    with reverts("already excluded"):
        bench.flag(honest[2], first)


def test_two_that_are_left_cannot_exclude_each_other() -> None:
    bench = bench_of(3)
    liar, one, two = bench.network.servers
    bench.exclude(liar)
    bench.flag(one, two)
    bench.flag(two, one)
    assert not bench.is_excluded(one)
    assert not bench.is_excluded(two)


def test_flags_that_have_excluded_once_are_spent() -> None:
    bench = bench_of(3, exclusion_rounds=1, flag_window=50)
    liar, one, two = bench.network.servers
    bench.exclude(liar)
    bench.end_rounds(2)
    assert not bench.is_excluded(liar)
    bench.flag(one, liar)
    assert not bench.is_excluded(liar)
    bench.flag(two, liar)
    assert bench.is_excluded(liar)


def test_an_exclusion_of_no_rounds_lasts_to_the_end_of_the_round() -> None:
    bench = bench_of(3, exclusion_rounds=0)
    liar = bench.network.servers[0]
    bench.exclude(liar)
    bench.end_round()
    assert not bench.is_excluded(liar)


def test_a_leader_that_is_excluded_hands_over_at_once() -> None:
    bench = bench_of(5)
    leader, successor = bench.leader, bench.network.leader(bench.node, 1)
    bench.plan(leader)
    bench.exclude(leader, by=[server for server in bench.network.servers if server not in (leader, successor)])
    with reverts("excluded"):
        bench.close(leader)
    (closed,) = bench.close(successor)
    assert closed["rank"] == 0
    bench.end_round(leader=successor)


def test_nobody_flags_itself_a_stranger_or_one_who_is_out(bench: Bench) -> None:
    one, two, three = bench.network.servers
    with reverts("nobody flags itself"):
        bench.flag(one, one)
    with reverts("the offender is not registered"):
        bench.flag(one, STRANGER)
    bench.exclude(three)
    with reverts("already excluded"):
        bench.flag(one, three)
    assert not bench.is_excluded(two)


def test_a_device_can_be_flagged_and_excluded_too(bench: Bench) -> None:
    device = bench.network.devices[0]
    bench.plan()
    bench.exclude(device)
    with reverts("excluded"):
        bench.gradient(device)
    with reverts("excluded"):
        bench.post(device, "chunk", 1, Slot.GRADIENT, 0, b"x")


def test_a_post_with_the_expected_digest_cannot_be_flagged_as_wrong(bench: Bench) -> None:
    one, two, _ = bench.network.servers
    bench.plan()
    bench.close()
    bench.iterate(two)
    accused = (1, address_of(two), Slot.ITERATE, b"transaction".rjust(32))
    with reverts("the digest is as expected"):
        bench.post(one, "flag", *accused, keccak(b"iterate"), b"")
    bench.post(one, "flag", *accused, keccak(b"expected"), b"why")


def test_a_slot_of_the_last_round_does_not_protect(bench: Bench) -> None:
    one, two, _ = bench.network.servers
    bench.plan()
    bench.close()
    bench.iterate(two)
    bench.end_round()
    accused = (2, address_of(two), Slot.ITERATE, b"transaction".rjust(32))
    assert bench.post(one, "flag", *accused, keccak(b"iterate"), b"")[0].name == "Flagged"


def test_a_late_post_does_not_undo_a_flag_nor_what_its_server_posted_behind(bench: Bench) -> None:
    """A block is ordered by phase: the late iterate comes before the flag. Had it made the flag fail, the leader's
    model, one nonce later, would have fallen out of the block."""
    leader, late = bench.leader, bench.others[0]
    bench.plan()
    bench.close()
    bench.post(leader, "flag", 1, address_of(late), Slot.ITERATE, bytes(32), keccak(b"iterate"), b"")
    bench.model()
    bench.iterate(late)
    bench.end_round(leader=leader)
    block = bench.node.block(2)
    assert block is not None
    names = [contract.decode_call(transaction.data).name for transaction in block.transactions]
    assert names == ["plan", "close", "iterate", "flag", "model"]
    assert [receipt.status for receipt in block.receipts] == [1] * 5


# --- equivocation (P15)


def iterate_saying(bench: Bench, sender: LocalAccount, payload: bytes, step: int = 0, **changes: Any) -> Transaction:
    return signed(bench, sender, "iterate", bench.round, step, keccak(payload), 0, payload, **changes)


def signed(bench: Bench, sender: LocalAccount, name: str, *arguments: Any, **changes: Any) -> Transaction:
    return decode_transaction(bench.network.signed(bench.node, sender, name, *arguments, **changes))


def prove(
    bench: Bench, server: LocalAccount, offender: LocalAccount, first: Transaction, second: Transaction, **changes: Any
) -> list[Call]:
    evidence = (first.unsigned, first.signature, second.unsigned, second.signature)
    return bench.post(server, "flag_equivocation", bench.round, address_of(offender), *evidence, **changes)


POSTS: dict[str, Callable[[bytes], tuple[Any, ...]]] = {
    "plan": lambda payload: (1, keccak(payload), 0, payload),
    "gradient": lambda payload: (1, bytes(32), bytes(32), 100, 10, keccak(payload), 0, payload),
    "close": lambda payload: (1, keccak(payload), 0, payload),
    "iterate": lambda payload: (1, 7, keccak(payload), 0, payload),
    "model": lambda payload: (1, keccak(payload), 0, payload),
}


@pytest.mark.parametrize("name", POSTS)
def test_two_different_posts_for_one_slot_are_proof(bench: Bench, name: str) -> None:
    liar, one, two = bench.network.servers
    first, second = (signed(bench, liar, name, *POSTS[name](payload)) for payload in (b"yes", b"no"))
    (flagged,) = prove(bench, one, liar, first, second)
    assert flagged.arguments == {
        "round": 1,
        "offender": text(address_of(liar)),
        "server": text(address_of(one)),
        "slot": Slot.EQUIVOCATION,
        "transaction_hash": keccak(first.unsigned),
        "expected": keccak(second.unsigned),
    }
    assert not bench.is_excluded(liar)
    assert [event.name for event in prove(bench, two, liar, second, first)] == ["Flagged", "Excluded"]
    assert bench.is_excluded(liar)


@pytest.mark.parametrize(
    "change", [{"samples": 999}, {"iterations": 1}, {"base_model": b"m" * 32}, {"plan_digest": b"p" * 32}]
)
def test_gradients_that_differ_in_a_number_are_different_posts(bench: Bench, change: dict[str, Any]) -> None:
    device, server = bench.network.devices[0], bench.network.servers[0]
    names = contract.functions()["gradient"].arguments
    said = dict(zip(names, POSTS["gradient"](b"payload"), strict=True))
    first, second = (signed(bench, device, "gradient", *each.values()) for each in (said, said | change))
    assert prove(bench, server, device, first, second)[0].name == "Flagged"


def test_a_post_in_chunks_and_one_as_a_whole_are_different_posts(bench: Bench) -> None:
    liar, one, _ = bench.network.servers
    first = signed(bench, liar, "iterate", 1, 0, keccak(b"x"), 0, b"x")
    second = signed(bench, liar, "iterate", 1, 0, keccak(b"x"), 1, b"")
    assert prove(bench, one, liar, first, second)[0].name == "Flagged"


@pytest.mark.parametrize("size", [55, 56, 255, 256, 100_000, 1 << 17])
def test_evidence_may_carry_two_whole_payloads(bench: Bench, size: int) -> None:
    liar, one, _ = bench.network.servers
    first, second = (iterate_saying(bench, liar, bytes([i]) * size, gas=10**7) for i in (1, 2))
    gas = contract.call_gas(2 * size + 2000, 1 << 17)
    assert prove(bench, one, liar, first, second, gas=gas)[0].name == "Flagged"


@pytest.mark.parametrize(
    "envelope", [{"nonce": 0}, {"nonce": 200, "gas": 2**62, "max_fee": 2**256 - 1, "max_priority_fee": 2**64}]
)
def test_evidence_is_found_behind_numbers_of_any_length(bench: Bench, envelope: dict[str, int]) -> None:
    liar, one, _ = bench.network.servers
    first, second = (iterate_saying(bench, liar, payload, **envelope) for payload in (b"yes", b"no"))
    assert prove(bench, one, liar, first, second)[0].name == "Flagged"


def test_evidence_keeps_until_a_later_round(bench: Bench) -> None:
    liar, one, _ = bench.network.servers
    first, second = (iterate_saying(bench, liar, payload) for payload in (b"yes", b"no"))
    bench.end_round()
    assert prove(bench, one, liar, first, second)[0]["round"] == 2


def test_one_transaction_is_no_equivocation_however_it_is_signed(bench: Bench) -> None:
    honest, one, _ = bench.network.servers
    sent = iterate_saying(bench, honest, b"yes")
    with reverts("the same transaction twice"):
        prove(bench, one, honest, sent, sent)
    malleated = replace(sent, s=SECP256K1_N - sent.s, parity=1 - sent.parity)
    assert malleated.signature != sent.signature
    with reverts("the same transaction twice"):
        prove(bench, one, honest, sent, malleated)


@pytest.mark.parametrize(
    "change", [{"nonce": 9}, {"gas": 2_999_999}, {"max_fee": 1}, {"max_fee": 2, "max_priority_fee": 2}]
)
@pytest.mark.parametrize("name", POSTS)
def test_the_same_post_sent_again_is_no_equivocation(bench: Bench, name: str, change: dict[str, int]) -> None:
    """With a higher fee on a network with money, or with another nonce after the pool has dropped it (P5)."""
    honest, one, _ = bench.network.servers
    first = signed(bench, honest, name, *POSTS[name](b"same"))
    again = signed(bench, honest, name, *POSTS[name](b"same"), **change)
    assert first.unsigned != again.unsigned
    with reverts("the same post twice"):
        prove(bench, one, honest, first, again)


def test_posts_for_different_slots_are_no_equivocation(bench: Bench) -> None:
    honest, one, _ = bench.network.servers
    iterate = iterate_saying(bench, honest, b"x")
    elsewhere = [
        iterate_saying(bench, honest, b"y", step=1),
        signed(bench, honest, "iterate", 2, 0, keccak(b"y"), 0, b"y"),
        signed(bench, honest, "plan", 1, keccak(b"y"), 0, b"y"),
        signed(bench, honest, "gradient", *POSTS["gradient"](b"y")),
    ]
    for other in elsewhere:
        with reverts("not for the same slot"):
            prove(bench, one, honest, iterate, other)
    plan, close, model = (signed(bench, honest, name, 1, keccak(b"y"), 0, b"y") for name in ("plan", "close", "model"))
    for first, second in itertools.permutations((plan, close, model), 2):
        with reverts("not for the same slot"):
            prove(bench, one, honest, first, second)


def test_posts_of_somebody_else_are_no_evidence(bench: Bench) -> None:
    honest, liar, one = bench.network.servers
    his, hers = iterate_saying(bench, honest, b"yes"), iterate_saying(bench, liar, b"no")
    with reverts("the first is not signed by the offender"):
        prove(bench, one, honest, hers, his)
    with reverts("the second is not signed by the offender"):
        prove(bench, one, honest, his, hers)
    with reverts("nobody flags itself"):
        prove(bench, liar, liar, hers, iterate_saying(bench, liar, b"yes"))
    stranger = [iterate_saying(bench, STRANGER, payload) for payload in (b"yes", b"no")]
    with reverts("the offender is not registered"):
        prove(bench, one, STRANGER, *stranger)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"chain_id": CHAIN_ID + 1}, "for another chain"),
        ({"chain_id": 1}, "for another chain"),
        ({"chain_id": CHAIN_ID << 8}, "for another chain"),
        ({"to": b"\xdd" * 20}, "for another contract"),
        ({"to": b""}, "for another contract"),
    ],
)
def test_posts_to_another_network_are_no_evidence(bench: Bench, change: dict[str, Any], reason: str) -> None:
    honest, one, _ = bench.network.servers
    here, here_too = (iterate_saying(bench, honest, payload) for payload in (b"yes", b"no"))
    there, there_too = (iterate_saying(bench, honest, payload, **change) for payload in (b"yes", b"no"))
    for first, second in ((there, there_too), (here, there), (there, here_too)):
        with reverts(reason):
            prove(bench, one, honest, first, second)


def test_what_is_no_post_is_no_evidence(bench: Bench) -> None:
    honest, one, two = bench.network.servers
    calls: dict[str, list[tuple[Any, ...]]] = {
        "endorse": [(1, b"a" * 32), (1, b"b" * 32)],
        "vote": [(A, B), (B, A)],
        "chunk": [(1, Slot.ITERATE, 0, b"a"), (1, Slot.ITERATE, 0, b"b")],
        "flag": [(1, address_of(two), Slot.ITERATE, bytes(32), each * 32, b"") for each in (b"a", b"b")],
        "seal": [(1, b"a" * 8), (1, b"b" * 8)],
    }
    for name, said in calls.items():
        with reverts("not a post"):
            prove(bench, one, honest, *(signed(bench, honest, name, *each) for each in said))
    short = [signed(bench, honest, "credit", who) for who in (A, B)]
    with reverts("not a call"):
        prove(bench, one, honest, *short)


def signature_of(account: LocalAccount, message: bytes) -> bytes:
    return keys.PrivateKey(bytes(account.key)).sign_msg_hash(keccak(message)).to_bytes()


def test_a_signature_of_another_form_is_refused(bench: Bench) -> None:
    honest, one, _ = bench.network.servers
    first, second = (iterate_saying(bench, honest, payload) for payload in (b"yes", b"no"))
    good = first.signature
    forms = {
        "a signature has 65 bytes": [good[:64], b"", good[:1]],
        "signed by nobody": [
            good[:64] + b"\x02",
            good[:64] + b"\x1b",
            good[:64] + b"\xff",
            bytes(32) + good[32:],
            good[:32] + bytes(32) + good[64:],
            b"\xff" * 32 + good[32:],
            bytes(65),
        ],
    }

    def evidence(signature: bytes) -> tuple[bytes, ...]:
        return address_of(honest), first.unsigned, signature, second.unsigned, second.signature

    for reason, signatures in forms.items():
        for signature in signatures:
            with reverts(reason):
                bench.post(one, "flag_equivocation", 1, *evidence(signature))
    with pytest.raises(RevertedError):
        bench.post(one, "flag_equivocation", 1, *evidence(good + b"\0"))
    bench.post(one, "flag_equivocation", 1, *evidence(good))


def test_bytes_that_are_no_transaction_are_no_evidence_even_if_signed() -> None:
    """Not one prefix of a real post, not one with more behind it, and no noise."""
    bare = Bare()
    liar, one, _ = bare.servers
    first, second = (
        decode_transaction(
            sign_transaction(
                liar, Envelope(CHAIN_ID, 0, 3_000_000, bare.registry.address), encode_call("iterate", *said)
            )
        ).unsigned
        for said in (POSTS["iterate"](b"yes"), POSTS["iterate"](b"no"))
    )

    def prove_bytes(left: bytes, right: bytes) -> None:
        evidence = (left, signature_of(liar, left), right, signature_of(liar, right))
        bare.send(one, "flag_equivocation", 1, address_of(liar), *evidence)

    rng = random.Random(3)
    garbage = [first[:length] for length in range(len(first))]
    fields = rlp.decode(first[1:])
    with_access_list = [*fields[:8], [[bare.registry.address, []]]]
    garbage += [b"\x02" + rlp.encode(other) for other in (with_access_list, [*fields, b"more"], fields[:8])]
    assert first[1] == 0xF9  # a list whose length takes two bytes
    garbage += [first[:3] + bytes([first[3] ^ bit]) + first[4:] for bit in (1, 2, 128)]
    garbage += [first + b"\0", first + b"\xc0", first[:-1] + b"\xc1\x80", first + second, b"\x01" + first[1:]]
    garbage += [first[:at] + rng.randbytes(rng.randrange(600)) for at in range(64)]
    garbage += [b"\x02" + bytes([prefix]) + rng.randbytes(300) for prefix in range(192, 256)]
    for noise in garbage:
        with pytest.raises(RevertedError):
            prove_bytes(noise, second)
    with pytest.raises(RevertedError):
        prove_bytes(second, first[:-1])
    prove_bytes(first, second)


# --- chunks (C8)


def chunk(bench: Bench, sender: LocalAccount, slot: int, index: int, data: bytes = b"data") -> list[Call]:
    return bench.post(sender, "chunk", bench.round, slot, index, data)


def test_chunks_in_order_make_a_post(bench: Bench) -> None:
    device = bench.network.devices[0]
    bench.plan()
    for index in range(3):
        (event,) = chunk(bench, device, Slot.GRADIENT, index)
        said = {"round": 1, "sender": text(address_of(device)), "slot": Slot.GRADIENT, "index": index}
        assert (event.name, event.arguments) == ("ChunkPosted", said)
    (posted,) = bench.gradient(device, chunks=3, payload=b"")
    assert posted["chunks"] == 3


def test_chunks_out_of_order_are_refused_and_the_first_starts_again(bench: Bench) -> None:
    device = bench.network.devices[0]
    bench.plan()
    for index in (1, 5):
        with reverts("chunks out of order"):
            chunk(bench, device, Slot.GRADIENT, index)
    chunk(bench, device, Slot.GRADIENT, 0)
    for index in (2, 4095):
        with reverts("chunks out of order"):
            chunk(bench, device, Slot.GRADIENT, index)
    chunk(bench, device, Slot.GRADIENT, 1)
    with reverts("chunks out of order"):
        chunk(bench, device, Slot.GRADIENT, 1)
    chunk(bench, device, Slot.GRADIENT, 0)
    with reverts("chunks are missing"):
        bench.gradient(device, chunks=2, payload=b"")
    chunk(bench, device, Slot.GRADIENT, 1)
    bench.gradient(device, chunks=2, payload=b"")


def test_a_post_names_exactly_its_chunks_and_carries_nothing_beside_them(bench: Bench) -> None:
    device, other = bench.network.devices[:2]
    bench.plan()
    for missing in (1, 2):
        with reverts("chunks are missing"):
            bench.gradient(device, chunks=missing, payload=b"")
    chunk(bench, device, Slot.GRADIENT, 0)
    chunk(bench, device, Slot.GRADIENT, 1)
    for wrong in (1, 3):
        with reverts("chunks are missing"):
            bench.gradient(device, chunks=wrong, payload=b"")
    with reverts("a payload beside its chunks"):
        bench.gradient(device, chunks=2)
    with reverts("chunks are missing"):
        bench.gradient(other, chunks=2, payload=b"")
    bench.gradient(device, chunks=2, payload=b"")


def test_chunks_of_another_slot_or_round_do_not_count(bench: Bench) -> None:
    leader = bench.leader
    bench.plan()
    chunk(bench, leader, Slot.GRADIENT, 0)
    chunk(bench, leader, Slot.CLOSE, 0)
    with reverts("chunks are missing"):
        bench.gradient(leader, chunks=1, payload=b"")
    with reverts("chunks out of order"):
        chunk(bench, leader, Slot.GRADIENT, 1)
    bench.post(leader, "close", 1, keccak(b"data"), 1, b"")
    chunk(bench, leader, iterate_slot(1), 0)
    with reverts("chunks are missing"):
        bench.post(leader, "iterate", 1, 0, keccak(b"data"), 1, b"")
    bench.post(leader, "iterate", 1, 1, keccak(b"data"), 1, b"")
    chunk(bench, leader, Slot.MODEL, 0)
    bench.end_round(leader=leader)
    bench.clock.pass_s(10**4)
    bench.plan(leader)
    bench.close(leader)
    with reverts("chunks are missing"):
        bench.post(leader, "model", 2, keccak(b"data"), 1, b"")


@pytest.mark.parametrize("slot", [4, 15, iterate_slot(MAX_STEP) + 1, 2**64, 2**64 + Slot.GRADIENT, 2**255])
def test_chunks_of_no_slot_are_refused(bench: Bench, slot: int) -> None:
    chunk(bench, bench.leader, iterate_slot(MAX_STEP), 0)
    with reverts("no such slot"):
        chunk(bench, bench.leader, slot, 0)


def test_numbers_beyond_their_field_do_not_pass_for_others(bench: Bench) -> None:
    """Slot, round and number of chunks share a word: a number with more bits than its field would reach into the next,
    and what the event says would not be what was counted."""
    device = bench.network.devices[0]
    bench.plan()
    chunk(bench, device, Slot.GRADIENT, 0)
    for index in ((1 << 64) | 1, (Slot.GRADIENT << 192) | (1 << 64) | 1, 4096):
        with reverts("too many chunks"):
            chunk(bench, device, Slot.GRADIENT, index)
    for count in ((1 << 64) | 1, (Slot.GRADIENT << 192) | 1, 4097):
        with reverts("too many chunks"):
            bench.gradient(device, chunks=count, payload=b"")
    with reverts("chunks are missing"):
        bench.gradient(device, chunks=4096, payload=b"")
    bench.gradient(device, chunks=1, payload=b"")


def test_a_device_sends_chunks_of_its_gradient_only_and_not_behind_it(bench: Bench) -> None:
    device = bench.network.devices[0]
    bench.plan()
    for slot in (Slot.PLAN, Slot.CLOSE, Slot.MODEL, Slot.ITERATE):
        with reverts("not an edge server"):
            chunk(bench, device, slot, 0)
    with reverts("an empty chunk"):
        chunk(bench, device, Slot.GRADIENT, 0, b"")
    chunk(bench, device, Slot.GRADIENT, 0)
    bench.gradient(device, chunks=1, payload=b"")
    for index in (0, 1):
        with reverts("already posted"):
            chunk(bench, device, Slot.GRADIENT, index)


# --- finality (P17)


def endorse(bench: Bench, server: LocalAccount) -> list[Call]:
    return bench.post(server, "endorse", bench.round, bench.node.head.hash)


def test_a_strict_majority_of_endorsements_makes_the_parent_final() -> None:
    bench = bench_of(4)
    bench.end_round()
    parent = bench.node.head
    for server in bench.network.servers[:2]:
        (event,) = endorse(bench, server)
        said = {"round": 2, "server": text(address_of(server)), "block_hash": parent.hash}
        assert (event.name, event.arguments) == ("Endorsed", said)
    assert bench.node.ask("final_block") == 0
    endorse(bench, bench.network.servers[2])
    assert bench.node.ask("final_block") == parent.block_number == 2
    endorse(bench, bench.network.servers[3])
    assert bench.node.ask("final_block") == 2


def test_an_endorsement_is_of_the_parent_and_given_once(bench: Bench) -> None:
    bench.end_round()
    one, two, three = bench.network.servers
    for wrong in (bytes(32), bench.node.head.parent_hash, keccak(b"fork")):
        with reverts("not the parent block"):
            bench.post(one, "endorse", 2, wrong)
    endorse(bench, one)
    with reverts("already posted"):
        endorse(bench, one)
    assert bench.node.ask("final_block") == 0
    bench.end_round()
    endorse(bench, two)  # one each of two blocks
    assert bench.node.ask("final_block") == 0
    endorse(bench, three)
    assert bench.node.ask("final_block") == 3


def test_an_endorsement_goes_with_its_server() -> None:
    bench = bench_of(7)
    liar, *honest = bench.network.servers
    for server in (liar, *honest[:2]):
        endorse(bench, server)
    bench.exclude(liar, by=[*honest[:2], *honest[4:]])
    endorse(bench, honest[2])  # four of six with the excluded one, three without
    assert bench.node.ask("final_block") == 0
    endorse(bench, honest[3])
    assert bench.node.ask("final_block") == 1


# --- sealed by calls, where blocks are not ours (C7)


@dataclass
class SealedByCalls(Bare):
    """As on an external network: no block begins a round."""

    terms: RegistryTerms = field(default_factory=lambda: replace(TERMS, contract_seal=True, seal_difficulty=50))

    @property
    def leader(self) -> LocalAccount:
        return next(s for s in self.servers if self.registry.ask("rank", address_of(s)) == 0)

    @property
    def round(self) -> int:
        return int(self.registry.ask("round"))

    def publish(self, leader: LocalAccount | None = None) -> None:
        """Plan, close and model, and the block after it."""
        leader = leader or self.leader
        for name in ("plan", "close", "model"):
            self.send(leader, name, self.round, keccak(b"x"), 0, b"x")
        self.registry.number += 1

    def puzzle(self, device: LocalAccount, anchor: int | None = None) -> bytes:
        registry = self.registry
        anchor_hash = registry.block_hash(registry.ask("anchor") if anchor is None else anchor)
        model = registry.ask("model_digest")
        return contract_puzzle(CHAIN_ID, registry.address, self.round, anchor_hash, model, address_of(device))

    def nonce(self, device: LocalAccount) -> bytes:
        """A nonce for a seal in the block that is next."""
        self.registry.number -= 1
        nonce = find_nonce(self.puzzle(device), self.terms.seal_difficulty)
        self.registry.number += 1
        assert nonce is not None
        return nonce

    def seal(self, device: LocalAccount) -> list[Call]:
        return self.send(device, "seal", self.round, self.nonce(device))


def test_a_network_sealed_by_calls_begins_with_its_founding() -> None:
    bare = SealedByCalls()
    assert bare.round == 1
    assert registry_settings(bare.registry.ask("settings")).contract_seal is True
    assert bare.registry.ask("parent_hash") == bare.registry.block_hash(0)
    with reverts("this network has no blocks of its own"):
        bare.registry.begin(address_of(bare.devices[0]), NOBODY, bytes(32), START)


def test_a_seal_ends_the_round_and_names_the_next_leader() -> None:
    bare = SealedByCalls()
    device = bare.devices[1]
    bare.publish()
    bare.registry.time_s += 30
    puzzle, nonce = bare.puzzle(device), bare.nonce(device)
    (sealed,) = bare.seal(device)
    found = seal_hash(puzzle, nonce)
    said = {"round": 1, "winner": text(address_of(device)), "seal_hash": found}
    assert (sealed.name, sealed.arguments) == ("Sealed", said)
    ask = bare.registry.ask
    assert (bare.round, ask("parent_hash"), ask("parent_time")) == (2, found, START + 30)
    assert ask("credit", address_of(device)) == 1
    assert bare.leader == bare.servers[1]
    with reverts("wrong round"):
        bare.send(device, "seal", 1, nonce)
    bare.publish()
    assert bare.registry.ask("published") == 2


def test_a_seal_needs_a_model_a_block_a_device_and_work() -> None:
    bare = SealedByCalls()
    device, other = bare.devices[:2]
    with reverts("this round has no model"):
        bare.send(device, "seal", 1, bytes(8))
    bare.publish()
    bare.registry.number -= 1
    with reverts("the publishing block is not there yet"):
        bare.send(device, "seal", 1, bytes(8))
    bare.registry.number += 1
    for sender in (bare.servers[0], STRANGER):
        with reverts("only a registered device seals"):
            bare.send(sender, "seal", 1, bytes(8))
    nonce = bare.nonce(device)
    before = next(n for n in range(2**20) if n.to_bytes(8, "big") != nonce).to_bytes(8, "big")
    with reverts("the nonce does not solve the puzzle"):
        bare.send(device, "seal", 1, before)
    with reverts("the nonce does not solve the puzzle"):
        bare.send(other, "seal", 1, nonce)  # stolen
    with reverts("wrong round"):
        bare.send(device, "seal", 2, nonce)
    bare.send(device, "seal", 1, nonce)


def test_the_contract_and_the_miner_agree_on_the_hardest_puzzle_a_nonce_solves() -> None:
    probe = SealedByCalls()
    device = probe.devices[0]
    probe.publish()
    puzzle = probe.puzzle(device)
    for nonce in (n.to_bytes(8, "big") for n in range(4)):
        found = int.from_bytes(seal_hash(puzzle, nonce), "big")
        hardest = 2**256 // found
        assert target(hardest) >= found > target(hardest + 1)
        for difficulty, solves in ((1, True), (hardest, True), (hardest + 1, False), (2**256 - 1, False)):
            bare = SealedByCalls(replace(TERMS, contract_seal=True, seal_difficulty=difficulty))
            bare.publish()
            assert bare.puzzle(device) == puzzle
            if solves:
                bare.send(device, "seal", 1, nonce)
            else:
                with reverts("the nonce does not solve the puzzle"):
                    bare.send(device, "seal", 1, nonce)


@pytest.mark.parametrize("later", [1, 199, 200, 201, 256, 257, 400, 401, 5000])
def test_a_round_can_be_sealed_however_late(later: int) -> None:
    """The EVM forgets block hashes after 256 blocks; the anchor moves on before."""
    bare = SealedByCalls()
    bare.publish()
    published = bare.registry.number - 1
    bare.registry.number = published + later
    bare.seal(bare.devices[0])
    assert bare.round == 2


def test_the_anchor_of_a_seal_stays_as_long_as_it_can() -> None:
    bare = SealedByCalls()
    bare.publish()
    published = bare.registry.number - 1
    nonce = bare.nonce(bare.devices[0])
    assert bare.registry.ask("anchor") == published
    bare.registry.number = published + 201
    with reverts("the nonce does not solve the puzzle"):
        bare.send(bare.devices[0], "seal", 1, nonce)
    bare.registry.number = published + 200
    bare.send(bare.devices[0], "seal", 1, nonce)


def test_the_term_cap_and_the_turns_hold_without_blocks_of_our_own() -> None:
    bare = SealedByCalls(replace(TERMS, contract_seal=True, term_cap=2))
    home = bare.servers[0]
    leaders = []
    for _ in range(6):
        leaders.append(bare.leader)
        bare.publish()
        bare.registry.time_s += 10
        bare.seal(bare.devices[0])
    terms = [len(list(rounds)) for leader, rounds in itertools.groupby(leaders) if leader == home]
    assert terms[0] == 2
    successor = next(s for s in bare.servers if bare.registry.ask("rank", address_of(s)) == 1)
    bare.registry.time_s += 59
    with reverts("a successor before its turn"):
        bare.send(successor, "plan", bare.round, keccak(b"x"), 0, b"x")
    bare.registry.time_s += 1
    bare.send(successor, "plan", bare.round, keccak(b"x"), 0, b"x")


def test_where_blocks_are_sealed_nobody_seals_rounds(bench: Bench) -> None:
    device = bench.network.devices[0]
    with pytest.raises(NotRegistryCallError):
        bench.post(device, "seal", 1, bytes(8))
    bare = Bare()
    with reverts("here blocks are sealed, not rounds"):
        bare.send(bare.devices[0], "seal", 1, bytes(8))


# --- gas


@pytest.mark.parametrize("size", sorted(map(int, contract.build()["bytecode"])))
def test_call_gas_is_enough_for_every_post_among_sixty_four_servers(size: int) -> None:
    registry = BareRegistry(TERMS, size)
    servers = [account(f"server {i}") for i in range(64)]
    registry.found({each: each for each in addresses(servers)})
    registry.begin(NOBODY, NOBODY, bytes(32), START)
    registry.time_s += 64 * TERMS.turn_s
    last = next(each for each in servers if registry.ask("rank", address_of(each)) == 63)
    one, offender = [each for each in servers if each != last][:2]
    accused, full = address_of(offender), b"\xff" * size
    to_exclude, to_register = 30_000, 100_000  # what the majority's flag and vote spend beyond the others'

    def check(sender: LocalAccount, name: str, *arguments: Any, beyond: int = 0) -> None:
        data = encode_call(name, *arguments)
        registry.send_raw(address_of(sender), data)
        spent = 21_000 + sum(16 if byte else 4 for byte in data) + registry.gas + beyond
        assert spent <= contract.call_gas(len(data), size), name

    def evidence(payload: bytes) -> tuple[bytes, bytes]:
        data = encode_call("iterate", 1, 0, keccak(payload), 0, payload)
        sent = decode_transaction(sign_transaction(offender, Envelope(CHAIN_ID, 0, 10**6, registry.address), data))
        return sent.unsigned, sent.signature

    check(one, "endorse", 1, bytes(32))
    check(one, "vote", A, address_of(one), beyond=to_register)
    check(last, "plan", 1, keccak(full), 0, full)
    check(one, "gradient", 1, keccak(MODEL_0), keccak(full), 1, 1, keccak(full), 0, full)
    check(last, "close", 1, keccak(b""), 0, b"")
    check(one, "chunk", 1, Slot.ITERATE, 0, b"\xff" * contract.CHUNK_BYTES)
    check(one, "iterate", 1, 0, keccak(b""), 1, b"")
    check(one, "flag", 1, accused, Slot.ITERATE, b"\xff" * 32, b"\xff" * 32, b"\xff" * 1024, beyond=to_exclude)
    check(last, "flag_equivocation", 1, accused, *evidence(b"\x01"), *evidence(b"\x02"), beyond=to_exclude)
    registry.number += 1
    registry.begin(NOBODY, NOBODY, bytes(32), START)
    check(one, "flag_equivocation", 2, accused, *evidence(full), *evidence(b"\xfe" * size), beyond=to_exclude)
