"""Eqs. 8-12 from the ledger (P13): what every server must have computed, by whoever wants to know.

A round follows from the model before it, its plan, its gradients and its closed list. Pure functions: edge servers
call them while the round runs, nodes before they take a block, auditors years later; all get the same bits (P8-P10).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from eth_hash.auto import keccak

from chain import contract
from chain.codec import encode_floats, encode_iterate
from chain.errors import CodecError
from chain.posts import Post
from clients.models import Vector
from edge_servers.aggregation import FixedPoint, partial_aggregate, to_fixed_point, total_samples
from edge_servers.articles import Articles
from edge_servers.errors import GradientRefusedError, ReplayError
from edge_servers.gossip import next_iterate
from edge_servers.oversight import VERDICTS, deterministic_filter
from edge_servers.posts import Gradient
from edge_servers.record import RoundRecord, check_phi, check_plan, read_gradient
from edge_servers.schemes import SCHEMES, ClosedRound


@dataclass(frozen=True)
class Admitted:
    """The gradients of a round, sorted out by rule."""

    good: Mapping[str, Gradient]
    """By sender: what an honest leader accepts."""
    refused: Mapping[str, GradientRefusedError]
    """By sender: what it must not accept."""


@dataclass(frozen=True)
class ClosedGradients:
    """A closed list, checked."""

    counted: tuple[Gradient, ...]
    """What eqs. 8 and 11 are computed from, after the filters that change values."""
    omitted: tuple[Gradient, ...]
    """Good ones that the leader left out without a word: evidence against it (P4)."""
    touched: int
    """How many of them a filter changed."""


def admitted_gradients(record: RoundRecord, articles: Articles) -> Admitted:
    """Every posted gradient through P6 (bounds, weight, form)."""
    good: dict[str, Gradient] = {}
    refused: dict[str, GradientRefusedError] = {}
    for sender, post in record.gradient_posts().items():
        try:
            good[sender] = read_gradient(post, record.plan, articles)
        except GradientRefusedError as error:
            refused[sender] = error
    return Admitted(good, refused)


def closed_gradients(record: RoundRecord, articles: Articles, admitted: Admitted) -> ClosedGradients:
    """What the closed list makes count; `ReplayError` for one that no honest leader posts."""
    try:
        closed = record.closed_list
    except CodecError as error:
        raise ReplayError(f"round {record.round}: {error}") from error
    by_hash = {gradient.transaction_hash: gradient for gradient in admitted.good.values()}
    unknown = [accepted for accepted in closed.accepted if accepted not in by_hash]
    if unknown:
        raise ReplayError(
            f"round {record.round}: the closed list accepts 0x{unknown[0].hex()}, which is no gradient that may count"
        )
    accepted = [by_hash[each] for each in closed.accepted]
    if [g.sender for g in accepted] != sorted(g.sender for g in accepted):
        raise ReplayError(f"round {record.round}: the closed list is not in ascending order of address")
    judged = {who for who, reason in closed.refused if reason in VERDICTS}
    senders = {g.sender for g in accepted}
    standing = [g for g in admitted.good.values() if g.node not in judged or g.sender in senders]
    left_out = [g for g in standing if g.sender not in senders]
    filters = deterministic_filter(articles.settings.rounds.filter)
    result = filters(standing)
    if any(g.sender in result.removed for g in accepted):
        named = next(g.node for g in accepted if g.sender in result.removed)
        raise ReplayError(f"round {record.round}: the closed list accepts {named}, whom the filters take out")
    omitted = tuple(g for g in left_out if g.sender not in result.removed)
    if omitted:  # the list stands as it is (P4), so the filters see what it accepts
        result = filters(accepted)
    return ClosedGradients(result.kept, omitted, result.touched)


def replayed_iterates(counted: Sequence[Gradient], size: int, phi: int, articles: Articles) -> list[list[FixedPoint]]:
    """Eqs. 8 and 9 for all servers: x_m(l) as [step][server]."""
    network = articles.network
    total = total_samples(counted)
    steps = [
        [
            to_fixed_point(partial_aggregate([g for g in counted if g.server == m], total, size), f"server {m}")
            for m in range(len(network.servers))
        ]
    ]
    for _ in range(phi):
        last = dict(enumerate(steps[-1]))
        steps.append([next_iterate(m, last, network.graph.neighbours(m), network.weight) for m in last])
    return steps


def replayed_model(
    counted: Sequence[Gradient], x: FixedPoint, leader: int, model: Vector, articles: Articles
) -> Vector:
    """Eqs. 10-12: the model that a leader must publish."""
    if not counted:  # a round in which nobody trained leaves the model as it was
        return model
    eta, servers = articles.settings.training.learning_rate, len(articles.network.servers)
    scheme = SCHEMES[articles.settings.rounds.scheme]
    return scheme.next_model(ClosedRound(leader, servers, model, counted, x, eta))


def iterate_payload(x: FixedPoint, articles: Articles) -> bytes:
    """An iterate as it is posted."""
    return encode_iterate(x, articles.sizes)


def model_payload(model: Vector, articles: Articles) -> bytes:
    """A model as it is posted."""
    return encode_floats(model, articles.sizes, "fp32")


@dataclass(frozen=True)
class Offence:
    """What somebody did wrong, with the evidence that a flag carries (P15)."""

    offender: str
    kind: str
    """iterate, missing, close, plan, model, equivocation."""
    slot: int
    transaction_hash: bytes
    expected: bytes
    detail: str

    @property
    def step(self) -> int | None:
        """The consensus step, for an iterate."""
        is_step = contract.ITERATE <= self.slot <= contract.ITERATE + contract.MAX_STEP
        return self.slot - contract.ITERATE if is_step else None


@dataclass(frozen=True)
class Replayed:
    """A whole round, derived again."""

    counted: tuple[Gradient, ...]
    iterates: list[list[FixedPoint]]
    model: Vector
    offences: tuple[Offence, ...]
    refused: tuple[tuple[str, str], ...]
    """(who, reason) as the leader closed the list."""
    touched: int


def iterate_offence(
    posted: Post | None, expected: FixedPoint, server: str, step: int, articles: Articles
) -> Offence | None:
    """Whether a server's iterate is wrong or missing; None if it is right."""
    payload = iterate_payload(expected, articles)
    if posted is not None and posted.payload == payload:
        return None
    name = articles.network.name(server)
    slot, digest = contract.ITERATE + step, bytes(keccak(payload))
    if posted is None:
        return Offence(server, "missing", slot, bytes(32), digest, f"{name} posted no iterate of step {step}")
    detail = f"{name}: iterate of step {step} is not what eq. {9 if step else 8} gives"
    return Offence(server, "iterate", slot, posted.transaction_hash, digest, detail)


def close_offence(record: RoundRecord, omitted: Sequence[Gradient], articles: Articles) -> Offence | None:
    """Whether the leader left out gradients that were there (P4)."""
    post = record.only(contract.CLOSE)
    if not omitted or post is None:
        return None
    leader = "0x" + post.sender.hex()
    names = ", ".join(gradient.node for gradient in omitted)
    detail = f"{articles.network.name(leader)} left {names} out of the closed list without a reason"
    return Offence(leader, "close", contract.CLOSE, post.transaction_hash, omitted[0].transaction_hash, detail)


def replay_round(record: RoundRecord, model: Vector, articles: Articles, virtual: Iterable[str] = ()) -> Replayed:
    """A sealed round from the model before it; `ReplayError` where its own posts do not make its model.

    `virtual` are the servers that may not post (P14): nobody misses their iterates. A plan for other devices or with
    a million steps is refused before it is followed: a block may come from anybody.
    """
    check_plan(record.plan, articles, record.round)
    check_phi(record.plan, articles)
    admitted = admitted_gradients(record, articles)
    closed = closed_gradients(record, articles, admitted)
    iterates = replayed_iterates(closed.counted, len(model), record.plan.phi, articles)
    offences = [close_offence(record, closed.omitted, articles)]
    silent = set(virtual)
    for step, expected in enumerate(iterates):
        for m, server in enumerate(articles.network.servers):
            posted = record.iterate(server, step)
            if posted is not None or server not in silent:
                offences.append(iterate_offence(posted, expected[m], server, step, articles))
    published = record.only(contract.MODEL)
    if published is None:
        raise ReplayError(f"round {record.round} was sealed without a model")
    leader = articles.network.server_index("0x" + published.sender.hex())
    derived = replayed_model(closed.counted, iterates[-1][leader], leader, model, articles)
    _check_published(published, derived, record, articles)
    found = tuple(offence for offence in offences if offence is not None)
    return Replayed(closed.counted, iterates, derived, found, record.closed_list.refused, closed.touched)


def _check_published(published: Post, derived: Vector, record: RoundRecord, articles: Articles) -> None:
    expected = model_payload(derived, articles)
    if published.payload != expected:
        raise ReplayError(
            f"round {record.round}: the model of {articles.network.name('0x' + published.sender.hex())} has digest "
            f"0x{published.digest.hex()}, its own gradients and closed list give 0x{keccak(expected).hex()}"
        )
