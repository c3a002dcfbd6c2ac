"""A round's report from its block: what a run that was killed between sealing and writing its metrics makes up for."""

from chain.node.node import Node
from chain.protocol.slots import Slot
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.address import Address
from chain.wire.headers import Header
from clients.evaluation import Scores, evaluate_model
from clients.models import Vector
from edge_servers.chain_hosting import HostedChain
from edge_servers.errors import ReplayError
from edge_servers.federation import Federation
from edge_servers.founding.network import Network
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.learning.gradients import Refusal
from edge_servers.ledger.block_check import body_of, excluded_after
from edge_servers.ledger.chain_sealing import seal_of, tenure_at
from edge_servers.ledger.ranking import ranked_leaders
from edge_servers.ledger.sealing import Seal
from edge_servers.planning.proposal import Draft, propose_offloading
from edge_servers.planning.state import round_state
from edge_servers.replay.offences import Offence, told_by_flag
from edge_servers.replay.record import GradientReader, RoundRecord, model_in
from edge_servers.replay.replay import Before, Replayed, replay_round
from edge_servers.report import RoundFacts, RoundReport, make_report

_LEADS = (Slot.PLAN, Slot.CLOSE, Slot.MODEL)
_WHEN: dict[int, int] = {Slot.PLAN: 0, Slot.CLOSE: 1, Slot.EQUIVOCATION: 3, Slot.MODEL: 4}
"""In which order offences come to light; iterates are 2"""


def recovered_report(federation: Federation, hosted: HostedChain, round_: int) -> RoundReport:
    """The report of a sealed round; its seconds are lost, and the chain keeps reasons without details.

    Of what was dropped from the block, a failed leader's post, the flags tell.
    """
    node, founding = hosted.nodes[0], hosted.founding
    block = node.block(round_ + FOUNDING_BLOCK)
    before = None if block is None else node.block(block.header.parent_hash)
    if block is None or before is None or round_ < 1:
        raise ReplayError(f"the chain has no round {round_}")
    body = body_of(block, node)
    record = RoundRecord.of_block(round_, body.executed, node)
    excluded = excluded_after(before.header, founding, node)
    start = Before(model_in(before, founding, node), None, excluded)
    derived = replay_round(record, start, GradientReader(founding))
    seal, server = seal_of(node, block.header, founding), federation.servers[0]
    failed = _failed_leaders(_ranked(node, before.header, founding, excluded), seal, record, derived)
    sample_bytes = server.task.like.sample_bytes
    barred = tuple(founding.network.server_index(each) for each in excluded)
    state = round_state(round_, founding.network, federation.settings.data, sample_bytes, barred)
    facts = RoundFacts(
        plan=record.plan,
        seal=seal,
        counted=[gradient.weight for gradient in derived.counted],
        refused=tuple(Refusal(who, reason, "") for who, reason in derived.refused),
        first=derived.iterates.first,
        last=derived.iterates.last,
        offences=_offences(record, derived, failed, founding.network),
        failed=failed,
        draft=Draft(state, propose_offloading(server.planner, state)),
        model_size=len(derived.model),
        sample_bytes=sample_bytes,
    )
    return make_report(facts, founding.network, federation.settings, _scores(federation, derived.model, round_), {})


def _ranked(node: Node, parent: Header, founding: FoundingParameters, excluded: tuple[Address, ...]) -> list[Address]:
    """Who could lead the round after a block, by rank (P12)."""
    network = founding.network
    lawful = [server for server in network.servers if server not in excluded]
    winner = network.find_device(parent.winner)
    home = None if winner is None else network.servers[winner.home]
    tenure, cap = tenure_at(node, parent), founding.settings.rounds.term_cap
    return ranked_leaders(lawful, home, parent.hash, tenure, cap)


def _failed_leaders(ranked: list[Address], seal: Seal, record: RoundRecord, derived: Replayed) -> list[Address]:
    """Who came before the leader and was passed over; whoever the flags took out for something else was not."""
    excluded = set(seal.excluded_next)
    derivable = {(offence.offender, offence.slot) for offence in derived.offences}
    passed = {f.offender for f in record.flags if f.slot in _LEADS and (f.offender, f.slot) not in derivable}
    earlier = ranked[: ranked.index(seal.leader)]
    return [server for server in earlier if server in passed or server not in excluded]


def _offences(record: RoundRecord, derived: Replayed, failed: list[Address], network: Network) -> list[Offence]:
    """What the chain gives, and what is known from flags alone: failed leaders, whose posts were dropped, and pairs."""
    found = {(offence.offender, offence.slot): offence for offence in derived.offences}
    order = {key: (_WHEN.get(key[1], 2), 0) for key in found}
    for flag in record.flags:
        key = (flag.offender, flag.slot)
        is_known = flag.slot == Slot.EQUIVOCATION or (flag.slot in _LEADS and flag.offender in failed)
        if is_known and key not in found:
            found[key] = told_by_flag(flag, network)
            order[key] = (_WHEN[flag.slot], failed.index(flag.offender) if flag.offender in failed else 0)
    return [found[key] for key in sorted(found, key=lambda key: order[key])]


def _scores(federation: Federation, model: Vector, round_: int) -> Scores | None:
    if not federation.is_evaluated(round_):
        return None
    return evaluate_model(federation.servers[0].task.architecture, model, federation.dataset.test)
