"""What the documents promise: examples run, tables name code that exists."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bfl.auditing.findings import audit_rounds
from chain.audit.archive import FileArchive

REPOSITORY = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [["--model", "tiny_mlp:make", "--dataset", "synthetic", "--hardness", "0"], ["--dataset", "stripes:load"]],
    ids=["model", "dataset"],
)
def test_the_plug_in_examples_learn(flags: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bfl", "simulate", "--rounds", "3", "--out", str(tmp_path / "run"), *flags]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    subprocess.run(command, cwd=REPOSITORY / "docs" / "examples", env=environment, check=True, capture_output=True)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["accuracy"] > 0.6


@pytest.mark.experiment
def test_a_model_of_eleven_million_parameters_runs_on_the_chain_and_fits(tmp_path: Path) -> None:
    flags = {"model": "resnet18:make", "dataset": "synthetic", "rounds": 1, "devices": 2, "edges": 2, "phi": 1}
    flags |= {"iterations": 1, "batch": 2, "evaluate-every": 0, "planner": "fixed:0", "threads": 1}
    flags |= {"learning-rate": 0.01}
    words = [word for key, value in flags.items() for word in (f"--{key}", str(value))]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    folder = REPOSITORY / "docs" / "examples"
    command = [sys.executable, "-m", "bfl", "simulate", "--out", str(tmp_path / "run"), *words]
    done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    assert "chain: about 89." in done.stdout  # two gradients of 22 MB in fp16, a model of 45 MB
    archive = FileArchive(tmp_path / "run")
    audit = audit_rounds(archive)
    archive.close()
    assert sum(audit.founding.sizes if audit.founding else ()) == 11_172_810
    assert [(each.round, len(each.trained)) for each in audit.rounds] == [(1, 2)]
    assert not audit.found.pruned
    assert not audit.findings


def symbol_rows() -> list[list[str]]:
    text = (REPOSITORY / "docs" / "symbols.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in row] for row in rows]


def test_every_symbol_is_in_the_file_it_is_said_to_be_in() -> None:
    texts = {file: (REPOSITORY / file).read_text(encoding="utf-8") for *_, file in symbol_rows()}
    rows = [(name.strip("`"), file) for _, _, name, _, file in symbol_rows()]
    missing = [f"{name} in {file}" for name, file in rows if not re.search(rf"\b{re.escape(name)}\b", texts[file])]
    assert len(rows) > 40
    assert missing == [], "docs/symbols.md names what is not there"


def test_links_in_the_documents_lead_somewhere() -> None:
    for document in [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document}: {target}"


def test_the_version_is_the_newest_of_the_changelog() -> None:
    newest = re.search(r"^## (\S+)", (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == importlib.import_module("bfl").__version__


def test_the_first_chain_is_founded_mined_and_fits(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "docs/examples/first_chain.py", str(tmp_path / "chain.db")]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.count("sealed: block") == 3
    command = [sys.executable, "-m", "bfl", "audit", "check", str(tmp_path / "chain.db")]
    audit = subprocess.run(command, cwd=REPOSITORY, env=environment, check=False, capture_output=True, text=True)
    assert "fits, as far as it could be checked" in audit.stdout
    assert (audit.returncode, audit.stderr[:38]) == (2, "error: no model could be derived again")


def test_the_example_of_the_policy_decides(capsys: pytest.CaptureFixture[str]) -> None:
    text = (REPOSITORY / "docs" / "policy.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert example is not None
    exec(compile(example[1], "docs/policy.md", "exec"), {})  # noqa: S102 - our own document
    assert 0.5 < float(capsys.readouterr().out.strip("[]\n ")) < 2
