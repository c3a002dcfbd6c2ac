"""What somebody is told to install is what they have the rest of: a clone, a wheel, or a name on an index."""

import json
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from policy import extras

ROOT = Path(__file__).parents[2]


class Installed:
    """A distribution with what pip wrote down of where it came from (PEP 610)."""

    def __init__(self, content: dict[str, object] | None) -> None:
        self._text = None if content is None else json.dumps(content)

    def read_text(self, name: str) -> str | None:
        return self._text if name == "direct_url.json" else None


def told(
    monkeypatch: pytest.MonkeyPatch, here: Path, content: dict[str, object] | None, python: str = "/opt/bfl/bin/python"
) -> str:
    monkeypatch.setattr(extras, "distribution", lambda name: Installed(content))
    monkeypatch.setattr(sys, "executable", python)
    monkeypatch.chdir(here)
    return extras.install_command("chain")


def test_in_a_clone_it_is_the_clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    editable: dict[str, object] = {"url": tmp_path.as_uri(), "dir_info": {"editable": True}}
    python = str(tmp_path / ".venv" / "bin" / "python")
    command = told(monkeypatch, tmp_path, editable, python)
    assert command == ".venv/bin/python -m pip install --editable '.[chain]'"


def test_from_another_folder_it_is_named_in_full(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clone = tmp_path / "my clone"
    clone.mkdir()
    command = told(monkeypatch, tmp_path, {"url": clone.as_uri(), "dir_info": {}})
    assert command == "/opt/bfl/bin/python -m pip install './my clone[chain]'"
    elsewhere = tmp_path / "runs"
    elsewhere.mkdir()
    assert told(monkeypatch, elsewhere, {"url": clone.as_uri()}).endswith(f"'{clone}[chain]'")


def test_a_wheel_is_installed_again_with_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheel = tmp_path / "bfl-1.0-py3-none-any.whl"
    assert told(monkeypatch, tmp_path, {"url": wheel.as_uri(), "archive_info": {}}).endswith(f"'./{wheel.name}[chain]'")


def test_from_an_address_it_is_the_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    command = told(monkeypatch, tmp_path, {"url": "git+ssh://example.org/bfl.git"})
    assert command.endswith("pip install 'bfl[chain] @ git+ssh://example.org/bfl.git'")


def test_what_was_never_installed_is_the_folder_it_lies_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> Installed:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "distribution", unknown)
    monkeypatch.chdir(ROOT)
    assert extras.install_command("node").endswith("-m pip install --editable '.[node]'")
