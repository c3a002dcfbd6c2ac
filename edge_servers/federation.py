"""A network of edge servers from its founding to its last round: what simulation and ServerApp have in common."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from torch import nn

from clients.consent import Consent
from clients.data import Dataset
from clients.errors import ClientError
from clients.evaluation import Scores, evaluate_model, mean_scores
from clients.models import to_vector
from clients.orders import INTRODUCE
from clients.training import Trainer, local_updates
from edge_servers import seal
from edge_servers.board import Clock, InProcessBoard
from edge_servers.errors import FederationError
from edge_servers.graph import consensus_weight, make_graph
from edge_servers.link import DeviceLink
from edge_servers.network import DeviceRecord, Network, Task, home_server, simulated_address
from edge_servers.parameters import Settings
from edge_servers.planning import make_planner
from edge_servers.posts import Refusal
from edge_servers.round import ALGORITHM_1
from edge_servers.server import EdgeServer
from edge_servers.standing import Standing


class WallClock:
    """Real time."""

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Really wait."""
        time.sleep(seconds)


@dataclass(frozen=True)
class RoundReport:
    """What a round did, for metrics and people."""

    round: int
    leader: int
    phi: int
    training_nodes: int
    samples: int
    divergence: float
    consensus_error: float
    winner: int | None
    refused: tuple[Refusal, ...]
    scores: Scores | None
    seconds: dict[str, float]


@dataclass(frozen=True)
class Federation:
    """The hosted servers and what they are judged by."""

    servers: Sequence[EdgeServer]
    dataset: Dataset
    settings: Settings

    @property
    def round(self) -> int:
        """The last finished round."""
        return self.servers[0].standing.round

    def rounds(self) -> Iterator[RoundReport]:
        """Run the rounds that are left, one report each."""
        while self.round < self.settings.rounds.rounds:
            yield self.run_round()

    def run_round(self) -> RoundReport:
        """One round of Algorithm 1, timed by phase, evaluated where it is due."""
        leader = self.servers[0].network.server_index(self.servers[0].leader)
        seconds = {}
        for phase in ALGORITHM_1:
            start = time.perf_counter()
            phase(self.servers)
            seconds[phase.__name__] = time.perf_counter() - start
        start = time.perf_counter()
        scores = self.evaluate() if self._is_evaluated(self.round) else None
        seconds["evaluate"] = time.perf_counter() - start
        return self._report(leader, scores, seconds)

    def evaluate(self) -> Scores:
        """Accuracy and loss on the test set, averaged over the servers' models where they differ (L15)."""
        models = [server.standing.model for server in self.servers]
        distinct = models[:1] if self.servers[0].scheme.one_model else models
        architecture = self.servers[0].task.architecture
        return mean_scores([evaluate_model(architecture, model, self.dataset.test) for model in distinct])

    def _is_evaluated(self, round_: int) -> bool:
        every = self.settings.rounds.evaluate_every
        return round_ == self.settings.rounds.rounds or (every > 0 and round_ % every == 0)

    def _report(self, leader: int, scores: Scores | None, seconds: dict[str, float]) -> RoundReport:
        server = self.servers[0]
        work = server.current
        return RoundReport(
            round=work.plan.round,
            leader=leader,
            phi=work.plan.phi,
            training_nodes=len(work.closed),
            samples=sum(gradient.samples for gradient in work.closed),
            divergence=server.standing.divergence,
            consensus_error=server.consensus_gap(),
            winner=server.standing.winner,
            refused=work.refused,
            scores=scores,
            seconds=seconds,
        )


def found_federation(
    grid: Grid,
    settings: Settings,
    dataset: Dataset,
    architecture: nn.Module,
    clock: Clock,
    trainer: Trainer = local_updates,
) -> Federation:
    """Ask every device who it is, then host all M servers over sub-grids of `grid`. `architecture` is model 0."""
    nodes, introduced = introduce_devices(grid, settings, clock)
    network = make_network(introduced, settings)
    task = Task(architecture, dataset.train, dataset.classes)
    standing = Standing(0, to_vector(architecture), seal.founding_hash(settings.data.seed))
    board = InProcessBoard(clock)
    planner = make_planner(settings.rounds.planner, settings.data.seed, settings.data.devices)
    servers = []
    for m in range(settings.rounds.edges):
        link = DeviceLink(grid, {d.index: nodes[d.index] for d in network.cluster(m)}, clock)
        servers.append(EdgeServer(m, network, settings, task, board, link, planner, standing, trainer))
    return Federation(servers, dataset, settings)


def make_network(introduced: Sequence[tuple[int, Consent]], settings: Settings) -> Network:
    """The participants (P2) from what the devices said: samples and consent, by device."""
    rounds, seed = settings.rounds, settings.data.seed
    graph = make_graph(rounds.graph, rounds.edges)
    devices = tuple(
        DeviceRecord(n, simulated_address(seed, "device", n), home_server(n, rounds.edges), samples, consent)
        for n, (samples, consent) in enumerate(introduced)
    )
    servers = tuple(simulated_address(seed, "server", m) for m in range(rounds.edges))
    return Network(servers, devices, graph, consensus_weight(graph, rounds.weights))


def introduce_devices(grid: Grid, settings: Settings, clock: Clock) -> tuple[dict[int, int], list[tuple[int, Consent]]]:
    """Flower node by device, and what each device holds and allows; `FederationError` where one is missing."""
    wanted, end = settings.data.devices, clock.now() + settings.rounds.deadline_s
    while len(ids := list(grid.get_node_ids())) < wanted:
        if clock.now() >= end:
            raise FederationError(f"found {len(ids)} devices after {settings.rounds.deadline_s:g} s, expected {wanted}")
        clock.sleep(0.5)
    messages = [Message(RecordDict(), node, INTRODUCE) for node in ids]
    replies = grid.send_and_receive(messages, timeout=max(1.0, end - clock.now()))
    nodes: dict[int, int] = {}
    about: dict[int, tuple[int, Consent]] = {}
    for reply in replies:
        device, samples, consent = _read_introduction(reply)
        if device in nodes:
            raise FederationError(f"two Flower nodes say they are device {device}; give each its own device-id")
        nodes[device], about[device] = reply.metadata.src_node_id, (samples, consent)
    missing = [n for n in range(wanted) if n not in nodes]
    if missing:
        raise FederationError(f"device {missing[0]} did not introduce itself ({len(missing)} of {wanted} missing)")
    return nodes, [about[n] for n in range(wanted)]


def _read_introduction(reply: Message) -> tuple[int, int, Consent]:
    if reply.has_error():
        raise FederationError(f"a device cannot take part: {reply.error.reason}")
    try:
        about: Any = reply.content["about"]
        device, samples, consent = int(about["device"]), int(about["samples"]), Consent(str(about["offload"]))
    except (KeyError, TypeError, ValueError, OverflowError, ClientError) as error:
        raise FederationError(f"a device introduced itself wrongly: {error!r}") from error
    if samples < 1:
        raise FederationError(f"device {device} has {samples} samples, expected at least 1")
    return device, samples, consent
