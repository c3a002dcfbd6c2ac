"""What an edge PC and a device take: MB on disk, CPU seconds to import, memory once imported.

    python -m benchmarks.footprint

Disk: the installed files of what `pip install 'bfl[...]'` pulls in, as this environment has it (torch is a CPU build
here). Imports: a fresh Python that loads what each part of a machine loads, files warm, the median of three; memory is
its largest resident set. Nothing is trained: a round adds data and model.
"""

import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PARTS = {
    "device: executor": "import torch, bfl.network.devices.resident, clients.data, clients.models",
    "device: miner": "import bfl.cli, bfl.commands.mining, chain.client.keys, chain.mining.many_nodes",
    "device: SuperNode": "import flwr.supernode.cli.flower_supernode",
    "edge: node": "import bfl.cli, chain.node.node, chain.rpc.server, edge_servers.ledger.block_check",
    "edge: SuperLink": "import flwr.superlink.cli.flower_superlink",
    "edge: edge server": "import torch, bfl.network.edge_server",
    "either: supervisor": "import bfl.cli, bfl.network.enrolment.joining, bfl.network.supervision, bfl.network.parts",
}
EXTRAS = {
    "device: bfl[chain]": "chain",
    "edge: bfl[node]": "node",
    "edge and simulation: bfl[simulation]": "simulation",
}
_MEASURE = (
    "import resource, sys, time; began = time.process_time(); exec(sys.argv[1]);"
    "print(time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
)


def pulled_in(extra: str) -> set[str]:
    """Every distribution that bfl with an extra needs, as far as it is installed here."""
    wanted, found = [("bfl", {extra})], set[str]()
    seen: set[tuple[str, frozenset[str]]] = set()
    while wanted:
        name, extras = wanted.pop()
        if (name, frozenset(extras)) in seen:
            continue
        seen.add((name, frozenset(extras)))
        try:
            needs = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        found.add(name)
        wanted += list(_needed(needs, extras))
    return found


def _needed(requirements: Iterable[str], extras: set[str]) -> Iterable[tuple[str, set[str]]]:
    from packaging.requirements import Requirement

    for text in requirements:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": each}) for each in (*extras, "")):
            yield re.sub(r"[-_.]+", "-", requirement.name).lower(), set(requirement.extras)


def size_mb(names: Iterable[str]) -> float:
    """Of their installed files."""
    total = 0
    for name in names:
        for path in distribution(name).files or []:
            full = Path(str(path.locate()))
            total += full.stat().st_size if full.is_file() else 0
    return total / 1e6


def main() -> None:
    """Print the tables."""
    print("| install | packages | MB on disk | of it torch |\n|---|---|---|---|")
    for name, extra in EXTRAS.items():
        names = pulled_in(extra)
        print(f"| {name} | {len(names)} | {size_mb(names):.0f} | {size_mb({'torch'} & names):.0f} |")
    print("\n| part | CPU seconds to import | MB then |\n|---|---|---|")
    for name, code in PARTS.items():
        runs = [
            subprocess.run([sys.executable, "-c", _MEASURE, code], capture_output=True, text=True, check=True)
            for _ in range(3)
        ]
        seconds, megabytes = zip(*(map(float, run.stdout.split()[-2:]) for run in runs), strict=True)
        print(f"| {name} | {sorted(seconds)[1]:.1f} | {sorted(megabytes)[1]:.0f} |")


if __name__ == "__main__":
    main()
