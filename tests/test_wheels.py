"""Every pin has a wheel for a Raspberry Pi: nothing is compiled there.

Asked of `uv pip`, which Flower brings along: unlike pip's `--platform` it reads the markers of packages as the other
machine would, and downloads no wheel of it.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[1]
UV = Path(sys.executable).with_name("uv")
UNREACHABLE = re.compile(r"error sending request|dns error|timed out|Could not connect|offline|tunnel", re.I)
HEAVY = {"py-evm", "matplotlib", "ray", "datasets", "flwr-datasets", "torchvision", "gymnasium", "stable-baselines3"}


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return dict(tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"])


def resolved(folder: Path, extra: str, python: str) -> dict[str, str]:
    """What an aarch64 machine with glibc 2.28 or newer would install for `bfl[EXTRA]`: names and versions."""
    (folder / "pyproject.toml").write_bytes((REPOSITORY / "pyproject.toml").read_bytes())
    command = [str(UV), "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--extra", extra]
    command += ["--python-platform", "aarch64-manylinux_2_28", "--python-version", python, "--only-binary", ":all:"]
    run = subprocess.run([*command, "pyproject.toml"], cwd=folder, capture_output=True, text=True, timeout=300)
    if run.returncode and UNREACHABLE.search(run.stderr):
        pytest.skip(f"the package index cannot be reached: {run.stderr.strip().splitlines()[-1]}")
    assert run.returncode == 0, run.stderr
    return dict(line.split("==") for line in run.stdout.splitlines() if "==" in line)


def pins(project: dict[str, Any], *extras: str) -> dict[str, str]:
    required = [
        *project["dependencies"],
        *(each for extra in extras for each in project["optional-dependencies"][extra]),
    ]
    exact = (re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?==(\S+)", each) for each in required)
    return {found[1]: found[2] for found in exact if found}


@pytest.mark.slow
@pytest.mark.skipif(not UV.exists(), reason="uv is not installed beside Python")
@pytest.mark.parametrize("python", ["3.11", "3.13"])
def test_a_device_installs_from_wheels_alone_and_without_what_edges_need(
    project: dict[str, Any], tmp_path: Path, python: str
) -> None:
    found = resolved(tmp_path, "chain", python)
    wanted = pins(project, "chain")
    assert len(wanted) > 10
    assert {name: found.get(name) for name in wanted} == wanted
    assert HEAVY.isdisjoint(found)


@pytest.mark.slow
@pytest.mark.skipif(not UV.exists(), reason="uv is not installed beside Python")
@pytest.mark.parametrize("python", ["3.11", "3.13"])
def test_an_edge_server_on_a_pi_installs_from_wheels_alone(
    project: dict[str, Any], tmp_path: Path, python: str
) -> None:
    found = resolved(tmp_path, "simulation", python)
    wanted = pins(project, "chain", "node", "baselines", "simulation")
    assert {"py-evm", "safe-pysha3", "torchvision"} <= set(wanted)
    assert {name: found.get(name) for name in wanted} == wanted


def test_the_guide_names_the_torch_that_is_pinned(project: dict[str, Any]) -> None:
    guide = (REPOSITORY / "docs" / "deploy.md").read_text(encoding="utf-8")
    assert set(re.findall(r"torch==([\d.]+\d)", guide)) == {pins(project)["torch"]}
