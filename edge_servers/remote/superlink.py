"""The devices of an edge server behind its SuperLink (D2): a Flower Grid that outlives a SuperLink's restart.

Every start makes a run of its own: progress is on the chain, not in Flower. An order that cannot be handed in is tried
again until the server has stopped waiting for it.
"""

import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from edge_servers.remote.arriving import Arriving
from edge_servers.remote.owed import Owed

_LOG = logging.getLogger(__name__)
_TASK_S, _LOOK_S = 20.0, 0.2
_AGAIN_S = 1.0
_UNTOLD_S = 2.0
"""Answers are asked for so often where nobody has told of one: a SuperLink makes some itself"""
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
clientapp = "bfl.network.devices.stock:app"
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
        owed: Owed,
        announce: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
        handed_in: Callable[[], int] | None = None,
    ) -> None:
        """`keys`: the Flower key (PEM) of each device. `owed` hears of every order, `announce` that there are some.
        `handed_in` becomes another number when a device has handed something in; without it the SuperLink is asked each
        time.
        """
        self._owed, self._arriving = owed, Arriving(self._refused)
        self._place, self._keys, self._announce, self._now = place, dict(keys), announce, now
        self.nodes: dict[int, int] = {}
        self._task: ServerTask | None = None
        self._unsent: dict[str, Message] = {}
        self._sent: dict[str, Message] = {}
        self._ends_s: dict[str, float] = {}
        self._over: set[str] = set()
        self._again_s, self._is_away = 0.0, False
        self._handed_in, self._asked, self._asked_s = handed_in, (0, ""), -_UNTOLD_S

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
        self._unsent, self._ends_s, self._over = {}, {}, set()
        self._arriving = Arriving(self._refused)

    def close(self) -> None:
        """The SuperLink goes on without this server."""
        self._drop()

    # --- Flower's Grid

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Orders; those of before whose time is over are forgotten."""
        made = {id_of(message): message for message in messages}
        self._forget([name for name, end_s in self._ends_s.items() if end_s < self._now()])
        self._unsent |= made
        for name, message in made.items():
            self._ends_s[name] = self._now() + message.metadata.ttl
            self._owed.ask(name, message.metadata.dst_node_id, message.metadata.ttl)
        self._again_s = 0.0
        self._send()
        return list(made)

    def _forget(self, over: Sequence[str]) -> None:
        """Orders whose time is over. A SuperLink keeps those that no device came for, each with a model, until it is
        told.
        """
        for name in over:
            self._unsent.pop(name, None)
            if self._sent.pop(name, None) is not None:
                self._over.add(name)
            del self._ends_s[name]
        self._arriving.forget(over)
        if self._over:
            gone: list[str] = self._ask(self._let_go)
            self._over -= set(gone)

    def _let_go(self, task: ServerTask) -> list[str]:
        """Also of replies that came too late, which it tells of now."""
        over = list(self._over)
        late = [each.name for each in task.arrivals(over)]
        task.forget([*over, *late])
        return over

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
        found: list[Message] = []
        if waiting and self._has_news(waiting):
            if unannounced := self._arriving.without(waiting):
                self._arriving.add(self._ask(lambda task: task.arrivals(unannounced)), unannounced)
            found = [reply for each in waiting for reply in self._fetch(each)]
        if done := list(self._arriving.done):
            gone: list[str] = self._ask(lambda task: task.forget(done))
            self._arriving.done -= set(gone)
        return found

    def _has_news(self, waiting: Sequence[str]) -> bool:
        """Whether one of these may have been answered since they were asked for."""
        if self._handed_in is None:
            return True
        asked = (self._handed_in(), " ".join(waiting))
        if asked == self._asked and self._now() < self._asked_s + _UNTOLD_S:
            return False
        self._asked, self._asked_s = asked, self._now()
        return True

    def _fetch(self, order: str) -> list[Message]:
        return self._ask(lambda task: self._arriving.fetch(task, order, self._owed.most_bytes))

    def _refused(self, error: BadReplyError, order: str) -> Message:
        """One device's answer; nobody else's trouble where it is nonsense."""
        _LOG.warning("a device's reply cannot be read: %s", error)
        return error_message(error, self._sent[order], MALFORMED)

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
