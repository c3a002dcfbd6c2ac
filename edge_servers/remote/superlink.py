"""The devices of an edge server behind its SuperLink (D2): a Flower Grid that outlives a SuperLink's restart.

Every start makes a run of its own: progress is on the chain, not in Flower. An order that cannot be handed in is tried
again until the server has stopped waiting for it.
"""

import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from clients.errors import BadReplyError, FlowerAwayError, FlowerEndedError
from clients.flower import Run, empty_run
from clients.flower_tasks import Place, ServerTask, find_server_task, id_of, register_keys, start_run
from clients.orders import SOFTWARE
from clients.replies import MALFORMED, error_message
from edge_servers.errors import EdgeError, FederationError

_LOG = logging.getLogger(__name__)
_TASK_S, _LOOK_S = 20.0, 0.2
_AGAIN_S = 1.0
Item = TypeVar("Item")
_OTHERS = 20
"""Tasks of other runs that are put aside before ours is given up"""


def write_bundle(folder: Path) -> None:
    """The app that a run is of: names of installed code, and none of its own. Executors of ours do not look at it; a
    stock SuperNode loads what it names.
    """
    (folder / "pyproject.toml").write_text(
        f'''[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "bfl-network"
version = "{SOFTWARE}"
description = "Orders of an edge server"
license = "MIT"
dependencies = []
[tool.flwr.app]
publisher = "bfl"
[tool.flwr.app.components]
serverapp = "bfl.simulation.server_app:app"
clientapp = "clients.client_app:app"
[tool.flwr.app.config]
''',
        encoding="utf-8",
    )


class SuperLinkGrid(Grid):
    """The devices of one edge server. `nodes` is the Flower node of each, known once it is connected."""

    def __init__(
        self,
        place: Place,
        keys: Mapping[int, bytes],
        announce: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`keys`: the Flower key (PEM) of each device. `announce` hears that there are orders."""
        self._place, self._keys, self._announce, self._now = place, dict(keys), announce, now
        self.nodes: dict[int, int] = {}
        self._task: ServerTask | None = None
        self._unsent: dict[str, Message] = {}
        self._sent: dict[str, Message] = {}
        self._ends_s: dict[str, float] = {}
        self._again_s, self._is_away = 0.0, False

    def connect(self) -> None:
        """Make devices known, begin a run and take its task; `FlowerAwayError` where the SuperLink is not there."""
        names = {str(device): key for device, key in self._keys.items()}
        self.nodes.update({int(name): node for name, node in register_keys(self._place, names).items()})
        self._drop()
        with tempfile.TemporaryDirectory() as folder:
            write_bundle(Path(folder))
            run_id = start_run(self._place, Path(folder))
        end = self._now() + _TASK_S
        others = 0
        while self._now() < end and others < _OTHERS:
            task = find_server_task(self._place)
            if task is not None and task.run_id == run_id:
                self._task = task
                _LOG.info("its SuperLink is %s, run %d", self._place.address, run_id)
                return
            if task is None:
                time.sleep(_LOOK_S)
            else:  # of an earlier start, which has ended
                task.close()
                others += 1
        raise FlowerAwayError(f"{self._place.address}: run {run_id} was not handed out within {_TASK_S:g} s")

    def _drop(self) -> None:
        if self._task is not None:
            self._task.close()
        self._task, self._sent = None, {}
        self._unsent, self._ends_s = {}, {}

    def close(self) -> None:
        """The SuperLink goes on without this server."""
        self._drop()

    # --- Flower's Grid

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Orders; those of before whose time is over are forgotten."""
        made = {id_of(message): message for message in messages}
        over = [name for name, end_s in self._ends_s.items() if end_s < self._now()]
        for name in over:
            self._unsent.pop(name, None)
            self._sent.pop(name, None)
            del self._ends_s[name]
        self._unsent |= made
        self._ends_s |= {name: self._now() + message.metadata.ttl for name, message in made.items()}
        self._again_s = 0.0
        self._send()
        return list(made)

    def _send(self) -> None:
        """Hand in what is not handed in yet."""
        if not self._unsent or self._now() < self._again_s:
            return
        self._again_s = self._now() + _AGAIN_S
        names = list(self._unsent)
        taken = self._ask(lambda task: task.push([self._unsent[name] for name in names]))
        for name, is_taken in zip(names, taken, strict=False):
            if is_taken:
                self._sent[name] = self._unsent.pop(name)
        if any(taken):
            self._announce()

    def _ask(self, ask: Callable[[ServerTask], list[Item]]) -> list[Item]:
        """A SuperLink that is away is asked again later; where our run is over, the server starts anew."""
        if self._task is None:
            raise FederationError("not connected to the SuperLink")
        try:
            answer = ask(self._task)
        except FlowerEndedError as error:
            raise FederationError(f"the SuperLink no longer knows this run: {error}") from error
        except FlowerAwayError as error:
            if not self._is_away:
                _LOG.warning("the SuperLink is away: %s", error)
            self._is_away = True
            return []
        self._is_away = False
        return answer

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """What has been answered."""
        self._send()
        waiting = [each for each in message_ids if each in self._sent]
        if not waiting:
            return []
        try:
            return self._ask(lambda task: task.pull(waiting))
        except BadReplyError:
            return [reply for each in waiting for reply in self._pull_one(each)]

    def _pull_one(self, name: str) -> list[Message]:
        """One device's answer; nobody else's trouble where it is nonsense."""
        try:
            return self._ask(lambda task: task.pull([name]))
        except BadReplyError as error:
            _LOG.warning("a device's reply cannot be read: %s", error)
            return [error_message(error, self._sent[name], MALFORMED)]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Not used: a server collects until its deadline."""
        raise EdgeError("devices are asked by push and pull")

    def set_run(self, run: Run) -> None:
        """Flower's hook; every start has a run of its own."""

    @property
    def run(self) -> Run:
        """The one that this start has begun."""
        return empty_run(0 if self._task is None else self._task.run_id)

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Flower's older way to make a message."""
        return Message(content, dst_node_id, message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> Iterable[int]:
        """All devices of this server, whether they are there or not."""
        return list(self.nodes.values())
