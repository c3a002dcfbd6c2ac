"""A node among hostile visitors (Q6): how long an honest client waits without them and with them.

    python -m benchmarks.visitors [--visitors 200] [--addresses 1] [--requests 600]

The node is a process of its own, and so are the visitors; all on this machine. The honest client asks in turn for
eth_blockNumber, bfl_getRawHeader and a range of a payload (bfl_getSidecar, 44 KB), over one connection. The visitors
come in five equal parts: headers that never end, bodies that never end, blocks of a megabyte of items of one byte,
packed zeros as a block, and batches of 100 calls; whoever is cut off comes again. They have addresses of their own
(127.0.0.2 and on): a node counts by address. The client is measured before, while and after they are there, all of
them, and while they are at another node: so much they take of the machine, whatever the node does. p50 and p99 are of
all its requests; one that is refused counts as failed. The goal is a p99 of at most three times that without them.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import random
import statistics
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from typing import Any
from urllib.parse import urlsplit

import requests

from benchmarks.chain_network import found, genesis, leader_of, payload, post_gradients
from chain.node.access import EmptyNode
from chain.node.node import Node
from chain.protocol.slots import Slot
from chain.rpc.server import RpcServer, ServerParams

KILOBYTES = 44
GOAL = 3.0
_PAUSE_S = 0.004  # the client stays within the rate of a client
_STARTS_S, _ENDS_S = 60.0, 10.0
_DRIP_S, _AGAIN_S = 0.5, 0.05
_BOMB_BYTES = 1 << 20


@dataclass(frozen=True)
class Waits:
    """Seconds of each request, and how many were refused or not answered."""

    seconds: list[float]
    failed: int

    def quantile_ms(self, share: float) -> float:
        """Milliseconds that this share of the requests took at most."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(frozen=True)
class Crowd:
    """Who comes, from how many addresses, for how long at most, and whether all are of one kind."""

    size: int
    addresses: int
    seconds: float
    kind: str = ""


@dataclass(frozen=True)
class Found:
    """The client before, while and after the crowd was there, and how often each kind of visitor came."""

    before: Waits
    elsewhere: Waits
    """While the crowd was at another node: what it takes of the machine, not of the node."""
    during: Waits
    after: Waits
    came: dict[str, int]


# --- the node


def serve(pipe: Pipe) -> None:
    """A founded network, a round under way with 26 gradients; ends when the other side says so."""
    import numpy as np

    sys.setswitchinterval(0.001)  # as `bfl network node` does
    node = Node.in_memory(genesis())
    ledger = found(EmptyNode(node), KILOBYTES)
    leader_of(ledger).post(Slot.PLAN, 1, b"plan")
    rng = np.random.default_rng(0)
    payloads = [payload(KILOBYTES, rng) for _ in range(26)]
    post_gradients(ledger, 1, b"plan", payloads)
    posted = [each for entry in node.pending() for each in entry.post.commitments]
    digest = max(posted, key=lambda each: each.size).digest
    with RpcServer(node, ServerParams(port=0)) as url:
        pipe.send((url, "0x" + digest.hex()))
        pipe.recv()
    node.close()


# --- the honest client


def _call(method: str, *params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}


def honest(url: str, digest: str, count: int) -> Waits:
    """Ask so many times, in turn for what a device or a server asks for."""
    calls = [
        _call("eth_blockNumber"),
        _call("bfl_getRawHeader", "latest"),
        _call("bfl_getSidecar", digest, 0, KILOBYTES * 1000),
    ]
    seconds, failed = [], 0
    with requests.Session() as session:
        for number in range(count):
            started = time.perf_counter()
            try:
                answer = session.post(url, json=calls[number % len(calls)], timeout=30).json()
                failed += "result" not in answer
            except (requests.RequestException, ValueError):
                failed += 1
            seconds.append(time.perf_counter() - started)
            time.sleep(_PAUSE_S)
    return Waits(seconds, failed)


# --- the visitors

Visit = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


def _post(body: bytes, size: int | None = None) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (len(body) if size is None else size) + body


def _dripping(begin: bytes) -> Visit:
    async def visit(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        while not writer.is_closing():
            await writer.drain()
            await asyncio.sleep(_DRIP_S)
            writer.write(b"x")

    return visit


def _asking(request: bytes) -> Visit:
    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not writer.is_closing():
            writer.write(request)
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
            size = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(size)
            await asyncio.sleep(_AGAIN_S)

    return visit


def visits() -> dict[str, Visit]:
    """The five kinds, by name."""
    items = b"\xfa" + _BOMB_BYTES.to_bytes(3, "big") + b"\x01" * _BOMB_BYTES
    packed = zlib.compress(bytes(100 << 20), 9)
    logs = [_call("eth_getLogs", {"fromBlock": "earliest", "toBlock": "pending"})] * 100
    return {
        "headers": _dripping(b"POST / HTTP/1.1\r\nHost: x\r\nX-Slow: "),
        "bodies": _dripping(_post(b"{" + b" " * 100_000, 10 << 20)),
        "items": _asking(_post(json.dumps(_call("bfl_importBlock", "0x" + items.hex())).encode())),
        "packed": _asking(_post(json.dumps(_call("bfl_importBlock", "0x" + packed.hex())).encode())),
        "batches": _asking(_post(json.dumps(logs).encode())),
    }


def visit_all(pipe: Pipe, url: str, crowd: Crowd) -> None:
    """Be a crowd until told to leave, or its time is over; says when all have come, and at the end how often."""
    came: Counter[str] = Counter()

    async def one(number: int, name: str, kind: Visit) -> None:
        host, port = urlsplit(url).hostname, urlsplit(url).port
        source = (f"127.0.0.{2 + number % crowd.addresses}", 0)
        while True:
            with contextlib.suppress(OSError, EOFError, StopIteration, asyncio.LimitOverrunError):
                reader, writer = await asyncio.open_connection(host, port, local_addr=source)
                came[name] += 1
                try:
                    await kind(reader, writer)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(random.uniform(_AGAIN_S, 2 * _AGAIN_S))

    async def everybody() -> None:
        kinds = [each for each in visits().items() if crowd.kind in ("", each[0])]
        tasks = [asyncio.create_task(one(number, *kinds[number % len(kinds)])) for number in range(crowd.size)]
        end, is_told = time.monotonic() + crowd.seconds, False
        while time.monotonic() < end and not pipe.poll():
            await asyncio.sleep(_AGAIN_S)
            if not is_told and came.total() >= crowd.size:
                pipe.send("all are there")
                is_told = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        pipe.send(dict(came))

    asyncio.run(everybody())


# --- both


@contextlib.contextmanager
def _process(target: Callable[..., None], *arguments: Any) -> Iterator[None]:
    """A process of its own that ends with the block."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.join(_ENDS_S if process.exitcode is None and target is serve else 0)
        process.terminate()
        process.join(_ENDS_S)


def measure(crowd: Crowd, count: int) -> Found:
    """What the honest client waits before, while and after the crowd is there."""
    nodes = [multiprocessing.get_context("spawn").Pipe() for _ in range(2)]
    with _process(serve, nodes[0][1]), _process(serve, nodes[1][1]):
        (url, digest), (other, _) = (_heard(here) for here, _ in nodes)
        try:
            honest(url, digest, count // 10)  # until everything is imported and cached
            before = honest(url, digest, count)
            elsewhere, _ = _among(crowd, other, lambda: honest(url, digest, count))
            during, came = _among(crowd, url, lambda: honest(url, digest, count))
            return Found(before, elsewhere, during, honest(url, digest, count), came)
        finally:
            for here, _ in nodes:
                here.send("end")


def _among(crowd: Crowd, url: str, ask: Callable[[], Waits]) -> tuple[Waits, dict[str, int]]:
    """What the client waits while the crowd is at a node, and how often each kind came."""
    out, inside = multiprocessing.get_context("spawn").Pipe()
    with _process(visit_all, inside, url, crowd):
        _heard(out)
        waits = ask()
        out.send("leave")
        return waits, _heard(out)


def _heard(pipe: Pipe) -> Any:
    if not pipe.poll(_STARTS_S):
        raise SystemExit(f"a process has said nothing for {_STARTS_S:g} s")
    return pipe.recv()


def table(found: Found, visitors: int) -> str:
    """All four, and the ratios to the better of those without, and to visitors that only use this machine."""
    rows = [
        ("before", found.before),
        (f"{visitors} visitors at another node", found.elsewhere),
        (f"{visitors} visitors", found.during),
        ("after", found.after),
    ]
    lines = ["| | requests | failed | mean, ms | p50, ms | p99, ms |", "|---|---|---|---|---|---|"]
    for name, waits in rows:
        numbers = [1000 * statistics.fmean(waits.seconds), waits.quantile_ms(0.5), waits.quantile_ms(0.99)]
        shown = " | ".join(f"{each:.1f}" for each in numbers)
        lines.append(f"| {name} | {len(waits.seconds)} | {waits.failed} | {shown} |")
    for name, quiet in (("none", [found.before, found.after]), ("another node", [found.elsewhere])):
        p50, p99 = (
            found.during.quantile_ms(share) / min(each.quantile_ms(share) for each in quiet) for share in (0.5, 0.99)
        )
        lines.append(f"| ratio to {name} | | | | {p50:.1f} | {p99:.1f} (goal: {GOAL:g}) |")
    came = ", ".join(f"{name} {count}" for name, count in sorted(found.came.items()))
    return "\n".join([*lines, "", f"connections of visitors: {came}"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--visitors", type=int, default=200)
    parser.add_argument("--addresses", type=int, default=1, help="that they come from, at most 250")
    parser.add_argument("--requests", type=int, default=600, help="of the honest client, each time")
    parser.add_argument("--seconds", type=float, default=120.0, help="after which the visitors leave in any case")
    parser.add_argument("--kind", default="", help="of all visitors: headers, bodies, items, packed or batches")
    given = parser.parse_args()
    crowd = Crowd(given.visitors, min(250, given.addresses), given.seconds, given.kind)
    print(table(measure(crowd, given.requests), given.visitors))


if __name__ == "__main__":
    main()
