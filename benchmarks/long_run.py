"""Memory and disk of a long run on the chain.

    python -m benchmarks.long_run [--rounds 300] [--devices 10] [--every 50]

Runs the default system (bfl, a2c, fp16, phi 5) on Fashion-MNIST without evaluation, in this process. Resident memory is
what the kernel says after a round; disk is chain.db with its write-ahead log; payload is what the posts carry, counted
by the inspection of the chain, which is timed too, as is the re-derivation of all models,
without executing the blocks and with it.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

from bfl.auditing.findings import audit_rounds
from bfl.config import read_settings
from bfl.simulation import run as simulation
from chain.audit.archive import FileArchive
from chain.audit.inspection import inspect_chain
from edge_servers.report import RoundReport


def resident_mb() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--devices", type=int, default=10)
    parser.add_argument("--every", type=int, default=50)
    options = parser.parse_args()
    flags = {"rounds": options.rounds, "devices": options.devices, "evaluate-every": 0}
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        ready = simulation.start(read_settings(flags=flags), run)
        offences = 0
        print("| round | resident MB | chain MB |\n|---|---|---|", flush=True)

        def show(report: RoundReport) -> None:
            nonlocal offences
            offences += len(report.offences)
            if report.round in (1, 10) or report.round % options.every == 0:
                size = sum(path.stat().st_size for path in run.glob("chain.db*"))
                print(f"| {report.round} | {resident_mb():.0f} | {size / 1e6:.1f} |", flush=True)

        started = time.perf_counter()
        simulation.run(ready, show)
        seconds = time.perf_counter() - started
        size = sum(path.stat().st_size for path in run.glob("chain.db*"))
        archive = FileArchive(run)
        started = time.process_time()
        payload = inspect_chain(archive).payload_bytes
        inspected = time.process_time() - started
        audited = {}
        for execute in (False, True):
            started = time.process_time()
            audit_rounds(archive, execute=execute)
            audited[execute] = time.process_time() - started
        archive.close()
    print(f"\n{options.rounds} rounds in {seconds:.0f} s, {offences} offences found (nobody misbehaved).")
    print(f"Disk {size / 1e6:.1f} MB for {payload / 1e6:.1f} MB of payload: {size / payload:.3f}.")
    print(
        f"Per second of one core: {options.rounds / inspected:.1f} rounds inspected, "
        f"{options.rounds / audited[False]:.1f} inspected and re-derived, "
        f"{options.rounds / audited[True]:.1f} executed too."
    )


if __name__ == "__main__":
    main()
