"""A round's report from its block: what a run that was killed between sealing and writing its metrics makes up for."""

from chain.consensus import read_post
from chain.node import Node
from chain.rounds import RoundBody
from clients.evaluation import Scores, evaluate_model
from edge_servers.aggregation import consensus_error, divergence
from edge_servers.block_record import FOUNDING_BLOCK, model_in, record_of
from edge_servers.chain_rounds import RoundChecker, seal_of
from edge_servers.errors import ReplayError
from edge_servers.federation import Federation, RoundReport, simulated_latency
from edge_servers.oversight import Accused
from edge_servers.planning import LOCAL, planned, round_state
from edge_servers.posts import Refusal
from edge_servers.replay import replay_round
from edge_servers.standing import Draft


def recovered_report(federation: Federation, node: Node, checker: RoundChecker, round_: int) -> RoundReport:
    """The report of a sealed round; its seconds are lost, and the chain keeps reasons without details."""
    block = node.block(round_ + FOUNDING_BLOCK)
    before = None if block is None else node.block(block.header.parent_hash)
    if block is None or before is None:
        raise ReplayError(f"the chain has no round {round_}")
    articles, server = checker.articles, federation.servers[0]
    posts = tuple(read_post(transaction, node.genesis) for transaction in block.transactions)
    statuses = tuple(receipt.status for receipt in block.receipts)
    body = RoundBody(block.header, before.header, posts, statuses)
    record = record_of(round_, zip(body.posts, body.statuses, strict=True))
    excluded = _excluded(node, before.header.block_number, articles.network.servers)
    derived = replay_round(record, model_in(before, articles), articles, excluded)
    seal, plan, index = seal_of(node, block.header, articles), record.plan, articles.network.server_index
    barred = tuple(index(each) for each in excluded)
    data = federation.settings.data
    state = round_state(round_, articles.network, data, server.task.like.sample_bytes, barred)
    draft = Draft(state, planned(server.planner, state))
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
        offences=tuple(Accused(articles.network.name(o.offender), o.kind, o.step, o.detail) for o in derived.offences),
        excluded=tuple(index(each) for each in sorted(seal.excluded or {}) if (seal.excluded or {})[each] > round_),
        block=seal.block_hash.hex(),
        block_bytes=seal.block_bytes,
    )


def _scores(federation: Federation, model: object, round_: int) -> Scores | None:
    if not federation.is_evaluated(round_):
        return None
    return evaluate_model(federation.servers[0].task.architecture, model, federation.dataset.test)  # type: ignore[arg-type]


def _excluded(node: Node, number: int, servers: tuple[str, ...]) -> tuple[str, ...]:
    """Who might not post in the round after block `number`."""
    header = node.header(number)
    found = {s: int(node.ask("excluded_through", bytes.fromhex(s[2:]), header=header)) for s in servers}
    return tuple(sorted(s for s, last in found.items() if last >= number))
