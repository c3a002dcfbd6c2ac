"""Between edges (D7): the server that orders a device (its home, or its standby while home is dormant) brings what it
sealed to the edge that the plan names, for a receipt.

POST /offloaded/ROUND/ATTEMPT/DEVICE with what was sealed: 200 with the receipt, 409 with the reason. An empty body says
that this device's data will not come. Both sides show certificates of servers of the founding.
"""

import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError

import httpx
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from chain.client.tls import TlsFiles
from chain.errors import ChainError
from chain.protocol.endorsements import Domain
from chain.rpc.connections import IDENTITY, Visits
from chain.rpc.doors import MEMBERS
from chain.rpc.limits import RequestLimits
from chain.rpc.server import Application, HttpServer, ServerParams
from chain.wire.identity import Identity
from chain.wire.plan import Plan
from clients.replies import DataReply, SealedReply
from edge_servers.devices.offloading import Hosted
from edge_servers.founding.network import Network
from edge_servers.remote.inbox import Inbox, NotWantedError
from edge_servers.remote.receipts import RECEIPT_BYTES, read_receipt, receipt_for

_LOG = logging.getLogger(__name__)
_PATH = re.compile(r"/offloaded/(\d{1,18})/(\d{1,9})/(\d{1,9})")
_TIMEOUT_S, _TOTAL_S = 5.0, 15.0
"""Of one step of a request, and of all of it"""
_READ_S = 120.0
_MOST_WORDS = 300


def edge_api(inbox: Inbox, network: Network, chain_id: int, host: str, port: int, tls: TlsFiles) -> HttpServer:
    """Where other edges bring data for this one."""
    params = ServerParams(host, port, max_request_bytes=inbox.most_bytes, read_s=_READ_S, doors=MEMBERS, tls=tls)

    async def answer(request: Request, limits: RequestLimits) -> Response:
        async with limits.body(request) as body:
            if isinstance(body, Response):
                return body
            identity: Identity | None = request.scope["state"].get(IDENTITY)
            found = _PATH.fullmatch(request.url.path)
            if identity is None or identity.chain_id != chain_id or identity.address not in network.servers:
                return Response("found no certificate of a server of this network", 403)
            if found is None or request.method != "POST":
                return Response(status_code=404)
            round_, attempt, device = map(int, found.groups())
            try:
                if not body:
                    inbox.decline(round_, attempt, device, identity.address)
                    return Response(status_code=204)
                inbox.expects(round_, attempt, device, identity.address)
                taken = await run_in_threadpool(inbox.take, round_, attempt, device, identity.address, body)
            except NotWantedError as error:
                return Response(str(error)[:_MOST_WORDS], 409)
            return Response(taken.encode())

    def make(limits: RequestLimits, _: Visits) -> Application:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            response = await answer(Request(scope, receive), limits)
            await response(scope, receive, send)

        return Application(app)

    return HttpServer(params, make, "edge")


class Relay:
    """Implements `DataPaths` for a server whose fellows are other machines."""

    asks_again = True

    def __init__(
        self, index: int, inbox: Inbox, places: Mapping[int, str], network: Network, domain: Domain, tls: TlsFiles,
        sleep: Callable[[float], None],
    ) -> None:  # fmt: skip
        """`places`: https://HOST:PORT of the other edges, by number."""
        self._index, self._inbox, self._places, self._network = index, inbox, places, network
        self._domain, self._sleep = domain, sleep
        self._client = httpx.Client(verify=tls.client_context(), timeout=_TIMEOUT_S, trust_env=False)
        self._workers = ThreadPoolExecutor(max(1, len(places)), "relay")  # one for each, however slow it is
        self._asked: dict[int, Future[bytes]] = {}
        self._plan: Plan | None = None
        self._attempt = 0
        self._away: set[int] = set()

    def open(self, plan: Plan, attempt: int, within_s: float, serving: Sequence[int]) -> None:
        """A plan was read."""
        self._plan, self._attempt, self._away = plan, attempt, set()
        self._inbox.open(plan, attempt, within_s, serving)

    def hand_over(self, device: int, target: int, data: DataReply | SealedReply, hosted: Hosted) -> str:
        """Nothing where the target has signed for them, else why not. What is not sealed goes nowhere."""
        plan = self._plan
        if not isinstance(data, SealedReply) or plan is None:
            return "found data that are not sealed"
        try:
            if target == self._index:
                hosted[target].data[device] = self._inbox.unseal(plan, device, data.sealed)
                _LOG.info("round %d: took %d samples of device %d", plan.round, plan.samples[device], device)
                return ""
            raw = self._post(target, device, data.sealed)
            expected = receipt_for(plan.round, self._attempt, device, plan.digest, data.sealed, self._domain)
            receipt = read_receipt(raw, self._domain)
            if receipt.said != expected.said or receipt.signer != self._network.servers[target]:
                return f"server {target} signed for something else"
        except (NotWantedError, ChainError, httpx.HTTPError) as error:
            return f"server {target}: {error or type(error).__name__}"
        _LOG.info(
            "round %d: handed %d samples of device %d, sealed, to server %d, receipt 0x%s",
            plan.round, plan.samples[device], device, target, receipt.digest.hex(),
        )  # fmt: skip
        return ""

    def decline(self, device: int, target: int) -> None:
        """As well as it can be told: else the target waits until its time is over."""
        if target == self._index:
            return
        try:
            self._post(target, device, b"")
        except (NotWantedError, httpx.HTTPError) as error:
            _LOG.debug("server %d is not told that the data of device %d do not come: %s", target, device, error)

    def _post(self, target: int, device: int, body: bytes) -> bytes:
        """Within its time, whatever the other side does. Who has not answered is not asked again in this attempt, nor
        before it has let go of what it was asked: bytes that drip hold a worker for long.
        """
        if target in self._away:
            raise NotWantedError("did not answer a moment ago")
        before = self._asked.get(target)
        if before is not None and not before.done():
            self._away.add(target)
            raise NotWantedError("has not done with an earlier request")
        asked = self._asked[target] = self._workers.submit(self._send, target, device, body)
        try:
            return asked.result(_TOTAL_S)
        except (httpx.HTTPError, FutureTimeoutError) as error:
            self._away.add(target)
            raise NotWantedError(f"does not answer: {type(error).__name__} {error}") from error

    def _send(self, target: int, device: int, body: bytes) -> bytes:
        round_ = 0 if self._plan is None else self._plan.round
        url = f"{self._places[target]}/offloaded/{round_}/{self._attempt}/{device}"
        with self._client.stream("POST", url, content=body) as answer:
            said = b""
            for piece in answer.iter_raw():  # nothing that has to be unpacked
                said += piece
                if len(said) > max(RECEIPT_BYTES, _MOST_WORDS):
                    raise NotWantedError(f"found an answer of more than {_MOST_WORDS} bytes")
        if answer.status_code >= 300:
            raise NotWantedError(f"found status {answer.status_code}: {said.decode(errors='replace')}")
        return said

    def fetch(self, devices: Collection[int]) -> dict[int, DataReply]:
        """What came from other homes."""
        return self._inbox.wait(devices, self._sleep)

    def close(self) -> None:
        """Drop what is here."""
        self._inbox.close()
        self._workers.shutdown(wait=False, cancel_futures=True)
        self._client.close()
