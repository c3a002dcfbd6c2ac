"""A round's report from its block: what a run that was killed between sealing and writing its metrics makes up for."""

from chain.node.node import Node
from chain.protocol.consensus import read_signed_call
from chain.protocol.round_check import RoundBody
from chain.protocol.slots import Slot
from chain.wire.headers import Header
from clients.evaluation import Scores, evaluate_model
from clients.models import Vector
from edge_servers.errors import ReplayError
from edge_servers.federation import Federation, RoundReport, simulated_latency
from edge_servers.founding.network import Network
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.learning.aggregation import consensus_error, divergence
from edge_servers.learning.gradients import Refusal
from edge_servers.ledger.block_check import RoundChecker
from edge_servers.ledger.chain_sealing import seal_of, tenure_at
from edge_servers.ledger.oversight import Accused
from edge_servers.ledger.ranking import ranked_leaders
from edge_servers.ledger.sealing import Seal
from edge_servers.planning.proposal import LOCAL, Draft, propose_offloading, round_state
from edge_servers.replay.block_record import FOUNDING_BLOCK, model_in, record_of
from edge_servers.replay.record import Accusation, RoundRecord, text
from edge_servers.replay.replay import Before, Replayed, replay_round

_LEADS: dict[int, str] = {Slot.PLAN: "plan", Slot.CLOSE: "close", Slot.MODEL: "model"}
_WHEN: dict[int, int] = {Slot.PLAN: 0, Slot.CLOSE: 1, Slot.EQUIVOCATION: 3, Slot.MODEL: 4}
"""In which order offences come to light; iterates are 2"""


def recovered_report(federation: Federation, node: Node, checker: RoundChecker, round_: int) -> RoundReport:
    """The report of a sealed round; its seconds are lost, and the chain keeps reasons without details.

    Of what was dropped from the block, a failed leader's post, the flags tell.
    """
    block = node.block(round_ + FOUNDING_BLOCK)
    before = None if block is None else node.block(block.header.parent_hash)
    if block is None or before is None or round_ < 1:
        raise ReplayError(f"the chain has no round {round_}")
    founding, server = checker.founding, federation.servers[0]
    posts = tuple(read_signed_call(transaction, node.genesis) for transaction in block.transactions)
    statuses = tuple(receipt.status for receipt in block.receipts)
    body = RoundBody(block.header, before.header, posts, statuses)
    record = record_of(round_, zip(body.posts, body.statuses, strict=True))
    excluded = _excluded(node, before.header.block_number, founding.network.servers)
    derived = replay_round(record, Before(model_in(before, founding), None, excluded), founding)
    seal, plan, index = seal_of(node, block.header, founding), record.plan, founding.network.server_index
    barred = tuple(index(each) for each in excluded)
    data = federation.settings.data
    state = round_state(round_, founding.network, data, server.task.like.sample_bytes, barred)
    draft = Draft(state, propose_offloading(server.planner, state))
    failed = _failed_leaders(_ranked(node, before.header, founding, excluded), seal, record, derived)
    return RoundReport(
        round=round_,
        leader=index(seal.leader),
        phi=plan.phi,
        training_nodes=len(derived.counted),
        samples=sum(gradient.samples for gradient in derived.counted),
        divergence=divergence(derived.iterates[0]),
        consensus_error=consensus_error(derived.iterates[0], derived.iterates[-1]),
        winner=seal.winner,
        refused=tuple(Refusal(who, reason, "") for who, reason in derived.refused),
        scores=_scores(federation, derived.model, round_),
        seconds={},
        offloaded=sum(target != LOCAL for target in plan.assignment),
        latency=simulated_latency(draft, plan, server, federation.settings, seal.block_bytes),
        offences=_offences(record, derived, failed, founding.network),
        excluded=tuple(map(index, seal.excluded_next)),
        failed_leaders=tuple(map(index, failed)),
        block=seal.block_hash.hex(),
        block_bytes=seal.block_bytes,
    )


def _ranked(node: Node, parent: Header, founding: FoundingParameters, excluded: tuple[str, ...]) -> list[str]:
    """Who could lead the round after a block, by rank (P12)."""
    network = founding.network
    lawful = [server for server in network.servers if server not in excluded]
    winner = network.find_device(text(parent.winner or b""))
    home = None if winner is None else network.servers[winner.home]
    tenure, cap = tenure_at(node, parent), founding.settings.rounds.term_cap
    return ranked_leaders(lawful, home, parent.hash, tenure, cap)


def _failed_leaders(ranked: list[str], seal: Seal, record: RoundRecord, derived: Replayed) -> list[str]:
    """Who came before the leader and was passed over; whoever the flags took out for something else was not."""
    excluded = set(seal.excluded_next)
    derivable = {(offence.offender, offence.slot) for offence in derived.offences}
    passed = {a.offender for a in record.accusations if a.slot in _LEADS and (a.offender, a.slot) not in derivable}
    earlier = ranked[: ranked.index(seal.leader)]
    return [server for server in earlier if server in passed or server not in excluded]


def _offences(record: RoundRecord, derived: Replayed, failed: list[str], network: Network) -> tuple[Accused, ...]:
    """What the chain gives, and what is known from flags alone: failed leaders, whose posts were dropped, and pairs."""
    found = {
        (o.offender, o.slot): Accused(network.name(o.offender), o.kind, o.step, o.detail) for o in derived.offences
    }
    order = {key: (_WHEN.get(key[1], 2), 0) for key in found}
    for told in record.accusations:
        key = (told.offender, told.slot)
        is_known = told.slot == Slot.EQUIVOCATION or (told.slot in _LEADS and told.offender in failed)
        if is_known and key not in found:
            found[key] = _told(told, network.name(told.offender))
            order[key] = (_WHEN[told.slot], failed.index(told.offender) if told.offender in failed else 0)
    return tuple(found[key] for key in sorted(found, key=lambda key: order[key]))


def _told(flag: Accusation, name: str) -> Accused:
    """An offence in the words of the referee, as far as its flag has them."""
    if flag.slot == Slot.EQUIVOCATION:
        return Accused(name, "equivocation", None, f"{name} signed two different posts for one slot")
    what = _LEADS[flag.slot]
    if not any(flag.transaction_hash):
        return Accused(name, "missing", None, f"{name} posted no {what} in its time")
    if flag.slot == Slot.MODEL:
        return Accused(name, "model", None, f"{name} published a model that eqs. 11 and 12 do not give")
    return Accused(name, what, None, f"{name} posted a {what} that the others refused")


def _scores(federation: Federation, model: Vector, round_: int) -> Scores | None:
    if not federation.is_evaluated(round_):
        return None
    return evaluate_model(federation.servers[0].task.architecture, model, federation.dataset.test)


def _excluded(node: Node, number: int, servers: tuple[str, ...]) -> tuple[str, ...]:
    """Who might not post in the round after block `number`."""
    header = node.header(number)
    found = {s: int(node.ask("excluded_through", bytes.fromhex(s[2:]), header=header)) for s in servers}
    return tuple(sorted(s for s, last in found.items() if last >= number))
