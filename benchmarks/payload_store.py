"""Where payloads lie: rows of the chain's SQLite file against a file each, for payloads of 44 KB and 22 MB.

    python -m benchmarks.payload_store [--rounds 20]

A round keeps 11 payloads. SQLite: as the store does it, in one transaction (WAL, synchronous FULL), in parts of 4 MiB.
Files: written under another name, fsync, renamed, then the folder's fsync; one each. Reading is of the same payloads,
from the page cache. Seconds are the middle of the rounds.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from chain.store.database import CREATE, Database
from chain.store.payloads import SCHEMA, KeptPayload, Payloads
from chain.wire.sidecar import payload_digest

PER_ROUND = 11


def in_sqlite(folder: Path) -> tuple[Callable[[int, dict[bytes, bytes]], None], Callable[[bytes], bytes | None]]:
    """Write a round's payloads, and read one."""
    database = Database(folder / "payloads.db", CREATE)
    database.make_durable()
    for statement in SCHEMA.split(";")[:-1]:
        database.write(statement)
    payloads = Payloads(database)

    def write(number: int, round_: dict[bytes, bytes]) -> None:
        with database.transaction():
            payloads.keep(
                number, [KeptPayload(digest, "gradient", len(each)) for digest, each in round_.items()], round_
            )

    return write, payloads.read


def in_files(folder: Path) -> tuple[Callable[[int, dict[bytes, bytes]], None], Callable[[bytes], bytes | None]]:
    """The same with a file each."""

    def write(_: int, round_: dict[bytes, bytes]) -> None:
        for digest, payload in round_.items():
            beside = folder / f"{digest.hex()}.new"
            with beside.open("wb") as file:
                file.write(payload)
                file.flush()
                os.fsync(file.fileno())
            beside.rename(folder / digest.hex())
        opened = os.open(folder, os.O_RDONLY)
        os.fsync(opened)
        os.close(opened)

    return write, lambda digest: (folder / digest.hex()).read_bytes()


def main() -> None:
    """Print a row per store and size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    print("| payload | store | write a round, ms | read a round, ms | bytes on disk / payload |\n|---|---|---|---|---|")
    for size in (44_000, 22_000_000):
        for name, store in (("one SQLite file", in_sqlite), ("a file each", in_files)):
            with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
                write, read = store(Path(folder))
                written, reading = [], []
                for number in range(rounds if size < 1_000_000 else max(2, rounds // 5)):
                    made = [os.urandom(size) for _ in range(PER_ROUND)]
                    round_ = {payload_digest(each): each for each in made}
                    started = time.perf_counter()
                    write(number, round_)
                    written.append(time.perf_counter() - started)
                    started = time.perf_counter()
                    found = [read(digest) for digest in round_]
                    reading.append(time.perf_counter() - started)
                    if found != made:
                        raise SystemExit(f"{name} gives back something else")
                disk = sum(path.stat().st_size for path in Path(folder).iterdir() if not path.name.endswith("-wal"))
                ratio = disk / (len(written) * PER_ROUND * size)
                times = [f"{1000 * statistics.median(each):.1f}" for each in (written, reading)]
                print(f"| {size // 1000:,} KB | {name} | {times[0]} | {times[1]} | {ratio:.3f} |", flush=True)


if __name__ == "__main__":
    main()
