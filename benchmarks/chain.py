"""The chain against anvil: a round's 26 gradients signed, posted, executed, sealed and persisted.

    python -m benchmarks.chain [--kilobytes 22 44 87 400] [--blocks 8] [--only speed|memory|audit]

One run, the same Ledger client and the same payloads for every row. Ours runs in this process, and as a node of its
own over HTTP (`bfl network node`), on disk, payloads beside the blocks; anvil (npm @foundry-rs/anvil) over HTTP, in
memory, payloads on a shelf of this process (B7): as it comes, where each post is mined and its receipt awaited before
the next, and told to mine one block of 26. Seconds are the middle of the blocks. A block also has the plan, the close
and a small model of its leader, which are not timed on either.
"""

import argparse
import contextlib
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from web3 import Web3

from benchmarks.anvil import ABSENT, anvil, find_anvil
from benchmarks.chain_network import (
    DEVICE_KEYS,
    DEVICES,
    FOUNDER,
    MODEL,
    SERVER_KEYS,
    found,
    genesis,
    leader_of,
    payload,
    post_gradients,
)
from chain.audit.archive import FileArchive
from chain.audit.inspection import inspect_chain
from chain.client.asking import await_receipt, request, web3_over_http
from chain.client.empty_network import EmptyNetwork
from chain.client.ledger import Ledger
from chain.client.payloads import MemoryShelf
from chain.node.access import EmptyNode
from chain.node.node import Node
from chain.protocol.contract import RegistryTerms, encode_call
from chain.protocol.slots import Slot
from chain.wire.sidecar import payload_digest
from chain.wire.transactions import Envelope, sign_transaction


@dataclass
class Times:
    """Seconds of each step, block by block."""

    total: list[float] = field(default_factory=list)
    steps: dict[str, list[float]] = field(default_factory=dict)

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step of the current block."""
        started = time.perf_counter()
        yield
        self.steps.setdefault(name, []).append(time.perf_counter() - started)

    def middle(self, name: str = "") -> float:
        """Median seconds of a step, or of the whole block."""
        return statistics.median(self.steps.get(name, [0.0]) if name else self.total)


def ours(ledger: Ledger, kilobytes: int, blocks: int, after: Callable[[], None] = lambda: None) -> Times:
    """Blocks on our own node, whatever is between it and the client. Plan, close and model are not timed."""
    times, rng = Times(), np.random.default_rng(0)
    for round_ in range(1, blocks + 1):
        payloads = [payload(kilobytes, rng) for _ in DEVICE_KEYS]
        leader, plan = leader_of(ledger), b"plan %d" % round_
        leader.post(Slot.PLAN, round_, plan)
        with times.step("post"):
            post_gradients(ledger, round_, plan, payloads)
        leader.post(Slot.CLOSE, round_, b"[]")
        leader.post(Slot.MODEL, round_, MODEL)
        with times.step("build"):
            leader.propose()
        with times.step("seal"):
            device = ledger.signed_by(DEVICE_KEYS[0])
            device.submit_nonce(device.mining_task(), bytes(8))
        times.total.append(sum(seconds[-1] for seconds in times.steps.values()))
        after()
    return times


def in_process(kilobytes: int, blocks: int, folder: Path) -> tuple[Times, float, dict[str, float]]:
    """Times, bytes on disk per byte of payload, and how long signing and a second node's import take."""
    path = folder / f"{kilobytes}.db"
    node = Node.create(path, genesis())
    second = Node.in_memory(node.genesis)
    second.sources.append(node)
    ledger = found(EmptyNode(node), kilobytes)
    second.import_block(node.raw_block(1) or b"")
    extra: dict[str, list[float]] = {"import": [], "sign": []}

    def import_it() -> None:
        raw = node.raw_block(node.head.block_number) or b""
        started = time.perf_counter()
        second.import_block(raw)
        extra["import"].append(time.perf_counter() - started)

    times = ours(ledger, kilobytes, blocks, import_it)
    extra["sign"] = signing(kilobytes)
    node.close()
    second.close()
    stored = kilobytes * 1000 * DEVICES * blocks
    return times, path.stat().st_size / stored, {name: statistics.median(all_) for name, all_ in extra.items()}


def signing(kilobytes: int) -> list[float]:
    """Seconds to encode and sign 26 gradients, which is part of `post`."""
    rng = np.random.default_rng(1)
    payloads = [payload(kilobytes, rng) for _ in DEVICE_KEYS]
    found = []
    for _ in range(3):
        started = time.perf_counter()
        for account, each in zip(DEVICE_KEYS, payloads, strict=True):
            data = encode_call("gradient", 1, 0, bytes(32), bytes(32), 1, 1, payload_digest(each), len(each))
            sign_transaction(account, Envelope(77, 0, 3_000_000, b"\x01" * 20), data)
        found.append(time.perf_counter() - started)
    return found


def over_http(kilobytes: int, blocks: int, folder: Path) -> Times:
    """Our node as a process of its own."""
    rules = folder / f"genesis-{kilobytes}.json"
    rules.write_text(genesis().canonical_json(), encoding="utf-8")
    command = [sys.executable, "-c", "from bfl.cli import main; main()", "network", "node", "--port", "0"]
    command += ["--genesis", str(rules), "--db", str(folder / f"http-{kilobytes}.db"), "--requests-per-s", "100000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    try:
        if process.stdout is None:
            raise RuntimeError("the node has no output")
        process.stdout.readline()
        url = process.stdout.readline().removeprefix("owner's door: ").strip()  # proposing is open there alone
        return ours(found(EmptyNetwork(web3_over_http(url)), kilobytes), kilobytes, blocks)
    finally:
        process.terminate()
        process.wait(timeout=20)


def on_anvil(program: str, kilobytes: int, blocks: int, one_block: bool) -> Times:
    """The same posts on anvil: all in one block, or a block each."""
    everyone = [account.address for account in (FOUNDER, *SERVER_KEYS, *DEVICE_KEYS)]
    times, rng = Times(), np.random.default_rng(0)
    with anvil(program, everyone, 4_000_000_000) as url:
        web3 = web3_over_http(url)
        ledger = found(EmptyNetwork(web3, MemoryShelf()), kilobytes, RegistryTerms(contract_seal=True))
        if one_block:
            ledger = Ledger(ledger.access, deadline_s=None)
            web3.manager.request_blocking("evm_setAutomine", [False])  # type: ignore[arg-type]
        for round_ in range(1, blocks + 1):
            payloads = [payload(kilobytes, rng) for _ in DEVICE_KEYS]
            anvil_block(ledger, web3, round_, payloads, times, one_block)
    return times


def anvil_block(ledger: Ledger, web3: Web3, round_: int, payloads: list[bytes], times: Times, one_block: bool) -> None:
    """One round on anvil, model and seal included, as its registry needs them to go on; those are not timed."""
    leader, plan = leader_of(ledger), b"plan %d" % round_
    leader.post(Slot.PLAN, round_, plan)
    mine(web3, one_block)
    started = time.perf_counter()
    sent = post_gradients(ledger, round_, plan, payloads)
    mine(web3, one_block)
    for each in sent if one_block else []:
        if await_receipt(web3, each, 30)["status"] != 1:
            raise RuntimeError("anvil reverted a gradient")
    times.total.append(time.perf_counter() - started)
    leader.post(Slot.CLOSE, round_, b"[]")
    mine(web3, one_block)
    leader.post(Slot.MODEL, round_, MODEL)
    mine(web3, one_block)
    endorsed = [ledger.signed_by(server).endorse(round_, 0, ledger.result(), 0) for server in SERVER_KEYS[:2]]
    ledger.signed_by(SERVER_KEYS[0]).submit_endorsements(endorsed)
    mine(web3, one_block)
    device = ledger.signed_by(DEVICE_KEYS[0])
    device.submit_nonce(device.mining_task(), bytes(8))
    mine(web3, one_block)


def mine(web3: Web3, wanted: bool) -> None:
    """Ask anvil for a block."""
    if wanted:
        request(web3, "evm_mine")


def speed(sizes: list[int], blocks: int) -> None:
    """The table of speeds."""
    program = find_anvil()
    if program is None:
        print(f"({ABSENT})")
    print(f"| payload KB | ledger | s per {DEVICES} | tx/s | MB/s | x anvil | x anvil, one block | disk / payload |")
    print("|---|---|---|---|---|---|---|---|")
    details = []
    for kilobytes in sizes:
        with tempfile.TemporaryDirectory() as folder:
            peers = [on_anvil(program, kilobytes, blocks, one).middle() for one in (False, True)] if program else []
            times, disk, extra = in_process(kilobytes, blocks, Path(folder))
            row(kilobytes, "bfl, in process", times.middle(), peers, f"{disk:.3f}")
            row(kilobytes, "bfl, over HTTP", over_http(kilobytes, blocks, Path(folder)).middle(), peers)
            for name, seconds in zip(("anvil", "anvil, one block"), peers, strict=False):
                row(kilobytes, name, seconds, peers, "in memory")
            row(kilobytes, "bfl, import on a second node", extra["import"], [])
            details.append((kilobytes, times, extra))
    print("\nWhere the time goes (bfl in process, seconds per block):\n")
    print("| payload KB | encode + sign | submit + admit + execute | build | seal + persist |\n|---|---|---|---|---|")
    for kilobytes, times, extra in details:
        rest = times.middle("post") - extra["sign"]
        steps = f"{extra['sign']:.3f} | {rest:.3f} | {times.middle('build'):.3f} | {times.middle('seal'):.3f}"
        print(f"| {kilobytes} | {steps} |")


def row(kilobytes: int, name: str, seconds: float, peers: list[float], disk: str = "") -> None:
    """One line of the table."""
    ratios = " | ".join(f"{peer / seconds:.2f}" for peer in peers) if peers else " | "
    rates = f"{DEVICES / seconds:.0f} | {DEVICES * kilobytes / 1000 / seconds:.1f}"
    print(f"| {kilobytes} | {name} | {seconds:.3f} | {rates} | {ratios} | {disk} |", flush=True)


def memory(kilobytes: int, blocks: int) -> None:
    """Resident memory of a node over many blocks."""
    print(f"\nResident memory of this process, blocks of {DEVICES} x {kilobytes} KB:\n\n| block | MB |\n|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        node = Node.create(Path(folder) / "memory.db", genesis())
        ledger = found(EmptyNode(node), kilobytes)

        def show() -> None:
            number = node.head.block_number - 1
            if number in (1, 10, 25) or number % 50 == 0:
                print(f"| {number} | {resident_mb():.0f} |", flush=True)

        ours(ledger, kilobytes, blocks, show)
        node.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\npeak {peak:.0f} MB")


def resident_mb() -> float:
    """Resident memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def audit(kilobytes: int, blocks: int) -> None:
    """Blocks an auditor checks per second of one core."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "audit.db"
        node = Node.create(path, genesis())
        ours(found(EmptyNode(node), kilobytes), kilobytes, blocks)
        node.close()
        archive = FileArchive(path)
        started = time.process_time()
        found_ = inspect_chain(archive)
        seconds = time.process_time() - started
        archive.close()
    print(f"\nAudit: {found_.blocks} blocks of {DEVICES} x {kilobytes} KB in {seconds:.2f} s of one core: ", end="")
    print(f"{found_.blocks / seconds:.1f} blocks/s, {found_.payload_bytes / 1e6 / seconds:.0f} MB/s")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kilobytes", type=int, nargs="+", default=[22, 44, 87, 400])
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--memory-blocks", type=int, default=300)
    parser.add_argument("--only", choices=["speed", "memory", "audit"])
    options = parser.parse_args()
    if options.only in (None, "speed"):
        speed(options.kilobytes, options.blocks)
    if options.only in (None, "audit"):
        audit(87, 30)
    if options.only in (None, "memory"):
        memory(87, options.memory_blocks)


if __name__ == "__main__":
    main()
