"""`bfl simulate` on the chain, interrupted in every way: where the chain stands is where the run stands."""

import gc
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bfl.config import RunSettings
from bfl.errors import RunFolderError
from bfl.simulation import run as simulation
from chain.audit.archive import FileArchive
from chain.errors import StoreError
from clients.evaluation import Scores
from edge_servers.errors import FederationError
from edge_servers.federation import Federation
from edge_servers.server import EdgeServer
from tests.bfl.conftest import Command
from tests.bfl.runs import (
    ctrl_c_after,
    flags_of,
    go_on,
    ignore,
    interrupt,
    metrics_without_seconds,
    run_through,
    small,
    without_details,
)

pytestmark = pytest.mark.usefixtures("without_plots")
CHAIN: dict[str, Any] = {
    "scheme": "bfl", "rounds": 4, "phi": 1, "difficulty": 2, "hidden": 2, "iterations": 1, "batch": 5,
}  # fmt: skip


def on_chain(**changes: Any) -> RunSettings:
    """Settings of a run on the chain whose rounds take a tenth of a second."""
    return small(**CHAIN | changes)


def blocks(folder: Path) -> list[str]:
    """Hashes of the blocks of a run's chain."""
    archive = FileArchive(folder)
    try:
        return [archive.block(number).header.hash.hex() for number in range(archive.head().block_number + 1)]
    finally:
        archive.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four rounds that nobody disturbs."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(simulation, "can_plot", lambda: False)
        run_through(on_chain(), folder)
    return folder


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that Ctrl-C ended after its second round."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(simulation, "can_plot", lambda: False)
        interrupt(on_chain(), folder, after=2)
    return folder


@pytest.fixture
def stopped(stopped_once: Path, tmp_path: Path) -> Path:
    """The same run, to go on with or to spoil."""
    return Path(shutil.copytree(stopped_once, tmp_path / "run"))


# --- a run ------------------------------------------------------------------------------------------------------------


def test_a_run_leaves_a_chain_metrics_and_a_summary_that_agree(whole: Path) -> None:
    lines, summary = metrics_without_seconds(whole), json.loads((whole / "summary.json").read_text())
    found = blocks(whole)
    assert [line["block"] for line in lines] == found[2:]
    assert (summary["status"], summary["blocks"], summary["head"]) == ("finished", 4, found[-1])
    assert summary["offences"] == 0
    assert not (whole / "checkpoint.npz").exists()


def test_the_same_seed_gives_the_same_head_and_another_another(whole: Path, tmp_path: Path) -> None:
    again = run_through(on_chain(), tmp_path / "again")
    assert again == metrics_without_seconds(whole)
    assert blocks(tmp_path / "again") == blocks(whole)
    run_through(on_chain(seed=1, rounds=1), tmp_path / "other")
    assert blocks(tmp_path / "other")[1] != blocks(whole)[1]


def test_attack_and_number_of_rounds_leave_the_founding_block_as_it_is(whole: Path, tmp_path: Path) -> None:
    run_through(on_chain(rounds=2, attack="iterate-noise@2:server=1,step=1"), tmp_path / "run")
    found = blocks(tmp_path / "run")
    assert found[:3] == blocks(whole)[:3]  # and round 1, in which nobody lies
    assert found[3] != blocks(whole)[3]


def test_three_nodes_leave_three_equal_chains(tmp_path: Path) -> None:
    run_through(on_chain(rounds=2, nodes=3), tmp_path / "run")
    heads = set()
    for name in ("chain.db", "chain-1.db", "chain-2.db"):
        archive = FileArchive(tmp_path / "run" / name)
        heads.add(archive.head().hash)
        archive.close()
    assert len(heads) == 1


def test_a_run_that_its_disk_cannot_hold_is_refused_in_one_line(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10**9))
    flags = flags_of({"dataset": "synthetic", "devices": 4, "hidden": "4000,2000", "threads": 1, "planner": "fixed"})
    answer = command("simulate", *flags, "--out", str(tmp_path / "run"))
    assert answer.code == 2
    assert answer.err.startswith("error: this run writes ")
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


# --- resumed ----------------------------------------------------------------------------------------------------------


def test_ctrl_c_and_resume_end_with_the_same_chain_metrics_and_model(whole: Path, stopped: Path) -> None:
    assert blocks(stopped) == blocks(whole)[:4]
    assert go_on(stopped) == metrics_without_seconds(whole)
    assert blocks(stopped) == blocks(whole)
    assert (stopped / "model.pt").read_bytes() == (whole / "model.pt").read_bytes()


def test_ctrl_c_within_a_round_loses_that_round_alone(whole: Path, tmp_path: Path) -> None:
    def disturbed(servers: Sequence[EdgeServer]) -> None:
        if servers[0].round == 3:
            raise KeyboardInterrupt

    ready = simulation.start(on_chain(), tmp_path / "run")
    plan, train, close, gossip, *rest = ready.federation.phases
    federation = replace(ready.federation, phases=(plan, train, close, gossip, disturbed, *rest))
    assert simulation.run(replace(ready, federation=federation), ignore)["rounds"] == 2
    assert go_on(tmp_path / "run") == metrics_without_seconds(whole)
    assert blocks(tmp_path / "run") == blocks(whole)


def test_ctrl_c_between_seal_and_metrics_loses_nothing(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = Federation.evaluate

    def evaluate_disturbed(federation: Federation) -> Scores:
        if federation.round == 3:  # sealed, not recorded
            raise KeyboardInterrupt
        return evaluate(federation)

    with monkeypatch.context() as patched:
        patched.setattr(Federation, "evaluate", evaluate_disturbed)
        summary = simulation.run(simulation.start(on_chain(), tmp_path / "run"), ignore)
    assert (summary["rounds"], len(blocks(tmp_path / "run"))) == (2, 5)
    assert go_on(tmp_path / "run") == metrics_without_seconds(whole)
    assert blocks(tmp_path / "run") == blocks(whole)


def cut_lines(text: str, lines: int) -> str:
    return "".join(text.splitlines(keepends=True)[:-lines])


CUTS: list[Callable[[str], str]] = [
    lambda text: cut_lines(text, 1),
    lambda text: cut_lines(text, 2),
    lambda text: text[:-60],
    lambda text: text[:-1],
    lambda text: cut_lines(text, 1) + '{"round": 3}',
    lambda text: "",
    lambda text: "gibberish\n" + text,
    lambda text: text + text,
]


@pytest.mark.parametrize(
    "cut", CUTS, ids=["one", "two", "half a line", "a newline", "a stub", "all", "gibberish", "twice"]
)
def test_lost_lines_of_metrics_are_made_up_from_the_chain(
    whole: Path, stopped: Path, cut: Callable[[str], str]
) -> None:
    path = stopped / "metrics.jsonl"
    path.write_text(cut(path.read_text(encoding="utf-8")), encoding="utf-8")
    assert go_on(stopped) == metrics_without_seconds(whole)
    assert blocks(stopped) == blocks(whole)


def test_lost_lines_about_lies_and_refusals_are_made_up_as_well(tmp_path: Path) -> None:
    """Round 1 refuses device 3, in round 2 server 1 lies and is excluded: nothing of round 2 is in line 1."""
    settings = on_chain(attack="inflated-samples@1:device=3; iterate-noise@2:server=1,step=1")
    expected = without_details(run_through(settings, tmp_path / "whole"))
    interrupt(settings, tmp_path / "run", after=2)
    (tmp_path / "run" / "metrics.jsonl").write_text("", encoding="utf-8")
    assert without_details(go_on(tmp_path / "run")) == expected
    assert (expected[0]["refused"], expected[0]["excluded"]) == ([("device 3", "wrong-weight")], [])
    assert expected[1]["excluded"] == [1]
    assert blocks(tmp_path / "run") == blocks(tmp_path / "whole")


def test_more_rounds_go_on_with_the_same_blocks_as_a_longer_run(whole: Path, tmp_path: Path) -> None:
    run_through(on_chain(rounds=2), tmp_path / "run")
    assert go_on(tmp_path / "run", rounds=4) == metrics_without_seconds(whole)
    assert blocks(tmp_path / "run") == blocks(whole)


def test_a_run_that_has_ended_is_not_resumed_and_says_why(whole: Path, tmp_path: Path) -> None:
    run_through(on_chain(rounds=1), tmp_path / "run")
    for rounds in (None, 1):
        with pytest.raises(RunFolderError, match="has finished 1 rounds, 1 are asked for; ask for more with --rounds"):
            simulation.resume(tmp_path / "run", rounds, False)
        gc.collect()
    assert go_on(tmp_path / "run", rounds=2) == metrics_without_seconds(whole)[:2]


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_run_with_metrics_and_without_its_chain_is_refused_and_left_alone(stopped: Path, is_empty: bool) -> None:
    """Its metrics would be thrown away without a word."""
    for path in stopped.glob("chain.db*"):
        path.unlink()
    if is_empty:
        (stopped / "chain.db").touch()
    lines = (stopped / "metrics.jsonl").read_bytes()
    with pytest.raises(RunFolderError, match=r"metrics of \d rounds, but chain\.db is missing or empty: put it back"):
        simulation.resume(stopped, None, False)
    gc.collect()
    assert (stopped / "metrics.jsonl").read_bytes() == lines


def test_the_chain_of_another_run_is_refused_and_left_alone(stopped: Path, tmp_path: Path) -> None:
    run_through(on_chain(seed=1, rounds=1), tmp_path / "other")
    foreign = (tmp_path / "other" / "chain.db").read_bytes()
    for path in stopped.glob("chain.db*"):
        path.unlink()
    (stopped / "chain.db").write_bytes(foreign)
    lines = (stopped / "metrics.jsonl").read_bytes()
    with pytest.raises(FederationError, match=r"chain\.db is the chain of another network"):
        simulation.resume(stopped, None, False)
    gc.collect()
    assert (stopped / "chain.db").read_bytes() == foreign
    assert (stopped / "metrics.jsonl").read_bytes() == lines


def test_a_damaged_chain_is_refused(stopped: Path) -> None:
    content = (stopped / "chain.db").read_bytes()
    (stopped / "chain.db").write_bytes(content[: len(content) // 2 + 7])
    with pytest.raises(StoreError, match="is damaged"):
        simulation.resume(stopped, None, False)
    gc.collect()


@pytest.mark.slow
def test_of_three_nodes_one_that_is_behind_by_a_block_catches_up(tmp_path: Path) -> None:
    settings = on_chain(nodes=3, rounds=3)
    expected = run_through(settings, tmp_path / "whole")
    interrupt(settings, tmp_path / "run", after=1)
    behind = (tmp_path / "run" / "chain-1.db").read_bytes()
    simulation.run(simulation.resume(tmp_path / "run", None, False), ctrl_c_after(2))
    (tmp_path / "run" / "chain-1.db").write_bytes(behind)
    assert go_on(tmp_path / "run") == expected
    heads = [FileArchive(tmp_path / "run" / name) for name in ("chain.db", "chain-1.db", "chain-2.db")]
    assert {archive.head().hash.hex() for archive in heads} == {blocks(tmp_path / "whole")[-1]}
    for archive in heads:
        archive.close()


@pytest.mark.slow
def test_a_run_under_attack_resumes_to_the_same_end(tmp_path: Path) -> None:
    """Excluded in round 1, away in rounds 2 and 3, back in round 4: also for whoever starts in between."""
    settings = on_chain(attack="wrong-model@1; silent-leader@3:phase=close", rounds=5, exclusion_rounds=2, term_cap=1)
    expected = run_through(settings, tmp_path / "whole")
    interrupt(settings, tmp_path / "run", after=1)
    for round_ in (2, 3):
        simulation.run(simulation.resume(tmp_path / "run", None, False), ctrl_c_after(round_))
    assert go_on(tmp_path / "run") == expected
    assert blocks(tmp_path / "run") == blocks(tmp_path / "whole")
    assert [bool(line["failed-leaders"]) for line in expected] == [True, False, True, False, False]
