"""What the page costs: a browser, the server, and the run beside it.

    python -m benchmarks.page [--devices 1000] [--rounds 5000] [--only scale|beside]
    python -m benchmarks.page --pictures FOLDER RUN...

Scale: a run folder of made-up lines, `bfl dashboard` as a process, Debian's chromium (tests/bfl/dashboard/browser).
CPU is that of the whole renderer process, all threads; a step is the time from a scroll or a move of the slider until
the browser has drawn it, asking the server included. Beside: one simulation with `bfl dashboard` on its folder; in turn
some rounds with the page open, some with the page closed and the server stopped (SIGSTOP): both see the same machine.
Beside each figure is its limit; a figure beyond it is WRONG.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.page import beside, pictures, scale
from benchmarks.page.figures import Figure
from tests.bfl.dashboard.browser.chromium import VARIABLE, find_chromium


def main() -> None:
    """Measure, or take pictures."""
    parser = argparse.ArgumentParser(prog="benchmarks.page", description="What the page costs.")
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--only", choices=("scale", "beside"))
    parser.add_argument("--pictures", type=Path, metavar="FOLDER")
    parser.add_argument("runs", type=Path, nargs="*", metavar="RUN")
    given = parser.parse_args()
    if find_chromium() is None:
        sys.exit(f"found no browser, expected chromium on PATH or in {VARIABLE}: apt-get install chromium")
    if given.pictures is not None:
        pictures.take(given.pictures, [each.resolve() for each in given.runs])
        return
    print("| what | found | limit | |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="bfl-page-") as folder:
        if given.only != "beside":
            show(scale.measure(Path(folder), given.devices, given.rounds))
        if given.only != "scale":
            show(beside.measure(Path(folder)))


def show(figures: list[Figure]) -> None:
    """Lines of the table."""
    for each in figures:
        print(each.row, flush=True)


if __name__ == "__main__":
    main()
