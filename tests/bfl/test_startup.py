"""What a start loads, and what it does not need to: seconds are measured by benchmarks/startup.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bfl.runs import ROOT, SMALL, flags_of

_HEAVY = {"torch", "flwr", "numpy", "scipy", "matplotlib", "web3", "eth", "datasets", "gymnasium"}
_FOR_PICTURES_AND_PARTS = {"matplotlib", "seaborn", "pandas", "datasets", "flwr_datasets", "torchvision", "gymnasium"}
_LOADED = "print(*sorted({name.partition('.')[0] for name in sys.modules}))"


def loaded(code: str, folder: Path, *arguments: str) -> set[str]:
    """Top-level packages that a process has loaded when it prints them, in its last line."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("BFL_")}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("asked", [["--version"], ["--help"], ["simulate", "--help"], ["audit", "--help"]])
def test_help_and_version_load_no_library(asked: list[str], tmp_path: Path) -> None:
    code = f"import atexit, sys; atexit.register(lambda: {_LOADED}); from bfl.cli import main; main()"
    assert not loaded(code, tmp_path, *asked) & _HEAVY


def test_what_is_refused_without_torch_is_refused_without_loading_it(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom bfl.cli import main\ntry:\n    main()\n"
        f"except SystemExit as end:\n    assert end.code == 2, end.code\n    {_LOADED}"
    )
    assert not loaded(code, tmp_path, "simulate", "--rounds", "0") & {"torch", "flwr"}


@pytest.mark.slow
def test_the_first_round_waits_for_nothing_that_draws_pictures_or_divides_tables(tmp_path: Path) -> None:
    code = (
        "import os, sys, bfl.show.progress as progress\nfrom bfl.cli import main\n"
        f"def show(self, report):\n    {_LOADED}\n    sys.stdout.flush()\n    os._exit(0)\n"
        "progress.RunDisplay.show = show\nmain()"
    )
    found = loaded(code, tmp_path, "simulate", *flags_of(SMALL | {"scheme": "bfl"}))
    assert {"torch", "eth"} <= found
    assert not found & _FOR_PICTURES_AND_PARTS


def test_the_first_line_comes_before_torch(tmp_path: Path) -> None:
    code = (
        "import builtins, os, sys\nfrom bfl.cli import main\n"
        "say = builtins.print\n"
        f"def first(*words, **more):\n    say(*words, {_LOADED[6:-1]})\n    sys.stdout.flush()\n    os._exit(0)\n"
        "builtins.print = first\nmain()"
    )
    found = loaded(code, tmp_path, "simulate", *flags_of(SMALL))
    assert "loading" in found
    assert not found & _HEAVY
