"""The same small job with us and with whoever else installs here: lines that a user writes, CPU seconds, seconds.

    python -m benchmarks.peers [--nvflare PYTHON] [--p2pfl PYTHON] [--repeats 3]

The job: ten devices, 250 Fashion-MNIST images each, a network of 50,890 parameters; ten rounds of FedAvg, one local
epoch in batches of 25 by SGD of rate 0.1; the accuracy on 10,000 images. Everybody reads the samples from the same
file with the same lines (jobs/samples.py, not counted). A peer has a Python of its own with it installed (`pip
install nvflare torch`; `pip install 'p2pfl[torch,dp]' 'huggingface_hub<0.30' 'pyarrow<20'`); without, it is left
out. CPU seconds are of all processes of a job, also of those that detach: the runner is their reaper, and ends what
a job leaves. A job that takes longer than --limit seconds is stopped and said to be unfinished.
"""

import argparse
import ctypes
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.flower_network.trees import below, read_stats
from clients.data import load_dataset

_JOBS = Path(__file__).parent / "jobs"
_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Contender:
    """Who does the job, with which interpreter, in which files."""

    name: str
    python: str
    files: tuple[str, ...]

    @property
    def lines(self) -> int:
        """What a user writes: without blank lines, comments, the docstring of the module."""
        return sum(count_lines((_JOBS / file).read_text(encoding="utf-8")) for file in self.files)


@dataclass(frozen=True)
class Result:
    """Of one job."""

    cpu_s: float
    seconds: float
    accuracy: str


def count_lines(source: str) -> int:
    """Lines of a file that are code."""
    body = re.sub(r'^\s*""".*?"""', "", source, flags=re.DOTALL | re.MULTILINE)
    return sum(1 for line in body.splitlines() if line.strip() and not line.strip().startswith("#"))


def write_samples(path: Path, devices: int = 10, samples: int = 250) -> None:
    """The shares, drawn without putting back, and the test set."""
    dataset = load_dataset("fashion-mnist", "", 0)
    inputs, labels = dataset.train.inputs.numpy(), dataset.train.labels.numpy()
    drawn = np.random.default_rng(0).permutation(len(labels))[: devices * samples].reshape(devices, samples)
    arrays = {"x": dataset.test.inputs.numpy(), "y": dataset.test.labels.numpy()}
    for n, indices in enumerate(drawn):
        arrays |= {f"x{n}": inputs[indices], f"y{n}": labels[indices]}
    np.savez(path, **arrays)  # type: ignore[arg-type]


def do(contender: Contender, samples: Path, limit_s: float) -> Result:
    """One job in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for source in _JOBS.glob("*.py"):
            (Path(folder) / source.name).write_bytes(source.read_bytes())
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "TMPDIR": folder}
        environment = {**os.environ, **quiet, "JOB_SAMPLES": str(samples)}
        before, start = _children_cpu_s(), time.perf_counter()
        log = Path(folder) / "log"
        with log.open("w") as file:
            process = subprocess.Popen(
                [contender.python, contender.files[0]],
                cwd=folder,
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
            try:
                failed = process.wait(limit_s) != 0
            except subprocess.TimeoutExpired:
                failed = True
        seconds = time.perf_counter() - start
        _end_all()
        text = log.read_text(encoding="utf-8", errors="replace")
    accuracies = re.findall(r"accuracy (0\.\d+)", text)
    if failed:
        print(f"{contender.name} did not finish: ... {text[-600:]}", file=sys.stderr)
    return Result(_children_cpu_s() - before, seconds, "unfinished" if failed or not accuracies else accuracies[-1])


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _end_all() -> None:
    """Whoever is still below this process: ended, and waited for, so that its seconds count."""
    while left := list(below(os.getpid(), read_stats())):
        for stat in left:
            try:
                os.kill(stat.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    break
            except ChildProcessError:
                break
        time.sleep(0.05)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvflare", metavar="PYTHON", default="")
    parser.add_argument("--p2pfl", metavar="PYTHON", default="")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds a job may take")
    options = parser.parse_args()
    ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    contenders = [
        Contender("bare torch loop", sys.executable, ("bare_job.py",)),
        Contender("bfl, fedavg", sys.executable, ("bfl_job.py",)),
        Contender("bfl, everything on the chain", sys.executable, ("bfl_chain_job.py",)),
        Contender("Flower, simulation engine", sys.executable, ("flower_job.py",)),
    ]
    if options.nvflare:
        files = ("nvflare_job.py", "nvflare_client.py", "nvflare_network.py")
        contenders.append(Contender("NVFlare, simulator", options.nvflare, files))
    if options.p2pfl:
        contenders.append(Contender("p2pfl, in one process", options.p2pfl, ("p2pfl_job.py",)))
    results: dict[str, list[Result]] = {each.name: [] for each in contenders}
    with tempfile.TemporaryDirectory() as folder:
        samples = Path(folder) / "samples.npz"
        write_samples(samples)
        for _ in range(options.repeats):
            for each in contenders:
                results[each.name].append(do(each, samples, options.limit))
    print("| who | lines | CPU s | / bare | s | accuracy |\n|---|---|---|---|---|---|")
    floor = statistics.median(result.cpu_s for result in results[contenders[0].name])
    for each in contenders:
        cpu_s = statistics.median(result.cpu_s for result in results[each.name])
        seconds = statistics.median(result.seconds for result in results[each.name])
        accuracy = ", ".join(sorted({result.accuracy for result in results[each.name]}))
        print(f"| {each.name} | {each.lines} | {cpu_s:.1f} | {cpu_s / floor:.1f} | {seconds:.1f} | {accuracy} |")


if __name__ == "__main__":
    main()
