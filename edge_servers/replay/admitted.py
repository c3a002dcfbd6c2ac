"""The gradients of a round, sorted out by rule (P6): what an honest leader accepts, and what it must not."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from chain.errors import CodecError
from chain.wire.address import Address
from chain.wire.plan import Plan
from edge_servers.errors import GradientRefusedError, ReplayError
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.learning.gradients import Gradient
from edge_servers.replay.record import UNAVAILABLE, GradientReader, RoundRecord


@dataclass(frozen=True)
class Admitted:
    """The gradients of a round, sorted out by rule."""

    good: Mapping[Address, Gradient]
    """By sender: what an honest leader accepts."""
    refused: Mapping[Address, GradientRefusedError]
    """By sender: what it must not accept."""
    twice: Mapping[Address, Gradient] = field(default_factory=dict)
    """By sender, refused as well: good but for data that a server counts. A list without that server's may have them,
    or a server whose gradient comes late could make an honest list a wrong one."""


def available_gradients(record: RoundRecord, reader: GradientReader) -> Admitted:
    """The gradients of a closed round, but for those that its list names unavailable: who holds one of them must come
    to the same end as who does not (B4).
    """
    try:
        gone = record.closed_list.unavailable
    except CodecError as error:
        raise ReplayError(f"round {record.round}: {error}") from error
    names = {post.transaction_hash: reader.founding.network.name(who) for who, post in record.gradient_posts().items()}
    for each in gone:
        reasons = [reason for who, reason in record.closed_list.refused if who == names.get(each)]
        if reasons != [UNAVAILABLE]:
            raise ReplayError(
                f"round {record.round}: the closed list names 0x{each.hex()} unavailable, which is no gradient of this "
                f"round, or refused for {', '.join(reasons) or 'nothing'} too"
            )
    return admitted_gradients(record, reader, gone)


def admitted_gradients(record: RoundRecord, reader: GradientReader, without: Collection[bytes] = ()) -> Admitted:
    """Every posted gradient through P6 (bounds, weight, form), but for these transactions."""
    good: dict[Address, Gradient] = {}
    refused: dict[Address, GradientRefusedError] = {}
    for sender, post in record.gradient_posts().items():
        if post.transaction_hash in without:
            continue
        try:
            good[sender] = reader.read(post, record.plan)
        except GradientRefusedError as error:
            refused[sender] = error
    twice = {sender: good.pop(sender) for sender in counted_twice(good, record.plan, reader.founding)}
    for sender in twice:
        detail = "found data that count at the server they were planned for already"
        refused[sender] = GradientRefusedError("wrong-weight", detail)
    return Admitted(good, refused, twice)


def counted_twice(good: Mapping[Address, Gradient], plan: Plan, founding: FoundingParameters) -> list[Address]:
    """Devices that were to offload and posted a gradient, though their server counts all that the plan gives it."""
    network, found = founding.network, []
    for m, server in enumerate(network.servers):
        if server not in good:
            continue
        planned = [n for n, target in enumerate(plan.assignment) if target == m]
        free = sum(plan.samples[n] for n in planned) - good[server].samples
        for sender in sorted(network.devices[n].address for n in planned):
            if sender in good:
                free -= good[sender].samples
                if free < 0:
                    found.append(sender)
                    free += good[sender].samples
    return found
