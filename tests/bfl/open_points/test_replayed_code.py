"""Code of others that a replay needs: named by its digest in the founding, run by nobody who has not allowed it."""

import importlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bfl.config import read_settings
from bfl.dashboard.index import child
from bfl.errors import RunFolderError
from bfl.simulation import run as simulation
from chain.audit.archive import FileArchive
from clients.plugins import forget_permissions, offer
from edge_servers.errors import CodeNotAllowedError, ForeignCodeError
from edge_servers.founding.code import check_code, code_of
from edge_servers.founding.parameters import read_founding_parameters
from edge_servers.parameters import RoundParams, Settings
from edge_servers.replay.record import parameters_in
from tests.bfl.conftest import Command
from tests.bfl.open_points.stranger import SMALL, SOURCE
from tests.bfl.runs import ignore

FLAGS = SMALL | {"dataset": "synthetic", "planner": "fixed", "filter": "stranger:keep", "scheme": "stranger:next_model"}
NOT_ALLOWED = "filter 'stranger:keep' is code of others, and nobody here has allowed it; if you know it, add --allow-pl"


def forget() -> None:
    """As in a process that has just begun."""
    forget_permissions()
    sys.modules.pop("stranger", None)
    importlib.invalidate_caches()
    Path("imported").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a chain with a filter and a scheme of somebody, and the module that has them."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "stranger.py").write_text(SOURCE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        forget()
        simulation.run(simulation.start(read_settings(flags=FLAGS), folder / "run"), ignore)
        forget()
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The same folder, for this test alone."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    forget()
    yield tmp_path
    forget()


def edit(folder: Path) -> None:
    (folder / "stranger.py").write_text(f"{SOURCE}\n# no other line is changed\n")


def test_an_audit_without_permission_checks_all_but_the_models_and_imports_nothing(
    here: Path, command: Command
) -> None:
    told = command("audit", "check", "run")
    assert told.code == 2
    assert "fits, as far as it could be checked" in " ".join(told.out.split())
    assert f"no model could be derived again: {NOT_ALLOWED}" in told.err
    assert not (here / "imported").exists()


def test_an_audit_with_permission_derives_every_model(here: Path, command: Command) -> None:
    told = command("audit", "check", "run", "--allow-plugins")
    assert (told.code, told.err) == (0, "")
    assert "1 of 1 rounds give their model again, bit for bit" in " ".join(told.out.split())


def test_an_audit_with_another_version_of_the_code_is_no_verdict_on_the_chain(here: Path, command: Command) -> None:
    edit(here)
    told = command("audit", "check", "run", "--allow-plugins")
    assert (told.code, told.out) == (2, "")
    assert "error: filter stranger:keep: found code of sha256" in told.err
    assert "get that version, nothing else derives the same models" in told.err


def test_an_audit_where_the_code_is_not_is_no_verdict_on_the_chain(here: Path, command: Command) -> None:
    (here / "stranger.py").unlink()
    told = command("audit", "check", "run", "--allow-plugins")
    assert (told.code, told.out) == (2, "")
    assert 'filter "stranger:keep": cannot import stranger' in told.err


def test_a_proof_is_verified_with_permission_alone(here: Path, command: Command) -> None:
    assert command("audit", "proof", "run", "--round", "1", "--out", "proof", "--allow-plugins").code == 0
    forget()
    refused = command("audit", "verify", "proof")
    assert (refused.code, refused.out) == (2, "")
    assert NOT_ALLOWED in refused.err
    assert not (here / "imported").exists()
    assert command("audit", "verify", "proof", "--allow-plugins").code == 0


def test_why_report_and_compare_say_what_they_could_not_derive(here: Path, command: Command) -> None:
    assert NOT_ALLOWED in command("audit", "why", "device 2", "run").err
    report = command("audit", "report", "run", "--out", "report.html")
    assert report.code == 2
    assert "fits, as far as it could be checked" in report.out
    assert "is code of others, and nobody here has allowed it" in (here / "report.html").read_text()
    shutil.copytree("run", "again")
    assert command("compare", "run", "again").code == 0
    assert command("chain", "show", "run").code == 0
    assert not (here / "imported").exists()


def test_the_page_says_what_it_could_not_derive(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert child.audit(("file", str(here / "run"))) == 2
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["verdict"] == "fits, as far as it could be checked"
    assert NOT_ALLOWED in told["not_checked"][0]
    assert not (here / "imported").exists()


def test_a_run_goes_on_with_the_code_that_it_began_with_and_no_other(here: Path, command: Command) -> None:
    refused = command("simulate", "--resume", "run", "--rounds", "2")
    assert refused.code == 2
    assert "which is code to run, in a file" in refused.err
    assert not (here / "imported").exists()
    assert command("simulate", "--resume", "run", "--rounds", "2", "--allow-plugins").code == 0
    forget()
    edit(here)
    with pytest.raises(RunFolderError, match=r"filter stranger:keep: the run has [0-9a-f]{64}, this process"):
        simulation.resume(here / "run", 3, False, allow_plugins=True)
    with pytest.raises(ForeignCodeError, match="the network was founded with"):
        simulation.resume(here / "run", 3, True, allow_plugins=True)


def test_the_founding_names_the_code_by_its_digest(here: Path) -> None:
    archive = FileArchive(here / "run")
    founding = read_founding_parameters(parameters_in(archive.block(1), archive))
    archive.close()
    assert sorted(founding.code) == ["filter stranger:keep", "scheme stranger:next_model"]
    assert all(len(digest) == 64 for digest in founding.code.values())
    with pytest.raises(CodeNotAllowedError, match="filter 'stranger:keep' is code of others"):
        check_code(founding.settings, founding.code)
    assert not (here / "imported").exists()


@pytest.mark.parametrize("name", ["subprocess:Popen", "os:system", "stranger:keep", "x" * 5000 + ":f", "..:f", ":"])
def test_what_a_chain_names_is_not_imported(here: Path, name: str) -> None:
    for rounds in (RoundParams(filter=name), RoundParams(filter=f"krum+{name}")):
        with pytest.raises(CodeNotAllowedError) as caught:
            code_of(Settings(rounds=rounds))
        assert len(str(caught.value)) < 400
    assert not (here / "imported").exists()


def test_a_function_of_the_same_name_that_is_given_again_must_be_the_same(here: Path, command: Command) -> None:
    """Somebody gives another function under the name of the run's own."""
    offer("filter", lambda closed: closed, "stranger:keep")
    told = command("audit", "check", "run", "--allow-plugins")
    assert told.code == 2
    assert "filter stranger:keep: found code of sha256" in told.err
