"""Tasks of SuperNodes and SuperLinks (D2): with `flower.py` all that we use of Flower beyond its documented API.

A SuperNode or a SuperLink that runs with `--isolation process` hands its tasks to whoever on this machine has its
secret. A process of ours that stays takes them, where Flower's own would start one for each message. Flower's retries
are not used: where they give up they end the process with a signal.
"""

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import httpx
from flwr.app import Context, Message
from flwr.cli.build import build_fab_from_disk
from flwr.common.constant import Status, SubStatus
from flwr.common.serde import fab_to_proto, run_from_proto
from flwr.proto.control_pb2 import ListNodesRequest, ListRunsRequest, RegisterNodeRequest, StartRunRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullAppMessagesRequest,
    PullTaskInputRequest,
    SendTaskHeartbeatRequest,
)
from flwr.supercore.constant import TaskType
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.protobuf.client import ProtobufClient, ProtobufClientInterceptor
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid.http_grid import HttpGrid
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from clients.errors import BadReplyError, FlowerAwayError, FlowerEndedError
from clients.flower_replies import Arrival, pieces_of

_ACQUIRE = frozenset({"/flwr.proto.Runtime/AcquireTask"})
_OVER = (401, 403, 404)
"""Status codes of a task that is no longer ours"""
_MOST_RUNS = 1000
_BEAT_S = 15.0
"""A task whose executor is silent for a minute is given up"""
Client = TypeVar("Client", bound=ProtobufClient)


@dataclass(frozen=True)
class Place:
    """A SuperNode or a SuperLink of this machine."""

    address: str
    """HOST:PORT."""
    secret: bytes
    """What it was started with: whoever has it may take its tasks."""
    authority: bytes | None = None
    """Certificate (PEM) that its own is of; None: it talks plainly, on loopback."""

    def client(self, kind: type[Client], *interceptors: ProtobufClientInterceptor) -> Client:
        """A client of one of its interfaces, which asks once."""
        return kind.from_server_address(
            server_address=self.address,
            insecure=self.authority is None,
            root_certificates=self.authority,
            interceptors=[RuntimeVersionHttpInterceptor(component_name="bfl"), *interceptors],
        )

    def executor(self) -> RuntimeHttpClient:
        """A client that may take tasks."""
        proof = SuperExecAuthHttpInterceptor(master_secret=self.secret, protected_methods=_ACQUIRE)
        return self.client(RuntimeHttpClient, proof)


@contextmanager
def flower_trouble(place: Place) -> Iterator[None]:
    """Whatever goes wrong on the way to Flower is `FlowerAwayError`, or `FlowerEndedError` where it stays so."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        code = error.response.status_code
        kind = FlowerEndedError if code in _OVER else FlowerAwayError
        raise kind(f"{place.address}: found status {code} of {error.request.url.path}") from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise FlowerAwayError(f"{place.address}: {type(error).__name__}: {error}") from error


def acquire_task(client: RuntimeHttpClient, kind: str) -> str | None:
    """The token of a task that waits; None where there is none."""
    found = client.AcquireTask(AcquireTaskRequest(supported_task_types=[kind]))
    return str(found.token) if found.HasField("task") else None


class Heart:
    """Says every few seconds that a task is being worked at."""

    def __init__(self, client: RuntimeHttpClient) -> None:
        self._client, self._stop = client, threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True, name="heart of a task")

    def _beat(self) -> None:
        while not self._stop.wait(_BEAT_S):
            try:
                self._client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
            except (httpx.HTTPError, RuntimeError):  # away, or closed in this moment: the next beat tells
                continue

    def __enter__(self) -> "Heart":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()


class DeviceTask:
    """An order that a SuperNode has handed out."""

    def __init__(self, place: Place, token: str) -> None:
        self._place = place
        self._client = place.client(RuntimeHttpClient, RuntimeTokenHttpInterceptor(token))
        self._heart = Heart(self._client)
        message, context, _, _ = pull_task_input(self._client)  # the bundle is not looked at
        self.message: Message = message
        self._context: Context = context

    def __enter__(self) -> "DeviceTask":
        self._heart.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._heart.__exit__(kind, error, trace)
        self._client.close()

    def answer(self, reply: Message) -> None:
        """Send the answer; the task is done."""
        with flower_trouble(self._place):
            push_message(self._client, reply, self._context)
            push_task_output(self._client, self._context, SubStatus.COMPLETED, "")


class DeviceTasks:
    """The orders that a SuperNode of this machine has for its device."""

    def __init__(self, place: Place) -> None:
        self._place, self._client = place, place.executor()

    def find(self) -> DeviceTask | None:
        """The next one, if there is one; `FlowerAwayError` where the SuperNode does not answer."""
        with flower_trouble(self._place):
            token = acquire_task(self._client, TaskType.CLIENT_APP)
            return None if token is None else DeviceTask(self._place, token)

    def close(self) -> None:
        """Give back the connection."""
        self._client.close()


# --- an edge server's side


def register_keys(place: Place, keys: Mapping[str, bytes]) -> dict[str, int]:
    """The Flower node of each public key (PEM, by its owner's name): registered where it is not yet."""
    control = place.client(ControlHttpClient)
    try:
        with flower_trouble(place):
            known = {each.public_key: each.node_id for each in control.ListNodes(ListNodesRequest()).nodes_info}
            for name, key in keys.items():
                if key not in known:
                    asked = RegisterNodeRequest(public_key=key, name=name)
                    known[key] = control.RegisterNode(asked).node_id
            return {name: known[key] for name, key in keys.items()}
    finally:
        control.close()


def start_run(place: Place, bundle: Path) -> int:
    """Begin a run with the app in a folder; its number."""
    control, fab = place.client(ControlHttpClient), build_fab_from_disk(bundle)
    try:
        with flower_trouble(place):
            named = Fab(hashlib.sha256(fab).hexdigest(), fab, {})
            return int(control.StartRun(StartRunRequest(fab=fab_to_proto(named))).run_id)
    finally:
        control.close()


def unfinished_runs(place: Place) -> set[int]:
    """The numbers of the runs that a SuperLink has yet to finish, of the thousand that were asked for last."""
    control = place.client(ControlHttpClient)
    try:
        with flower_trouble(place):
            runs = control.ListRuns(ListRunsRequest(limit=_MOST_RUNS)).run_dict
            return {int(run_id) for run_id, run in runs.items() if run.status.status != Status.FINISHED}
    finally:
        control.close()


class ServerTask:
    """The ServerApp task of a run: the way to its devices, as long as this process says that it lives."""

    def __init__(self, place: Place, token: str) -> None:
        self._place = place
        self._grid = HttpGrid(place.address, place.authority is None, place.authority, token=token)
        setattr(self._grid, "_retry_invoker", None)  # noqa: B010 - whoever asks decides whether to ask again
        self._client: Any = self._grid._runtime_client
        given = self._client.PullTaskInput(PullTaskInputRequest())
        TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, given.run.run_id
        TaskIdentity.node_id = given.context.node_id
        self._grid.set_run(run_from_proto(given.run))
        self.run_id, self._heart = int(given.run.run_id), Heart(self._client)
        self._heart.__enter__()

    def push(self, messages: Sequence[Message]) -> list[bool]:
        """Which of them the SuperLink has taken: not those to a node that has never been there."""
        with flower_trouble(self._place):
            found = list(self._grid.push_messages(messages))
        return [bool(each) for each in found] if found else [False] * len(messages)

    def arrivals(self, message_ids: Sequence[str]) -> list[Arrival]:
        """Replies to these orders that have been announced. The SuperLink tells of each of them once."""
        with flower_trouble(self._place):
            told = self._client.PullMessages(PullAppMessagesRequest(message_ids=message_ids))
        return [
            Arrival(message.metadata.message_id, message.metadata.reply_to_message_id, pieces_of(tree))
            for message, tree in zip(told.messages_list, told.message_object_trees, strict=False)
        ]

    def piece(self, name: str) -> bytes | None:
        """A part of a reply; None while its sender has not brought it, `BadReplyError` where it never will."""
        with flower_trouble(self._place):
            asked = PullObjectRequest(node=self._grid.node, run_id=self.run_id, object_id=name)
            found = self._client.PullObject(asked)
        if not found.object_found:
            raise BadReplyError("a part of it was not brought in time")
        return bytes(found.object_content) if found.object_available else None

    def forget(self, names: Sequence[str]) -> list[str]:
        """The SuperLink need not keep these any longer: orders, or replies that are here."""
        with flower_trouble(self._place):
            for name in names:
                about = ConfirmMessageReceivedRequest(
                    node=self._grid.node, run_id=self.run_id, message_object_id=name
                )  # fmt: skip
                self._client.ConfirmMessageReceived(about)
        return list(names)

    def close(self) -> None:
        """Say no longer that it lives."""
        self._heart.__exit__(None, None, None)
        self._grid.close()


def find_server_task(place: Place) -> ServerTask | None:
    """The ServerApp task that waits at a SuperLink."""
    client = place.executor()
    try:
        with flower_trouble(place):
            token = acquire_task(client, TaskType.SERVER_APP)
            return None if token is None else ServerTask(place, token)
    finally:
        client.close()


def id_of(message: Message) -> str:
    """The id that a SuperLink will give to a message: it follows from what is in it."""
    return str(message.object_id)
