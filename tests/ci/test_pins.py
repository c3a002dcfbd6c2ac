""".ci/pins.py: what it reads in a pyproject.toml and in pip's answers. Nothing here asks an index."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "pins.py"
PYPROJECT = """
[build-system]
requires = ["setuptools>=77"]

[project]
name = "made"
version = "1"
# What everybody needs. Capped at the next major: they keep
# their word.
dependencies = [
    "one==1.2.0", # its names change
    "two>=2.0,<3",
    "three>=1",
]

[project.optional-dependencies]
# For cooks. The kitchen is pinned: it burns.
kitchen = ["made[more]", "pan[lid]==4.0b1 ; python_version > '3'", "pot~=1.4.2"]
# For nobody in particular.
more = [
    "knife<=7",
    # pinned: sharp
    "fork-and-spoon==0.1", "one==1.2.0",
]
"""


@pytest.fixture(scope="module")
def pins() -> ModuleType:
    """The script as a module: its folder's name is none that could be imported."""
    spec = importlib.util.spec_from_file_location("pins", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["pins"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_pinned_and_capped_requirements_are_found_once_with_the_reason_of_their_comment(pins: ModuleType) -> None:
    found = [(pin.name, pin.ours, pin.why) for pin in pins.find_pins(PYPROJECT)]
    assert found == [
        ("one", "==1.2.0", "its names change"),
        ("two", "<3", "Capped at the next major: they keep their word."),
        ("pan", "==4.0b1", "The kitchen is pinned: it burns."),
        ("pot", "~=1.4.2", "The kitchen is pinned: it burns."),
        ("knife", "<=7", ""),
        ("fork-and-spoon", "==0.1", "pinned: sharp"),
    ]


@pytest.mark.parametrize(
    ("sign", "ours", "inside", "outside"),
    [
        ("==", "1.2.0", ["1.2.0", "1.2", "1.2.0+cpu"], ["1.2.1", "2"]),
        ("==", "0.12.1b1", ["0.12.1b1"], ["0.12.1b2", "0.12.1"]),
        ("<", "3", ["2.9.9"], ["3.0.0", "3.1", "10.0"]),
        ("<=", "7", ["7.0", "6.9"], ["7.1"]),
        ("~=", "1.4.2", ["1.4.9"], ["1.5.0", "2.4.2"]),
    ],
)
def test_a_release_is_newer_if_the_requirement_leaves_it_out(
    pins: ModuleType, sign: str, ours: str, inside: list[str], outside: list[str]
) -> None:
    pin = pins.Pin("one", sign, ours, "")
    assert [version for version in inside + outside if pin.leaves_out(version)] == outside


@pytest.mark.parametrize(
    ("answer", "newest"),
    [
        ("flwr (1.42.0)\nAvailable versions: 1.42.0, 1.41.0\n  INSTALLED: 1.41.0\n", "1.42.0"),
        ("py-evm (0.12.1b1)\nAvailable versions: 0.12.1b1\n", "0.12.1b1"),
        ("", None),
        ("ERROR: No matching distribution found for nothing", None),
    ],
)
def test_the_newest_release_is_in_the_first_line_of_pips_answer(
    pins: ModuleType, answer: str, newest: str | None
) -> None:
    assert pins.newest_release(answer) == newest


def test_the_table_begins_with_what_is_newer_and_names_who_did_not_answer(pins: ModuleType) -> None:
    answers = {"one": "1.2.0", "two": "3.0.1", "pan": "4.0b1", "pot": "1.4.2", "knife": None, "fork-and-spoon": "0.2"}
    lines = pins.report(pins.find_pins(PYPROJECT), lambda pin: answers[pin.name]).splitlines()
    assert lines[0].split() == ["name", "ours", "newest", "why", "it", "is", "pinned"]
    assert lines[1].split()[:4] == ["two", "<3", "3.0.1", "newer"]
    assert lines[2].split() == ["fork-and-spoon", "==0.1", "0.2", "newer", "pinned:", "sharp"]
    assert lines[3].split()[:3] == ["one", "==1.2.0", "1.2.0"]
    assert ["knife", "<=7", "no", "answer"] in [line.split() for line in lines]
    assert lines[-1] == "2 of 6 have something newer; 1 without an answer."


def test_offline_it_says_so_and_that_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (tmp_path / "empty").mkdir()
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "pyproject.toml")],
        env={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "empty"), "PIP_CONFIG_FILE": "/dev/null"},
        capture_output=True,
        text=True,
        check=False,
    )
    told = "Nothing was checked: pip's index answered for none of 6 packages. Is this machine online?\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, told, "")


def test_a_pip_that_does_not_answer_in_time_is_not_waited_for(
    pins: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sleeper = tmp_path / "python"
    sleeper.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    sleeper.chmod(0o755)
    monkeypatch.setattr(pins.sys, "executable", str(sleeper))
    monkeypatch.setattr(pins, "ANSWER_S", 0.2)
    assert pins.ask_pip(pins.Pin("one", "==", "1", "")) is None


def test_everything_that_we_pin_exactly_has_a_reason(pins: ModuleType) -> None:
    ours = pins.find_pins((SCRIPT.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert len(ours) > 20
    assert [pin.name for pin in ours if pin.sign == "==" and not pin.why] == []
