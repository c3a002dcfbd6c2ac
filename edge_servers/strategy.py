"""The servers that this process hosts, as a Flower strategy: one on an edge PC, all of them under `flwr run` (P19)."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from logging import INFO
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from clients.flower import log
from edge_servers import round as algorithm_1
from edge_servers.errors import FederationError
from edge_servers.federation import Federation
from edge_servers.report import RoundReport

Tell = Callable[[RoundReport], None]


def model_record(federation: Federation) -> ArrayRecord:
    """The model that a network stands on, as Flower hands it about."""
    return ArrayRecord({"model": Array(federation.servers[0].standing.model)})


class EdgeStrategy(Strategy):
    """Flower's calls as phases of Algorithm 1: `configure_train` plans and orders, `aggregate_train` does the rest."""

    def __init__(self, federation: Federation, tell: Tell = lambda _: None, evaluate_on_devices: bool = False) -> None:
        self.federation, self._tell, self._evaluates = federation, tell, evaluate_on_devices
        self._is_ours, self._has_ended = False, True

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int | None = None,
        timeout: float | None = None,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Rounds until `num_rounds` are done, of the network and not of this start: it goes on where its chain stands.

        Flower's own loop counts from 1, has one attempt at a round and one wait for all devices. Here a round has as
        many attempts as it takes, servers train on offloaded data while devices still train theirs, and waits are the
        plan's. Flower's loop works too where one attempt is enough (`Strategy.start`).
        """
        self._check_model(initial_arrays)
        result, config = Result(), train_config or ConfigRecord()
        last = self.federation.settings.rounds.rounds if num_rounds is None else num_rounds
        while self.federation.round < last:
            report = self.federation.run_round(lambda seconds: self._attempt(grid, config, seconds))
            self._tell(report)
            told: dict[str, Any] = {"training-nodes": report.training_nodes, "refused": len(report.refused)}
            result.train_metrics_clientapp[report.round] = MetricRecord({**told, "phi": report.phi})
            if report.scores is not None:
                scores: dict[str, Any] = {"accuracy": report.scores.accuracy, "loss": report.scores.loss}
                result.evaluate_metrics_serverapp[report.round] = MetricRecord(scores)
        result.arrays = self._model()
        return result

    def _attempt(self, grid: Grid, config: ConfigRecord, seconds: dict[str, float]) -> bool:
        """The round has begun; between the two calls it is the links that send and collect."""
        self._is_ours, self._seconds = True, seconds
        try:
            self.configure_train(self.federation.round + 1, self._model(), config, grid)
            self.aggregate_train(self.federation.round + 1, ())
        finally:
            self._is_ours = False
        return self._has_ended

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Phase plan, then one order per device."""
        self._check_model(arrays)
        if not self._is_ours:
            self._seconds = defaultdict(float)
            algorithm_1.begin(self.federation.servers)
        self.federation.plan_attempt(self._seconds)
        messages: list[Message] = []
        algorithm_1.everyone(self.federation.servers, lambda server: messages.extend(server.prepare_orders()))
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Phases train to seal on what came back; the next model and a few numbers. In our own loop nothing has been
        sent yet: the phase train does it, and takes replies as they come.
        """
        servers = self.federation.servers
        if not self._is_ours:
            came = list(replies)
            for server in algorithm_1.at_work(servers):
                server.link.deliver(came)
        self._has_ended = self.federation.work_attempt(self._seconds)
        if self._is_ours:
            return None, None
        if not self._has_ended:
            raise FederationError(f"round {server_round} has not ended, and Flower's loop has no other attempt")
        algorithm_1.finish(servers)
        return self._model(), self._metrics()

    def _model(self) -> ArrayRecord:
        return model_record(self.federation)

    def _metrics(self) -> MetricRecord:
        work = self.federation.servers[0].current
        metrics: dict[str, Any] = {
            "training-nodes": len(work.closed), "refused": len(work.refused), "phi": work.plan.phi
        }  # fmt: skip
        return MetricRecord(metrics)

    def _check_model(self, arrays: ArrayRecord) -> None:
        """Flower holds the model between rounds; what counts is what the network agreed on."""
        model, own = arrays["model"].numpy(), self.federation.servers[0].standing.model
        if model.shape != own.shape or model.dtype != np.float32:
            raise FederationError(
                f"found a model of {model.dtype} and shape {model.shape}, "
                f"expected float32 of {own.shape} under the key 'model'"
            )
        if not np.array_equal(model, own):
            raise FederationError(f"found another model than the one of round {self.federation.round}")

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask every device how the model does on its own share, where that is wanted."""
        if not self._evaluates:
            return []
        content = RecordDict({"model": arrays})
        nodes = [node for server in self.federation.servers for node in server.link.nodes.values()]
        return [Message(content, node, "evaluate") for node in nodes]

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Mean accuracy and loss over the devices that answered, weighted by their samples."""
        whole = [r for r in replies if r.has_content() and "metrics" in r.content]
        good = [r.content["metrics"] for r in sorted(whole, key=lambda r: r.metadata.src_node_id)]
        weights = np.array([float(m["num-examples"]) for m in good])  # type: ignore[arg-type]
        if not len(good):
            return None
        return MetricRecord(
            {
                key: float(np.average([float(m[key]) for m in good], weights=weights))  # type: ignore[arg-type]
                for key in ("accuracy", "loss")
            }
        )

    def summary(self) -> None:
        """Who is hosted here, in Flower's log."""
        for server in self.federation.servers:
            cluster = len(server.network.cluster(server.index))
            log(INFO, "\t├──> edge server %d of %d", server.index, len(server.network.servers))
            log(INFO, "\t└──> %d devices in its cluster", cluster)
