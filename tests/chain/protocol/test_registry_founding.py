"""Who founds a network, and what a founding must be (P2)."""

from collections.abc import Iterator
from typing import Any

import pytest

from chain.client.keys import address_of
from chain.errors import (
    UnregisteredSenderError,
)
from chain.node.node import Node
from chain.protocol import contract
from chain.protocol.contract import RegistryTerms
from chain.protocol.slots import Slot
from chain.wire.sidecar import payload_digest
from chain.wire.transactions import Envelope, sign_transaction
from tests.chain.network import (
    CHAIN_ID,
    MODEL_0,
    PARAMETERS,
    SIZES,
    BareRegistry,
    Clock,
    Network,
    addresses,
    genesis,
    named,
)
from tests.chain.protocol.registry_bench import NOBODY, STRANGER, A, B, Bench, C, reverts

FOUNDING = (*named(PARAMETERS), payload_digest(MODEL_0), SIZES)


@pytest.fixture
def new() -> Iterator[tuple[Network, Node]]:
    """A network whose registry is deployed and empty."""
    network, node = Network(), Node.in_memory(genesis(), now=Clock())
    creation = contract.deployment(network.terms)
    node.submit(sign_transaction(network.founder, Envelope(CHAIN_ID, 0, 20_000_000, b""), creation))
    yield network, node
    node.close()


def test_the_founding_block_knows_every_participant_and_its_home(bench: Bench) -> None:
    ask, network = bench.node.ask, bench.network
    assert {who: ask("home", who) for who in network.homes} == network.homes
    assert list(ask("server_list")) == addresses(network.servers)
    assert [ask("is_device", who) for who in network.homes] == [False] * 3 + [True] * 4
    assert ask("home", address_of(STRANGER)) == NOBODY
    assert not ask("is_device", address_of(STRANGER))


def test_the_first_round_starts_from_model_0_with_nothing_posted(bench: Bench) -> None:
    ask = bench.node.ask
    assert ask("founded")
    assert (ask("round"), ask("plan_digest"), ask("close_digest")) == (1, bytes(32), bytes(32))
    assert not any(ask("has_posted", who, slot) for who in bench.network.homes for slot in range(128))
    assert ask("model_digest") == payload_digest(MODEL_0)
    assert tuple(ask("payload_sizes")) == SIZES
    assert ask("published_by") == address_of(bench.network.founder)
    assert ask("parent_hash") == bench.node.head.hash
    assert all(ask("credit", who) == 0 for who in bench.network.homes)
    assert ask("settings") == (address_of(bench.network.founder), False, 3, 3, 10, 1)


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
            registry.send(sender, "found", *FOUNDING)


def test_what_is_founded_cannot_be_founded_or_registered_again(bench: Bench) -> None:
    founder = bench.network.founder
    with reverts("already founded"):
        bench.post(founder, "register", [address_of(STRANGER)], [address_of(STRANGER)])
    with reverts("already founded"):
        bench.post(founder, "found", *named(PARAMETERS), payload_digest(b"another"), SIZES)
    assert bench.node.ask("model_digest") == payload_digest(MODEL_0)


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
    assert node.ask("home", A) == NOBODY


def test_sixty_four_servers_have_room_and_not_one_more(new: tuple[Network, Node]) -> None:
    network, node = new
    servers = [i.to_bytes(20, "big") for i in range(1, 66)]
    network.post(node, network.founder, "register", servers[:64], servers[:64], gas=20_000_000)
    with reverts("no room for another edge server"):
        network.post(node, network.founder, "register", servers[64:], servers[64:])
    network.post(node, network.founder, "register", servers[64:], servers[:1])
    assert len(node.ask("server_list")) == 64


def test_a_founding_needs_a_server_and_parameters(new: tuple[Network, Node]) -> None:
    network, node = new
    with reverts("no edge server is registered"):
        network.post(node, network.founder, "found", *FOUNDING, beside=(PARAMETERS, MODEL_0))
    network.post(node, network.founder, "register", [A], [A])
    with reverts("no parameters"):
        network.post(node, network.founder, "found", *named(b""), *FOUNDING[2:], beside=(b"", MODEL_0))
    assert not node.ask("founded")
    network.post(node, network.founder, "found", *FOUNDING, beside=(PARAMETERS, MODEL_0))
    assert node.ask("founded")


def test_the_founding_block_is_no_round() -> None:
    registry, model, digest = BareRegistry(), payload_digest(MODEL_0), payload_digest(b"x")
    registry.send(registry.founder, "register", [A, B], [A, A])
    posts: list[tuple[Any, ...]] = [
        (A, "plan", 0, 0, digest, 1),
        (B, "gradient", 0, 0, model, bytes(32), 1, 1, digest, SIZES.gradient),
        (A, "close", 0, 0, bytes(32), digest, 1),
        (A, "iterate", 0, 0, 0, bytes(32), digest, SIZES.iterate),
        (A, "roll", 0, 0, bytes(32), digest, 1),
        (A, "begin_attempt", 0, 1, [], b""),
        (A, "flag", 0, B, Slot.ITERATE, bytes(32), bytes(32)),
        (A, "flag_equivocation", 0, B, b"x", bytes(65), b"y", bytes(65)),
        (A, "endorse", 0, 0, bytes(32), [], b""),
        (A, "flag_signatures", 0, B, bytes(160), bytes(65), bytes(160), bytes(65)),
        (A, "model", 0, 0, bytes(32), digest, SIZES.model),
        (A, "vote", C, A),
    ]
    for is_founded in (False, True):
        for sender, name, *arguments in posts:
            with reverts("not founded yet"):
                registry.send(sender, name, *arguments)
        if not is_founded:
            registry.send(registry.founder, "found", *FOUNDING)


@pytest.mark.parametrize("zero", [{"term_cap": 0}, {"seal_difficulty": 0}])
def test_terms_of_zero_are_refused(zero: dict[str, Any]) -> None:
    with reverts("term cap and difficulty must be positive"):
        BareRegistry(RegistryTerms(**zero))


@pytest.mark.parametrize("term", ["flag_window", "exclusion_rounds"])
def test_terms_whose_sums_would_overflow_are_refused(term: str) -> None:
    most: dict[str, Any] = {term: 2**62 - 1}
    BareRegistry(RegistryTerms(**most))
    too_much: dict[str, Any] = {term: 2**62}
    with reverts("flag window and exclusion have 62 bits"):
        BareRegistry(RegistryTerms(**too_much))
