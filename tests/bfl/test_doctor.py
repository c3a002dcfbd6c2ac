"""`bfl doctor`: what it looks at, and what it tells a person to do."""

import gzip
import io
import platform
import struct
import sys
from pathlib import Path

import pytest
from rich.console import Console

from bfl import doctor
from bfl.doctor import Check, examine, report
from clients import sources
from tests.bfl.conftest import Command


def shown(checks: list[Check], width: int = 200) -> str:
    """The report as it reaches a screen."""
    screen = io.StringIO()
    report(checks, Console(file=screen, width=width))
    return screen.getvalue()


def no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Fashion-MNIST and without a network."""

    def nothing() -> Path:
        raise FileNotFoundError("offline")

    monkeypatch.setattr(sources, "_places", lambda: [("the moon", nothing)])


def with_data(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A machine with one image for training and one for testing, and nothing else."""
    for part in ("train", "t10k"):
        for name, shape, data in (("images-idx3", (1, 28, 28), bytes(784)), ("labels-idx1", (1,), b"\x07")):
            header = struct.pack(">HBB", 0, 8, len(shape)) + struct.pack(f">{len(shape)}I", *shape)
            (folder / f"{part}-{name}-ubyte.gz").write_bytes(gzip.compress(header + data))
    monkeypatch.setattr(sources, "_places", lambda: [("the attic", lambda: folder)])


def test_the_table_names_this_python_and_where_fashion_mnist_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_data(monkeypatch, tmp_path)
    checks = {check.name: check for check in examine()}
    assert checks["Python"] == Check("Python", "ok", platform.python_version())
    assert checks["Fashion-MNIST"] == Check("Fashion-MNIST", "ok", f"the attic ({tmp_path})")
    table = shown(list(checks.values()), width=300)
    for name in ("Python", "torch", "flwr", "matplotlib", "Fashion-MNIST"):
        assert name in table
    assert platform.python_version() in table
    assert str(tmp_path) in table


def test_missing_data_is_a_warning_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    no_place(monkeypatch)
    (check,) = [check for check in examine() if check.name == "Fashion-MNIST"]
    assert check.status == "warn"
    assert "was not found" in check.found
    assert "--dataset synthetic" in check.do


def test_a_missing_extra_is_a_warning_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    no_place(monkeypatch)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (check,) = [check for check in examine() if check.name == "matplotlib"]
    assert check.status == "warn"
    assert "cannot be imported" in check.found
    assert "bfl[simulation]" in check.do


def test_an_advice_reaches_the_screen_with_its_brackets() -> None:
    assert "install bfl[simulation] for plots" in shown(
        [Check("matplotlib", "warn", "nothing", "install bfl[simulation] for plots")]
    )


def test_what_was_found_may_contain_any_text() -> None:
    assert "cannot open [/usr/lib/x.so]" in shown([Check("torch", "fail", "cannot open [/usr/lib/x.so]")])


@pytest.mark.parametrize(("status", "code"), [("ok", 0), ("warn", 0), ("fail", 1)])
def test_the_exit_code_says_whether_something_is_broken(
    monkeypatch: pytest.MonkeyPatch, command: Command, status: str, code: int
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda: [Check("heart", status, "beats", "rest")])
    answer = command("doctor")
    assert answer.code == code
    assert all(word in answer.out for word in ("heart", status, "beats", "rest"))
