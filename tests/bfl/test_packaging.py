"""pyproject.toml: what is installed where, and Flower's copy of the defaults."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from edge_servers.parameters import Settings
from tests.bfl.runs import ROOT, environment

ONLY_FOR_SIMULATION = {"matplotlib", "ray", "flwr-datasets", "datasets", "torchvision"}


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    """The file, read."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def pulled_in(requirements: list[str]) -> set[str]:
    """Names of everything that installing `requirements` brings, by the metadata of what is installed here."""
    names: set[str] = set()
    seen: set[tuple[str, str]] = set()
    waiting = [(Requirement(text), "") for text in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        names.add(name)
        for wanted in {"", *requirement.extras}:
            if (name, wanted) not in seen:
                seen.add((name, wanted))
                waiting += [(Requirement(text), wanted) for text in _requirements_of(name)]
    return names


def _requirements_of(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:  # not installed here, like Windows' colorama
        return []


def test_flowers_run_configuration_mirrors_the_defaults_in_value_and_type(pyproject: dict[str, Any]) -> None:
    mirrored = pyproject["tool"]["flwr"]["app"]["config"]
    defaults = Settings().flat()
    assert mirrored.pop("out") == "", "beside them: the run folder"
    assert sorted(mirrored) == sorted(defaults)
    assert {key: (type(value), value) for key, value in mirrored.items()} == {
        key: (type(value), value) for key, value in defaults.items()
    }


def test_a_raspberry_pi_pulls_in_neither_plots_nor_ray_nor_datasets(pyproject: dict[str, Any]) -> None:
    pulled = pulled_in(pyproject["project"]["dependencies"])
    assert {"torch", "flwr", "numpy"} <= pulled
    assert pulled & ONLY_FOR_SIMULATION == set()


def test_the_extra_simulation_brings_data_sets_and_plots(pyproject: dict[str, Any]) -> None:
    extra = pulled_in(pyproject["project"]["optional-dependencies"]["simulation"])
    assert extra & ONLY_FOR_SIMULATION == ONLY_FOR_SIMULATION - {"ray"}


def test_device_and_front_door_can_be_imported_without_the_extras(tmp_path: Path) -> None:
    blocked = "".join(f"sys.modules[{name.replace('-', '_')!r}] = None\n" for name in sorted(ONLY_FOR_SIMULATION))
    program = f"import sys\n{blocked}import clients.client_app, bfl.simulation.server_app, bfl.cli, bfl.simulation"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_packages_are_listed_explicitly_and_all_of_them(pyproject: dict[str, Any]) -> None:
    top = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks"}
    found = (path.parent.relative_to(ROOT) for name in top for path in (ROOT / name).rglob("__init__.py"))
    existing = {".".join(folder.parts) for folder in found}
    assert set(pyproject["tool"]["setuptools"]["packages"]) == existing


def test_the_wheel_tells_type_checkers_that_every_package_is_typed(pyproject: dict[str, Any], tmp_path: Path) -> None:
    """Built from a copy, without network: setuptools leaves its traces where it builds."""
    top = {package.split(".")[0] for package in pyproject["tool"]["setuptools"]["packages"]}
    for name in top:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    program = "from setuptools.build_meta import build_wheel; build_wheel('dist')"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        shipped = set(file.namelist())
    assert {f"{name}/py.typed" for name in top} <= shipped
    data = pyproject["tool"]["setuptools"]["package-data"]
    patterns = [f"{name.replace('.', '/')}/{pattern}" for name in data if name != "*" for pattern in data[name]]
    assert [each for each in patterns if not any(ROOT.glob(each))] == []
    assert {str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern)} <= shipped
    assert not any(name.startswith("tests/") for name in shipped)


def test_flower_ships_every_package(pyproject: dict[str, Any]) -> None:
    packages = pyproject["tool"]["setuptools"]["packages"]
    included = pyproject["tool"]["flwr"]["app"]["fab-include"]
    assert [package for package in packages if f"{package.split('.')[0]}/**/*.py" not in included] == []
    assert [name for name in included if not any(ROOT.glob(name))] == []
