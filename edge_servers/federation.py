"""A network of edge servers from its founding to its last round: what simulation and ServerApp have in common."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from torch import nn

from chain.wire.address import Address
from clients.consent import Consent
from clients.data import Dataset
from clients.errors import ClientError
from clients.evaluation import Scores, evaluate_model, mean_scores
from clients.orders import INTRODUCE
from clients.training import Trainer, local_updates
from edge_servers import round as algorithm_1
from edge_servers.devices.link import DeviceLink
from edge_servers.errors import BoardError, FederationError
from edge_servers.founding.network import DeviceRecord, LearningTask, Network, home_server
from edge_servers.home import ServerParts
from edge_servers.hosting import Hosted, Hosting, OffChain
from edge_servers.learning.graph import consensus_weight, make_graph
from edge_servers.learning.jury import jury_of
from edge_servers.ledger.board import Clock
from edge_servers.parameters import Settings
from edge_servers.planning.proposal import make_planner
from edge_servers.report import RoundFacts, RoundReport, make_report
from edge_servers.server import EdgeServer
from policy.clock import epoch_s

Phase = Callable[[Sequence[EdgeServer]], None]
Attempt = Callable[[dict[str, float]], bool]
"""One try at a round, which notes the seconds of its phases; whether it has ended the round"""
_TURNS = 2
"""How often every server leads a round in vain before a simulation ends"""


class WallClock:
    """Real time: deadlines are the same for all machines (D3.3)."""

    def now(self) -> float:
        """Seconds of the epoch."""
        return epoch_s()

    def sleep(self, seconds: float) -> None:
        """Really wait."""
        time.sleep(seconds)


@dataclass(frozen=True)
class Federation:
    """The hosted servers and what they are judged by."""

    servers: Sequence[EdgeServer]
    dataset: Dataset
    settings: Settings
    hosted: Hosted
    """What the servers stand on; to be closed at the end."""
    phases: Sequence[Phase] = algorithm_1.ALGORITHM_1

    @property
    def round(self) -> int:
        """The last finished round."""
        return self.servers[0].standing.round

    def rounds(self) -> Iterator[RoundReport]:
        """Run the rounds that are left, one report each."""
        while self.round < self.settings.rounds.rounds:
            yield self.run_round()

    def run_round(self, attempt: Attempt | None = None) -> RoundReport:
        """One round of Algorithm 1: attempts at it until a block is final; evaluated where it is due."""
        seconds: dict[str, float] = defaultdict(float)
        algorithm_1.begin(self.servers)
        while not (attempt or self._attempt)(seconds):
            algorithm_1.pass_on(self.servers)
            self._check_hope()
        algorithm_1.finish(self.servers)
        with _timed(seconds, "evaluate"):
            scores = self.evaluate() if self.is_evaluated(self.round) else None
        return self._report(scores, dict(seconds))

    def _check_hope(self) -> None:
        """Raise `BoardError` where all servers are of this process and each has led twice in vain: a third time, with
        nothing else in the world, would come to the same.
        """
        one = self.servers[0]
        if len(self.servers) == len(one.network.servers) and one.attempt >= _TURNS * len(one.ranking):
            raise BoardError(f"round {one.round}: all {len(one.ranking)} leaders have failed, each {_TURNS} times")

    def _attempt(self, seconds: dict[str, float]) -> bool:
        """One attempt at the round; whether it has ended the round."""
        self.plan_attempt(seconds)
        return self.work_attempt(seconds)

    def plan_attempt(self, seconds: dict[str, float]) -> None:
        """The first phase of an attempt: then there are orders."""
        self._run(self.phases[:1], seconds)

    def work_attempt(self, seconds: dict[str, float]) -> bool:
        """Its other phases, on what the devices answer; whether it has ended the round."""
        self._run(self.phases[1:], seconds)
        return algorithm_1.settle(self.servers)

    def _run(self, phases: Sequence[Phase], seconds: dict[str, float]) -> None:
        """Phases by those who are at work, timed."""
        for phase in phases:
            servers = algorithm_1.at_work(self.servers)
            if servers:
                with _timed(seconds, phase.__name__):
                    phase(servers)

    def evaluate(self) -> Scores:
        """Accuracy and loss on the test set, averaged over the servers' models where they differ (L15)."""
        models = [server.standing.model for server in self.servers]
        distinct = models[:1] if self.servers[0].scheme.one_model else models
        architecture = self.servers[0].task.architecture
        return mean_scores([evaluate_model(architecture, model, self.dataset.test) for model in distinct])

    def is_evaluated(self, round_: int) -> bool:
        """Whether a round's model is tried on the test set."""
        every = self.settings.rounds.evaluate_every
        return round_ == self.settings.rounds.rounds or (every > 0 and round_ % every == 0)

    def recovered_report(self, round_: int) -> RoundReport:
        """The report of a sealed round whose own is lost; its seconds are too."""
        model = self.hosted.model(round_) if self.is_evaluated(round_) else None
        architecture = self.servers[0].task.architecture
        scores = None if model is None else evaluate_model(architecture, model, self.dataset.test)
        return self.hosted.recovered_report(self.servers[0], round_, scores, {})

    def _report(self, scores: Scores | None, seconds: dict[str, float]) -> RoundReport:
        """What a hosted server saw of the round; who planned it, and details of refusals, the others know.

        Who was not at work in the attempt that ended it reads it from the block, like anybody else.
        """
        seal = self.servers[0].sealer.find(self.round)
        if seal is None:
            raise BoardError(f"round {self.round} is not sealed")
        saw_it = [each for each in self.servers if each.is_at_work and each.attempt == seal.attempt]
        if not saw_it:
            return self.hosted.recovered_report(self.servers[0], self.round, scores, seconds)
        server = saw_it[0]
        running, oversight = server.current, server.oversight
        details = {refusal.node: refusal.detail for each in self.servers for refusal in each.current.refusals}
        facts = RoundFacts(
            plan=running.plan,
            seal=seal,
            counted=running.weights,
            refused=tuple(replace(refusal, detail=details.get(refusal.node, "")) for refusal in running.refused),
            first=oversight.iterates(0),
            last=oversight.iterates(running.plan.phi),
            offences=oversight.offences,
            filtered=oversight.filtered,
            failed=[server.ranking[a % len(server.ranking)] for a in range(seal.attempt)],
            draft=next((each.draft for each in self.servers if each.draft is not None), None),
            model_size=len(server.standing.model),
            sample_bytes=server.task.like.sample_bytes,
        )
        return make_report(facts, server.network, self.settings, scores, seconds)


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[name] += time.perf_counter() - start


def found_federation(
    grid: Grid,
    settings: Settings,
    dataset: Dataset,
    architecture: nn.Module,
    clock: Clock,
    trainer: Trainer = local_updates,
    hosting: Hosting | None = None,
) -> Federation:
    """Ask every device who it is, then host all M servers over sub-grids of `grid`. `architecture` is model 0."""
    nodes, introduced = introduce_devices(grid, settings, clock)
    hosting = hosting or OffChain(settings)
    network = make_network(introduced, settings, hosting)
    task = LearningTask(architecture, dataset.train, dataset.classes, jury_of(dataset, settings, architecture))
    hosted = hosting.open(network, task)
    planner = make_planner(settings.rounds.planner, settings.data.seed, settings.data.devices)
    servers = []
    for m in range(settings.rounds.edges):
        link = DeviceLink(grid, {d.index: nodes[d.index] for d in network.devices if m in (d.home, d.standby)}, clock)
        parts = ServerParts(m, network, settings, task, hosted.accesses[m], link, hosted.standing)
        servers.append(EdgeServer(parts, planner, trainer))
    return Federation(servers, dataset, settings, hosted)


class Addresses(Protocol):
    """Whoever knows the address of every participant."""

    def address(self, role: str, index: int) -> Address:
        """Of a server or a device."""


def make_network(
    introduced: Sequence[tuple[int, Consent]],
    settings: Settings,
    addresses: Addresses,
    homes: Sequence[int] | None = None,
    standbys: Sequence[int | None] | None = None,
) -> Network:
    """The participants (P2) from what the devices said: samples and consent, by device. `homes`: the server of each,
    where it was chosen; else they are dealt in turn. `standbys`: who orders each while home is dormant; else nobody.
    """
    rounds = settings.rounds
    at_home = homes or [home_server(n, rounds.edges) for n in range(len(introduced))]
    beside = standbys or [None] * len(introduced)
    graph = make_graph(rounds.graph, rounds.edges)
    devices = tuple(
        DeviceRecord(n, addresses.address("device", n), at_home[n], samples, consent, beside[n])
        for n, (samples, consent) in enumerate(introduced)
    )
    servers = tuple(addresses.address("server", m) for m in range(rounds.edges))
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
