"""Orders and replies over plain HTTP: a Flower Grid for device stubs, until Flower itself carries them.

A stub asks for its order and waits; it gets the same order again until it has answered, so a restart loses nothing.
"""

import logging
import threading
from collections.abc import Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from clients.flower import Run, empty_run, identify_process, message_bytes, name_message, read_message
from edge_servers.errors import EdgeError

_LOG = logging.getLogger(__name__)
_RUN_ID, _SERVER_NODE_ID = 1, 1
_FIRST_NODE_ID = 100
_WAIT_S = 10.0
_TIMEOUT_S = 30.0
_MOST_BYTES = 256 << 20


class StubGrid(Grid):
    """The devices of one edge server, which come over HTTP."""

    def __init__(self, host: str, port: int, devices: Iterable[int]) -> None:
        identify_process(_RUN_ID, _SERVER_NODE_ID)
        self.nodes = {device: _FIRST_NODE_ID + device for device in devices}
        self._run, self._ids = empty_run(_RUN_ID), count(1)
        self._changed = threading.Condition()
        self._waiting: dict[int, Message] = {}  # the last order of each device
        self._replies: dict[str, Message] = {}
        grid = self

        class Handler(BaseHTTPRequestHandler):
            timeout = _TIMEOUT_S

            def do_POST(self) -> None:
                grid.serve(self)

            def log_message(self, *_: Any) -> None:
                """Stubs ask all the time."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True, name="devices")

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens; a free port where it was asked for port 0."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def __enter__(self) -> "StubGrid":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    # --- HTTP

    def serve(self, request: BaseHTTPRequestHandler) -> None:
        """POST /orders/N: the order of device N, once there is one (204: ask again). POST /replies/N: its answer."""
        try:
            what, number = request.path.strip("/").split("/")
            device, size = int(number), int(request.headers.get("Content-Length", "0"))
            if device not in self.nodes or not 0 <= size <= _MOST_BYTES:
                raise ValueError(f"device {device} with {size} bytes is none of this server's")
            body = request.rfile.read(size)
            if what not in ("orders", "replies"):
                raise ValueError(f"found {what!r:.20}, expected orders or replies")
            answer = self._order(device) if what == "orders" else self._take(device, body)
        except (ValueError, EdgeError, OSError) as error:
            _LOG.warning("a device's request is refused: %s", error)
            request.send_error(400)
            return
        with suppress(OSError):  # a device that is gone comes again
            request.send_response(200 if answer else 204)
            request.send_header("Content-Length", str(len(answer)))
            request.end_headers()
            request.wfile.write(answer)

    def _order(self, device: int) -> bytes:
        with self._changed:
            self._changed.wait_for(lambda: device in self._waiting, _WAIT_S)
            message = self._waiting.get(device)
            return b"" if message is None else message_bytes(message)

    def _take(self, device: int, body: bytes) -> bytes:
        reply = read_message(body)
        if reply.metadata.src_node_id != self.nodes[device]:
            raise ValueError(f"found a reply of node {reply.metadata.src_node_id}, expected device {device}'s")
        with self._changed:
            waiting = self._waiting.get(device)
            if waiting is not None and waiting.metadata.message_id == reply.metadata.reply_to_message_id:
                del self._waiting[device]
                self._replies[reply.metadata.reply_to_message_id] = reply
        return b""

    # --- Flower's Grid

    def set_run(self, run: Run) -> None:
        """Flower's hook; this grid has one run."""
        self._run = run

    @property
    def run(self) -> Run:
        """The one run."""
        return self._run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Flower's older way to make a message."""
        return Message(content, dst_node_id, message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> Iterable[int]:
        """All devices of this server, whether they are there or not."""
        return list(self.nodes.values())

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Orders to fetch; a new one takes the place of an older."""
        ids, devices = [], {node: device for device, node in self.nodes.items()}
        with self._changed:
            for message in messages:
                name_message(message, f"order-{next(self._ids)}")
                self._waiting[devices[message.metadata.dst_node_id]] = message
                ids.append(message.metadata.message_id)
            self._replies.clear()
            self._changed.notify_all()
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """What has been answered."""
        with self._changed:
            return [self._replies.pop(each) for each in message_ids if each in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Not used: a server collects until its deadline."""
        raise EdgeError("device stubs are asked by push and pull")
