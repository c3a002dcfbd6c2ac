"""CPU seconds until a command says something, and until the first round of the default run is done.

    python -m benchmarks.startup

Counted from the start of the process, user and system together, one thread of torch, the least of three: other work on
the machine makes one wait, and adds little to these. Each stands beside a floor: Python itself, Flower's own command,
and the libraries that a round on the chain cannot do without.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEST_OF = 3
_BIN = Path(sys.executable).parent
_LIBRARIES = "import torch, flwr.serverapp, web3, eth.vm.forks.prague, scipy.optimize"
_FIRST_ROUND = """
import os, sys
import bfl.show.progress as progress
from bfl.cli import main

def show(self, report):
    os._exit(0)

progress.RunDisplay.show = show
sys.argv = ["bfl", "simulate", "--out", sys.argv[1]]
main()
"""
_FIRST_LINE = "import sys; from bfl.cli import main; sys.argv = ['bfl', 'simulate', '--out', sys.argv[1]]; main()"


def cpu_s(command: list[str], until_a_line: bool = False) -> float:
    """CPU seconds of one process and what it started, to its end, or until it has printed its first line."""
    with tempfile.TemporaryDirectory() as scratch:
        words = [word.replace("SCRATCH", str(Path(scratch) / "run")) for word in command]
        before = _of_children()
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with subprocess.Popen(
            words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as run:
            for _ in run.stdout or ():
                if until_a_line:
                    run.kill()
                    break
    return _of_children() - before


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print the table."""
    python, flower = [sys.executable, "-c"], [str(_BIN / "flwr"), "--version"]
    rows = {
        "./run.sh --version": (["./run.sh", "--version"], False, "flwr --version"),
        "./run.sh --help": (["./run.sh", "--help"], False, "flwr --version"),
        "bfl simulate, its first line": ([*python, _FIRST_LINE, "SCRATCH"], True, "flwr --version"),
        "bfl simulate, its first round": ([*python, _FIRST_ROUND, "SCRATCH"], False, "the libraries alone"),
    }
    floors = {
        "python, nothing": ([*python, "pass"], False),
        "flwr --version": (flower, False),
        "the libraries alone": ([*python, _LIBRARIES], False),
    }
    measured = {name: min(cpu_s(*how) for _ in range(BEST_OF)) for name, how in floors.items()}
    print("| | CPU s | beside | ratio |\n|---|---|---|---|")
    for name, seconds in measured.items():
        print(f"| {name} | {seconds:.2f} | | |")
    for name, (command, is_line, floor) in rows.items():
        seconds = min(cpu_s(command, is_line) for _ in range(BEST_OF))
        print(f"| {name} | {seconds:.2f} | {floor} | {seconds / measured[floor]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
