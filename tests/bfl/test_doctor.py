"""`bfl doctor`: what it looks at, and what it tells a person to do."""

import gzip
import io
import platform
import struct
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from rich.console import Console

from bfl import doctor
from bfl.doctor import Check, examine, report
from clients import sources
from policy.extras import install_command
from tests.bfl.conftest import Command
from tests.bfl.runs import ROOT


def shown(checks: list[Check], width: int = 200) -> str:
    """The report as it reaches a screen."""
    screen = io.StringIO()
    report(checks, Console(file=screen, width=width))
    return screen.getvalue()


def no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Fashion-MNIST and without a network."""

    def nothing() -> Path:
        raise FileNotFoundError("offline")

    monkeypatch.setattr(sources, "_candidate_folders", lambda fetch: [("the moon", nothing)])


def with_data(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A machine with one image for training and one for testing, and nothing else."""
    for part in ("train", "t10k"):
        for name, shape, data in (("images-idx3", (1, 28, 28), bytes(784)), ("labels-idx1", (1,), b"\x07")):
            header = struct.pack(">HBB", 0, 8, len(shape)) + struct.pack(f">{len(shape)}I", *shape)
            (folder / f"{part}-{name}-ubyte.gz").write_bytes(gzip.compress(header + data))
    monkeypatch.setattr(sources, "_candidate_folders", lambda fetch: [("the attic", lambda: folder)])


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


def test_data_is_looked_for_but_never_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []

    def fetch() -> Path:
        fetched.append("something")
        raise FileNotFoundError("offline")

    for name in ("_download_with_torchvision", "_fetch_debian_package"):
        monkeypatch.setattr(sources, name, fetch)
    monkeypatch.setattr(sources, "DEBIAN_FOLDER", tmp_path / "usr")
    monkeypatch.setattr(sources, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    assert found_by_doctor("Fashion-MNIST").status == "warn"
    assert fetched == []


def found_by_doctor(name: str) -> Check:
    """What the doctor says of one thing."""
    (check,) = [check for check in examine() if check.name == name]
    return check


@pytest.mark.parametrize(
    ("name", "package"), [("torch", "torch"), ("flwr", "flwr"), ("flwr_datasets", "flwr-datasets")]
)
def test_a_version_other_than_the_one_bfl_asks_for_is_a_warning_with_both(
    monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    no_place(monkeypatch)
    wanted = [f"{package}==99.0.1", "numpy>=2.0,<3", 'ruff==0.1; extra == "dev"']
    monkeypatch.setattr(doctor, "requires", lambda distribution: wanted)
    here = version(package)
    assert found_by_doctor(name) == Check(name, "warn", f"{here}, tested with 99.0.1", f"install {name}==99.0.1")


@pytest.mark.parametrize("local", ["", "+cpu"])
def test_the_version_that_bfl_asks_for_is_fine_in_any_build(monkeypatch: pytest.MonkeyPatch, local: str) -> None:
    no_place(monkeypatch)
    monkeypatch.setattr(doctor, "requires", lambda distribution: ["torch==99.0.1"])
    monkeypatch.setattr(doctor, "version", lambda distribution: f"99.0.1{local}")
    assert found_by_doctor("torch") == Check("torch", "ok", f"99.0.1{local}")


def test_the_versions_that_bfl_asks_for_are_those_of_its_own_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["simulation"]]
    exact = dict(text.split("==") for text in wanted if "==" in text)
    assert exact.items() <= doctor._pinned().items()


def test_a_folder_that_was_never_installed_is_examined_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    no_place(monkeypatch)

    def unknown(distribution: str) -> list[str]:
        raise PackageNotFoundError(distribution)

    monkeypatch.setattr(doctor, "requires", unknown)
    assert found_by_doctor("torch") == Check("torch", "ok", version("torch"))


def test_a_missing_extra_is_a_warning_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    no_place(monkeypatch)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    (check,) = [check for check in examine() if check.name == "matplotlib"]
    assert check.status == "warn"
    assert "cannot be imported" in check.found
    assert check.do == f"for plots: {install_command('simulation')}"


def test_an_advice_reaches_the_screen_with_its_brackets() -> None:
    assert "install '.[simulation]' for plots" in shown(
        [Check("matplotlib", "warn", "nothing", "install '.[simulation]' for plots")]
    )


@pytest.mark.parametrize("works_for_us", [True, False])
def test_torchvision_is_tried_as_a_plug_in_would(monkeypatch: pytest.MonkeyPatch, works_for_us: bool) -> None:
    """A CUDA build beside a CPU build of torch: only our own import mends it, for plug-ins too."""

    def fails(name: str) -> None:
        raise RuntimeError("operator torchvision::nms does not exist")

    def mends() -> None:
        if not works_for_us:
            raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr("bfl.doctor.importlib.import_module", fails)
    monkeypatch.setattr(doctor, "import_torchvision", mends)
    check = doctor._torchvision()
    assert check.status == "warn"
    assert ("works in bfl and its plug-ins" in check.found) is works_for_us
    assert "operator torchvision::nms does not exist" in check.found
    assert "from the same index" in check.do if works_for_us else "pip install" in check.do


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
