"""Every rule of the registry contract, executed: who may post what, when, and what an attacker gets."""

import itertools
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak
from eth_keys import keys

from chain import contract
from chain.contract import CLOSE, GRADIENT, ITERATE, MAX_STEP, MODEL, PLAN, Call, RegistryTerms, encode_call
from chain.errors import (
    LeaderError,
    NotRegistryCallError,
    OversizedPayloadError,
    RevertedError,
    UnregisteredSenderError,
)
from chain.keys import address_of
from chain.node import Node
from chain.seal import contract_puzzle, find_nonce, seal_hash, target
from chain.transactions import Envelope, Transaction, decode_transaction, sign_transaction
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

    def flag(self, server: LocalAccount, offender: LocalAccount, slot: int = ITERATE, sent: bytes = b"") -> list[Call]:
        said = (address_of(offender), slot, sent.rjust(32, b"\0"), keccak(b"expected"))
        return self.post(server, "flag", self.round, *said, b"")

    def exclude(self, offender: LocalAccount) -> None:
        """Have everybody else flag it until it is excluded."""
        for server in self.network.servers:
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
    assert ask("parent_hash") == bench.node.head.hash
    assert all(ask("credit", who) == 0 for who in bench.network.homes)
    assert ask("settings") == (text(address_of(bench.network.founder)), False, 3, 60, 3, 10, 1, 1 << 17)


def test_only_the_founder_registers(new: tuple[Network, Node]) -> None:
    network, node = new
    server = network.servers[0]
    network.post(node, network.founder, "register", [address_of(server)], [address_of(server)])
    with reverts("only the founder registers"):
        network.post(node, server, "register", [address_of(STRANGER)], [address_of(server)])
    with reverts("only the founder founds"):
        network.post(node, server, "found", b"{}", keccak(MODEL_0), 0, MODEL_0)


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
        network.post(node, server, "chunk", 0, MODEL, 0, b"from somebody else")
    with reverts("not founded yet"):
        network.post(node, founder, "chunk", 1, MODEL, 0, b"of another round")
    network.post(node, founder, "chunk", 0, MODEL, 0, b"model ")
    with reverts("chunks are missing"):
        network.post(node, founder, "found", b"{}", keccak(MODEL_0), 2, b"")
    network.post(node, founder, "chunk", 0, MODEL, 1, b"0")
    network.post(node, founder, "found", b"{}", keccak(MODEL_0), 2, b"")
    assert node.ask("model_digest") == keccak(MODEL_0)


def test_the_founding_block_is_no_round(new: tuple[Network, Node]) -> None:
    network, node = new
    server, device, model = network.servers[0], network.devices[0], keccak(MODEL_0)
    homes = {address_of(server): address_of(server), address_of(device): address_of(server)}
    network.post(node, network.founder, "register", list(homes), list(homes.values()))
    post_nothing = {
        "plan": (server, 0, keccak(b"x"), 0, b"x"),
        "gradient": (device, 0, model, bytes(32), 1, 1, keccak(b"x"), 0, b"x"),
        "close": (server, 0, keccak(b"x"), 0, b"x"),
        "iterate": (server, 0, 0, keccak(b"x"), 0, b"x"),
        "flag": (server, 0, address_of(device), ITERATE, bytes(32), bytes(32), b""),
        "endorse": (server, 0, bytes(32)),
        "model": (server, 0, keccak(b"x"), 0, b"x"),
        "chunk": (device, 0, GRADIENT, 0, b"x"),
        "vote": (server, address_of(STRANGER), address_of(server)),
    }
    for is_founded in (False, True):
        for name, (sender, *arguments) in post_nothing.items():
            with reverts("not founded yet"):
                network.post(node, sender, name, *arguments)
        if not is_founded:
            network.post(node, network.founder, "found", b"{}", model, 0, MODEL_0)


@pytest.mark.parametrize("zero", ["term_cap", "turn_s", "seal_difficulty"])
def test_terms_of_zero_are_refused(zero: str) -> None:
    with reverts("term cap, turn and difficulty must be positive"):
        BareRegistry(RegistryTerms(**{zero: 0}))


@pytest.mark.parametrize("huge", ["turn_s", "flag_window", "exclusion_rounds"])
def test_terms_whose_sums_would_overflow_are_refused(huge: str) -> None:
    BareRegistry(RegistryTerms(**{huge: 2**64 - 1}))
    with reverts("turn, flag window and exclusion have 64 bits"):
        BareRegistry(RegistryTerms(**{huge: 2**64}))


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
        bench.vote(server, STRANGER, server := bench.network.servers[0])
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
    best = seal_hash_order(parent_hash, address_of(leader))
    usurper = next(
        each for i in itertools.count() if seal_hash_order(parent_hash, address_of(each := account(f"usurper {i}"))) < best
    )
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


def seal_hash_order(parent_hash: bytes, server: bytes) -> bytes:
    import hashlib

    return hashlib.sha256(parent_hash + server).digest()


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


def test_the_registry_remembers_the_digests_of_the_current_round_only(bench: Bench) -> None:
    device = address_of(bench.network.devices[0])
    bench.plan()
    assert bench.node.ask("posted", device, GRADIENT) == bytes(32)
    bench.gradient(bench.network.devices[0])
    assert bench.node.ask("posted", device, GRADIENT) == keccak(b"gradient")
    assert bench.node.ask("posted", device, ITERATE) == bytes(32)
    assert bench.node.ask("posted", device, 2**255) == bytes(32)
    bench.end_round()
    assert bench.node.ask("posted", device, GRADIENT) == bytes(32)


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
        bench.post(bench.network.founder, "chunk", 1, GRADIENT, 0, b"x")


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
        "flag": (other, ITERATE, bytes(32), digest, b""),
        "flag_equivocation": (other, b"x", bytes(65), b"y", bytes(65)),
        "model": (digest, 0, b"x"),
        "chunk": (GRADIENT, 0, b"x"),
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
    for early in (lambda: bench.iterate(leader), bench.model):
        with reverts("this round is not closed"):
            early()
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
    for beyond in (MAX_STEP + 1, 128, 2**256 - 1, 2**256 - ITERATE):
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
    bare, homes = bare_network()
    server, other = list(homes)[:2]
    too_long = bytes((1 << 17) + 1)
    lead(bare, server)
    for data in (
        encode_call("plan", 1, keccak(too_long), 0, too_long),
        encode_call("chunk", 1, GRADIENT, 0, bytes(contract.CHUNK_BYTES + 1)),
        encode_call("flag", 1, other, ITERATE, bytes(32), bytes(32), bytes(1025)),
        encode_call("flag_equivocation", 1, other, bytes((1 << 17) + 1025), bytes(65), b"", bytes(65)),
        encode_call("flag_equivocation", 1, other, b"", bytes(66), b"", bytes(65)),
    ):
        with reverts("no reason: Out of gas") if False else pytest.raises(RevertedError):
            bare.send_raw(server, data)
    bare.send(server, "plan", 1, keccak(too_long[1:]), 0, too_long[1:])
    bare.send(server, "chunk", 1, GRADIENT, 0, bytes(contract.CHUNK_BYTES))


def test_a_refused_post_leaves_no_trace(bench: Bench) -> None:
    nonce = bench.node.state().nonce(address_of(bench.leader))
    with reverts("wrong round"):
        bench.post(bench.leader, "plan", 2, keccak(b"x"), 0, b"x")
    assert len(bench.node.pool) == 0
    assert bench.node.state().nonce(address_of(bench.leader)) == nonce
