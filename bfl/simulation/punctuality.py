"""Devices that miss a round: they are away, or the latency model says that they answer after the deadline."""

from bfl.simulation.grid import Misses
from edge_servers.federation import Federation
from edge_servers.parameters import Settings
from edge_servers.planning.answers import expected_answers
from edge_servers.planning.latency import CODEC_BYTES, real_latency
from edge_servers.planning.proposal import Draft


def who_misses(settings: Settings, federation: Federation) -> Misses | None:
    """Who is out of a round of this federation; None where no setting says that anybody ever is."""
    if not settings.times_devices:
        return None
    last: tuple[Draft, list[bool]] | None = None
    """Who is missing of the plan in hand, and the draft it is made from: an attempt has its own."""

    def misses(device: int, round_: int) -> bool:
        nonlocal last
        if settings.devices.is_away(round_, device):
            return True
        draft = next((each.draft for each in federation.servers if each.draft is not None), None)
        if draft is None or draft.state.round != round_:  # an attempt that adopts a block plans nothing, orders nothing
            return False
        if last is None or last[0] is not draft:
            last = draft, _missing(draft, settings, federation)
        return last[1][device]

    return misses


def _missing(draft: Draft, settings: Settings, federation: Federation) -> list[bool]:
    """Who is out of a planned round, by device. Blocks and gossip come later, so what they take does not matter."""
    server, training, state = federation.servers[0], settings.training, draft.state
    payload_bytes = len(server.standing.model) * CODEC_BYTES[settings.rounds.codec]
    latency, _ = real_latency(
        draft.proposal, state, payload_bytes, 0, training.batch, training.iterations, 0, server.task.like.sample_bytes
    )
    there = settings.devices.there(state.round, len(server.network.devices))
    answers = expected_answers(latency, draft.proposal.assignment, settings.rounds.deadline_s, there)
    return [bool(each) for each in answers.missing]
