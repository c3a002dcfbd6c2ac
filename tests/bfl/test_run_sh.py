"""run.sh without installing anything: a copy of it in a folder of its own, with stand-ins for Python and its tools."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.bfl.runs import ROOT

TOOLS = (
    "bash", "sh", "env", "dirname", "mkdir", "rm", "mv", "cat", "cp", "cmp", "chmod", "grep", "awk", "sort", "tr",
    "tail", "sed",
)  # fmt: skip

OLD_PYTHON = "exit 1"  # what every Python before 3.11 answers to the question for its version
NO_MATCH = "ERROR: No matching distribution found for torch==2.13.0"


def script(path: Path, body: str) -> Path:
    """An executable that does `body`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def new_python(path: Path, pip: str, after_venv: str = "exit 0") -> Path:
    """A Python that is new enough; in the environments that it makes, `python -m pip` does `pip`."""
    body = f"""
case "$2" in
venv)
    mkdir -p "$3/bin"
    cat >"$3/bin/python" <<'END'
#!/bin/sh
{pip}
END
    chmod +x "$3/bin/python"
    {after_venv}
    ;;
esac
exit 0
"""
    return script(path, body)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of run.sh and pyproject.toml: its .venv is not ours."""
    folder = tmp_path / "a project"
    folder.mkdir()
    for name in ("run.sh", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (tmp_path / "tools").mkdir(exist_ok=True)
        (tmp_path / "tools" / tool).symlink_to(found)
    return folder


def run(project: Path, *arguments: str, python: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """`./run.sh ...` from another folder, on a machine that has no Python but the one given."""
    variables = {"PATH": str(project.parent / "tools"), "HOME": str(project.parent), **more}
    if python:
        variables["PYTHON"] = str(python)
    return subprocess.run(
        ["bash", str(project / "run.sh"), *arguments],
        cwd=project.parent,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def set_up(project: Path, extras: str = "simulation") -> None:
    """An environment as a finished set-up leaves it; its commands tell how they are called."""
    for name in ("bfl", "python", "ruff", "lint-imports", "mypy", "vulture"):
        script(project / ".venv" / "bin" / name, f'echo {name} "$@"')
    shutil.copy(project / "pyproject.toml", project / ".venv" / f"installed-{extras}")


def test_it_is_a_script_that_bash_can_read_and_anybody_may_run() -> None:
    assert subprocess.run(["bash", "-n", str(ROOT / "run.sh")], check=False).returncode == 0
    assert (ROOT / "run.sh").stat().st_mode & 0o111 == 0o111


def test_a_python_that_is_too_old_is_told_apart_and_the_cure_is_named(project: Path) -> None:
    done = run(project, python=script(project.parent / "python3.9", OLD_PYTHON))
    assert done.returncode == 1
    assert "Python 3.11 or newer was not found" in done.stderr
    assert "apt install python3 python3-venv" in done.stderr
    assert "PYTHON=/path/to/python3 ./run.sh" in done.stderr
    assert not (project / ".venv").exists()


def test_a_machine_without_any_python_gets_the_same_advice(project: Path) -> None:
    done = run(project)
    assert done.returncode == 1
    assert "Python 3.11 or newer was not found" in done.stderr


def test_offline_it_says_what_is_missing_and_how_to_get_it(project: Path) -> None:
    python = new_python(project.parent / "python3.12", pip=f"echo '{NO_MATCH}'; exit 1")
    for _ in range(2):  # a failed set-up is not taken for a finished one
        done = run(project, python=python)
        assert done.returncode == 1
        assert "run.sh: the set-up failed" in done.stderr
        assert NO_MATCH in done.stderr
        assert "run.sh: missing: torch==2.13.0" in done.stderr
        assert re.search(r"pip download -d wheels .*'\.\[simulation\]'", done.stderr)
        assert "PIP_NO_INDEX=1 PIP_FIND_LINKS=wheels ./run.sh" in done.stderr
        assert done.stdout == ""


def test_a_failure_that_names_no_package_still_shows_pips_last_words(project: Path) -> None:
    python = new_python(project.parent / "python3.12", pip="echo 'error: No space left on device'; exit 1")
    done = run(project, python=python)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "missing:" not in done.stderr


def test_a_python_without_its_venv_module_is_told_apart_every_time(project: Path) -> None:
    # Debian's `python3 -m venv` leaves bin/python behind before it fails for want of ensurepip
    pip = "echo 'No module named pip'; exit 1"
    python = new_python(project.parent / "python3.12", pip=pip, after_venv="exit 1")
    for _ in range(2):
        done = run(project, python=python)
        assert done.returncode == 1
        assert f"{python} cannot make a virtual environment" in done.stderr
        assert "apt install python3-venv" in done.stderr


def test_when_nothing_changed_it_goes_straight_to_bfl(project: Path) -> None:
    set_up(project)
    done = run(project, "audit", "check", "my run")
    assert (done.returncode, done.stdout, done.stderr) == (0, "bfl audit check my run\n", "")


def test_without_arguments_it_simulates(project: Path) -> None:
    set_up(project)
    assert run(project).stdout == "bfl simulate\n"


def test_a_changed_pyproject_is_installed_again_once(project: Path) -> None:
    set_up(project)
    with (project / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write("# something new\n")
    python = new_python(project.parent / "python3.12", pip="exit 1")
    first = run(project, "doctor", python=python)
    assert "Setting up" in first.stderr
    assert first.stdout == "bfl doctor\n"
    install = (project / ".venv" / "install.log").read_text(encoding="utf-8")
    assert install.startswith("python -m pip install")
    assert f"{project}[simulation]" in install
    assert run(project, "doctor", python=python).stderr == ""


BEFORE_PYTEST = [
    "== ruff", "ruff check .", "ruff format --check .", "== imports", "lint-imports", "== mypy", "mypy",
    "== vulture", "vulture", "== pytest",
]  # fmt: skip
PYTEST = "python -m pytest -n auto --dist loadfile"
USUAL = "-m not experiment"
QUICK = f"{USUAL} and not ray and not kills and not browser and not slow"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], f"{PYTEST} {USUAL}"),
        (["--all"], f"{PYTEST} --cov"),
        (["-k", "grid"], f"{PYTEST} {USUAL} -k grid"),  # a part of the suite cannot reach the floor of the whole
        (["--quick"], f"{PYTEST} {QUICK}"),
        (["-k", "grid", "--quick", "-x"], f"{PYTEST} {QUICK} -k grid -x"),
    ],
)
def test_the_whole_check_is_style_imports_types_dead_code_then_pytest(
    project: Path, arguments: list[str], told: str
) -> None:
    set_up(project, "simulation,ray,dev")
    done = run(project, "test", *arguments)
    assert done.stdout.splitlines() == [*BEFORE_PYTEST, told]


def test_coverage_is_measured_where_it_costs_nothing(project: Path) -> None:
    set_up(project, "simulation,ray,dev")
    script(project / ".venv" / "bin" / "python", '[ "$1" != -c ] || exit 1; echo python "$@"')  # before 3.12
    assert run(project, "test", "--all").stdout.splitlines() == [*BEFORE_PYTEST, PYTEST]
    assert run(project, "test", "--cov").stdout.splitlines()[-1] == f"{PYTEST} {USUAL} --cov"


@pytest.mark.parametrize(("variable", "is_brought"), [("CI", True), ("BFL_APT", True), ("NOTHING", False)])
def test_a_browser_is_brought_where_nobody_minds_and_missing_it_stops_nothing(
    project: Path, variable: str, is_brought: bool
) -> None:
    set_up(project, "simulation,ray,dev")
    tools = project.parent / "tools"
    script(tools / "timeout", 'shift; exec "$@"')
    script(tools / "apt-get", 'echo apt-get "$@"; [ "$1" = update ]')
    done = run(project, "test", python=None, **{variable: "1"})
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"{PYTEST} {USUAL}")
    log = project / ".venv" / "chromium.log"
    assert log.exists() == (is_brought and os.geteuid() == 0)
    if log.exists():
        assert log.read_text(encoding="utf-8").splitlines() == [
            "apt-get update", "apt-get install -y --no-install-recommends chromium",
        ]  # fmt: skip


def test_a_browser_that_is_there_is_taken(project: Path) -> None:
    set_up(project, "simulation,ray,dev")
    script(project.parent / "tools" / "apt-get", "exit 1")
    found = script(project.parent / "elsewhere" / "chrome", "exit 0")
    assert run(project, "test", CI="1", BFL_CHROMIUM=str(found)).returncode == 0
    assert not (project / ".venv" / "chromium.log").exists()


def test_an_argument_with_spaces_reaches_pytest_as_one(project: Path) -> None:
    set_up(project, "simulation,ray,dev")
    script(project / ".venv" / "bin" / "python", 'printf "<%s>" "$@"')
    told = run(project, "test", "--quick", "-k", "gossip or graph").stdout.splitlines()[-1]
    assert told.endswith(f"<-m><{QUICK.removeprefix('-m ')}><-k><gossip or graph>")


def test_what_quick_leaves_out_are_registered_markers() -> None:
    registered = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    names = {marker.split(":")[0] for marker in registered["markers"]}
    assert set(QUICK.removeprefix("-m ").replace("not ", "").split(" and ")) <= names


@pytest.mark.parametrize("tool", ["ruff", "lint-imports", "mypy", "vulture"])
def test_the_whole_check_stops_at_the_first_failure(project: Path, tool: str) -> None:
    set_up(project, "simulation,ray,dev")
    script(project / ".venv" / "bin" / tool, "echo 'something is wrong'; exit 1")
    done = run(project, "test")
    assert done.returncode == 1
    assert "pytest" not in done.stdout
