"""The commands of docs/plugins.md, as they stand there, in the folder of the examples; and what they show."""

import ast
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.bfl.conftest import Command
from tests.bfl.runs import ROOT

DOCUMENT = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
BLOCKS = [block.splitlines() for block in re.findall(r"(?:^    bfl .*\n)+", DOCUMENT, re.MULTILINE)]
DATA_AND_MODEL, THREE_PARTS, FILTER, PLANNER = range(4)
MOST_LINES = 20

pytestmark = [pytest.mark.usefixtures("without_plots"), pytest.mark.slow]


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the examples, as the current folder."""
    shutil.copytree(ROOT / "docs" / "examples", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(block: int, command: Command) -> dict[str, dict[str, Any]]:
    """The summaries of the runs of a block, by their folders."""
    assert len(BLOCKS) == 4
    for line in BLOCKS[block]:
        told = command(*shlex.split(line)[1:])
        assert (told.code, told.err) == (0, ""), line
    return {path.parent.name: json.loads(path.read_text()) for path in Path.cwd().rglob("summary.json")}


def test_an_own_data_set_and_an_own_model(examples: Path, command: Command) -> None:
    (summary,) = run(DATA_AND_MODEL, command).values()
    assert (summary["dataset"], summary["status"]) == ("stripes", "finished")


def test_an_own_partition_optimiser_and_scheme(examples: Path, command: Command) -> None:
    (summary,) = run(THREE_PARTS, command).values()
    assert (summary["scheme"], summary["partition"]) == ("own_parts:cautious", "own_parts:by_size")
    assert (summary["blocks"], summary["offences"]) == (2, 0)


def test_an_own_filter_stands_against_an_own_attack(examples: Path, command: Command) -> None:
    accuracy = {name: summary["accuracy"] for name, summary in run(FILTER, command).items()}
    assert accuracy.keys() == {"honest", "open", "closed", "cost"}
    assert accuracy["open"] < 0.5 < 0.8 * accuracy["honest"] < accuracy["closed"]
    assert accuracy["cost"] > 0.8 * accuracy["honest"]
    assert (examples / "comparison" / "comparison.csv").exists()


def test_an_own_planner_is_faster_than_none_and_slower_than_the_trained_one(examples: Path, command: Command) -> None:
    latency = {name: summary["latency"]["paper"]["T"] for name, summary in run(PLANNER, command).items()}
    assert latency["a2c"] < latency["mine"] < latency["local"]


@pytest.mark.parametrize("name", ["own_filter.py", "own_planner.py"])
def test_a_walk_is_short(name: str) -> None:
    """Code alone: without docstrings, imports and empty lines."""
    tree = ast.parse((ROOT / "docs" / "examples" / name).read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert functions
    assert sum(1 + len(ast.unparse(part).splitlines()) for each in functions for part in each.body[1:]) < MOST_LINES
