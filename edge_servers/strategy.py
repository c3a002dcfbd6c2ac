"""One edge server as a Flower strategy: for an edge PC with its own SuperLink, or a network of one server."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from logging import INFO
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from clients.flower import log
from edge_servers import round as round_
from edge_servers.errors import FederationError
from edge_servers.server import EdgeServer


class EdgeStrategy(Strategy):
    """Flower's calls as phases of the round: `configure_train` plans, `aggregate_train` does the rest.

    `start()` counts from round 1; a resumed server goes on from its own standing, whatever number Flower gives.
    """

    def __init__(self, server: EdgeServer, evaluate_on_devices: bool = False) -> None:
        self.server = server
        self._evaluates = evaluate_on_devices
        self._sent: list[tuple[int, Message]] = []

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float | None = None,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Flower's loop; the wait for a round's devices is the plan's deadline, not Flower's hour."""
        wait_s = self.server.settings.rounds.deadline_s if timeout is None else timeout
        return super().start(grid, initial_arrays, num_rounds, wait_s, train_config, evaluate_config, evaluate_fn)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Phase plan, then one order per device."""
        self._adopt(arrays)
        round_.begin([self.server])
        round_.plan([self.server])
        orders = self.server.orders()
        messages = self.server.link.messages(orders)
        self._sent = [(order.device, message) for order, message in zip(orders, messages, strict=True)]
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Phases train to seal on what came back; the next model and a few numbers."""
        asked = {message.metadata.message_id: device for device, message in self._sent}
        answered = {
            asked[r.metadata.reply_to_message_id]: r for r in replies if r.metadata.reply_to_message_id in asked
        }
        self.server.admit_replies(self.server.cluster, answered)
        round_.train_on_offloaded([self.server])
        round_.post_gradients([self.server])
        for phase in (round_.close, round_.gossip, round_.verify, round_.model, round_.seal):
            phase([self.server])
        if not round_.settle([self.server]):
            raise FederationError(f"round {self.server.round} has not ended, and Flower's loop has no other attempt")
        round_.finish([self.server])
        work = self.server.current
        metrics: dict[str, Any] = {
            "training-nodes": len(work.closed),
            "refused": len(work.refused),
            "phi": work.plan.phi,
        }
        return ArrayRecord({"model": Array(self.server.standing.model)}), MetricRecord(metrics)

    def _adopt(self, arrays: ArrayRecord) -> None:
        """Flower holds the model between rounds; train the one it gives."""
        model = arrays["model"].numpy()
        if model.shape != self.server.standing.model.shape or model.dtype != np.float32:
            raise FederationError(
                f"found a model of {model.dtype} and shape {model.shape}, "
                f"expected float32 of {self.server.standing.model.shape} under the key 'model'"
            )
        self.server.standing = replace(self.server.standing, model=model)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask every device how the model does on its own share, where that is wanted."""
        if not self._evaluates:
            return []
        content = RecordDict({"model": arrays})
        return [Message(content, node, "evaluate") for node in self.server.link.nodes.values()]

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
        """What this server is, in Flower's log."""
        network = self.server.network
        log(INFO, "\t├──> edge server %d of %d", self.server.index, len(network.servers))
        log(INFO, "\t└──> %d devices in its cluster", len(network.cluster(self.server.index)))
