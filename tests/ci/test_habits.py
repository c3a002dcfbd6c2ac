"""What the files around the code promise each other: CI runs our command, hooks call our tools, lists are fresh."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = ["bfl", "chain", "clients", "edge_servers", "policy"]


def read_yaml(name: str) -> dict[Any, Any]:
    found = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def test_ci_runs_the_whole_check_on_every_python_and_both_machines_and_may_only_read() -> None:
    workflow = read_yaml(".github/workflows/test.yml")
    job = workflow["jobs"]["test"]
    assert job["strategy"]["matrix"] == {
        "python": ["3.11", "3.12", "3.13"],
        "machine": ["ubuntu-24.04", "ubuntu-24.04-arm"],
    }
    assert f">={job['strategy']['matrix']['python'][0]}" == PYPROJECT["project"]["requires-python"]
    assert job["timeout-minutes"] == 90
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    assert workflow["permissions"] == {"contents": "read"}
    assert (ROOT / ".ci/run").read_text(encoding="utf-8").rstrip().endswith("exec ./run.sh test")


def test_every_action_is_pinned_to_a_major() -> None:
    jobs = read_yaml(".github/workflows/test.yml")["jobs"].values()
    used = [step["uses"] for job in jobs for step in job["steps"] if "uses" in step]
    assert used
    assert [action for action in used if not re.fullmatch(r"actions/[a-z-]+@v\d+", action)] == []


def test_once_a_week_ci_looks_for_newer_pins() -> None:
    workflow = read_yaml(".github/workflows/test.yml")
    (when,) = workflow[True]["schedule"]  # to YAML, `on` is true
    assert re.fullmatch(r"\d+ \d+ \* \* [0-6]", when["cron"])
    commands = [step["run"] for step in workflow["jobs"]["pins"]["steps"] if "run" in step]
    assert commands == ["python .ci/pins.py"]


def test_hooks_fetch_nothing_and_call_what_the_whole_check_installs() -> None:
    repositories = read_yaml(".pre-commit-config.yaml")["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"]
    hooks = repositories[0]["hooks"]
    assert {hook["language"] for hook in hooks} <= {"system", "pygrep"}
    tools = {re.sub(r"^\./\.venv/bin/", "", hook["entry"].split()[0]) for hook in hooks if ".venv" in hook["entry"]}
    installed = {"ruff": "ruff", "lint-imports": "import-linter"}
    assert tools == set(installed)
    wanted = {re.split(r"[=<>]", text)[0] for text in PYPROJECT["project"]["optional-dependencies"]["dev"]}
    assert set(installed.values()) <= wanted


@pytest.mark.parametrize("name", ["bug.md", "idea.md"])
def test_a_template_for_issues_has_what_github_needs_and_asks_for_what_we_need(name: str) -> None:
    text = (ROOT / ".github/ISSUE_TEMPLATE" / name).read_text(encoding="utf-8")
    front, _, body = text.removeprefix("---\n").partition("\n---\n")
    assert set(yaml.safe_load(front)) == {"name", "about", "labels"}
    assert [thing for thing in ("doctor", "config.toml", "environment.json", "command") if thing not in body] == []


def test_coverage_and_vulture_look_at_every_package() -> None:
    assert sorted(PYPROJECT["tool"]["coverage"]["run"]["source"]) == PACKAGES
    assert set(PACKAGES) <= set(PYPROJECT["tool"]["vulture"]["paths"])
    assert PYPROJECT["tool"]["vulture"]["min_confidence"] == 60


def test_every_name_that_vulture_lets_pass_still_exists() -> None:
    folders = PYPROJECT["tool"]["vulture"]["paths"]
    text = "\n".join(path.read_text(encoding="utf-8") for folder in folders for path in (ROOT / folder).rglob("*.py"))
    names = PYPROJECT["tool"]["vulture"]["ignore_names"]
    assert [name for name in names if not re.search(rf"\b{name.replace('*', '[A-Za-z_]*')}\b", text)] == []
