"""A round's report from its block: what a run that was killed between sealing and writing its metrics makes up for."""

from collections.abc import Mapping

from chain.protocol.slots import Slot
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.address import Address
from chain.wire.headers import Header
from clients.evaluation import Scores
from edge_servers.errors import ReplayError
from edge_servers.founding.network import Network
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.learning.gradients import Refusal
from edge_servers.learning.reputation import aside_in
from edge_servers.ledger.block_check import body_of, excluded_after
from edge_servers.ledger.chain_sealing import SealedChain, seal_of
from edge_servers.planning.proposal import Draft, propose_offloading
from edge_servers.planning.state import round_state
from edge_servers.replay.offences import SIGNED_TWICE, Offence, failed_attempt, told_by_flag
from edge_servers.replay.record import GradientReader, RoundRecord, model_in
from edge_servers.replay.replay import Before, Replayed, replay_round
from edge_servers.report import RoundFacts, RoundReport, make_report
from edge_servers.server import EdgeServer

_LEADS = (Slot.PLAN, Slot.CLOSE, Slot.MODEL)
_WHEN: dict[int, int] = {Slot.PLAN: 0, Slot.CLOSE: 1, **dict.fromkeys(SIGNED_TWICE, 3), Slot.MODEL: 4}
"""In which order offences come to light; iterates are 2"""
_NO_RANK = 2**256 - 1
"""Of a server that may not lead"""


def recovered_report(
    server: EdgeServer,
    node: SealedChain,
    founding: FoundingParameters,
    round_: int,
    scores: Scores | None,
    seconds: Mapping[str, float],
) -> RoundReport:
    """The report of a sealed round, as `server` would have made it; the chain keeps reasons without details.

    Of what is not in the block, a refused post of an attempt that failed, the flags tell.
    """
    block = node.block(round_ + FOUNDING_BLOCK)
    before = None if block is None else node.block(block.header.parent_hash)
    if block is None or before is None or round_ < 1:
        raise ReplayError(f"the chain has no round {round_}")
    body = body_of(block, node)
    record = RoundRecord.of_block(round_, body.executed, node)
    excluded = excluded_after(before.header, founding, node)
    start = Before(model_in(before, founding, node), None, excluded)
    derived = replay_round(record, start, GradientReader(founding))
    seal = seal_of(node, block.header, founding)
    ranking = _ranked(node, block.header, founding)
    failed = [ranking[a % len(ranking)] for a in range(seal.attempt)]
    sample_bytes = server.task.like.sample_bytes
    barred = tuple(founding.network.server_index(each) for each in excluded)
    state = round_state(
        round_, founding.network, server.settings.data, sample_bytes, barred,
        devices=server.settings.devices, aside=aside_in(record.plan),
    )  # fmt: skip
    facts = RoundFacts(
        plan=record.plan,
        seal=seal,
        counted=[gradient.weight for gradient in derived.counted],
        refused=tuple(Refusal(who, reason, "") for who, reason in derived.refused),
        first=derived.iterates.first,
        last=derived.iterates.last,
        offences=_offences(record, derived, founding.network, failed),
        failed=failed,
        filtered=derived.filtered,
        draft=Draft(state, propose_offloading(server.planner, state)),
        model_size=len(derived.model),
        sample_bytes=sample_bytes,
    )
    return make_report(facts, founding.network, server.settings, scores, seconds)


def _ranked(node: SealedChain, header: Header, founding: FoundingParameters) -> list[Address]:
    """Who could lead the round of a block, in their order (P12): a ranking does not change within its round."""
    ranks = {server: int(node.ask("rank", server, header=header)) for server in founding.network.servers}
    return sorted((server for server, rank in ranks.items() if rank != _NO_RANK), key=lambda server: ranks[server])


def _offences(record: RoundRecord, derived: Replayed, network: Network, failed: list[Address]) -> list[Offence]:
    """What the chain gives, and what is known from flags alone: refused posts of attempts that failed, and pairs.

    A leader that failed and is accused of nothing was absent; in which phase no block tells.
    """
    found = {(offence.offender, offence.slot): offence for offence in derived.offences}
    for flag in record.flags:
        key = (flag.offender, flag.slot)
        is_told = flag.slot in SIGNED_TWICE or (flag.slot in _LEADS and flag.offender in failed)
        if key not in found and is_told:
            found[key] = told_by_flag(flag, network)
    accused = {offender for offender, _ in found}
    for leader in failed:
        if leader not in accused:
            found[leader, Slot.PLAN] = failed_attempt(leader, network)
    return [found[key] for key in sorted(found, key=lambda key: _WHEN.get(key[1], 2))]
