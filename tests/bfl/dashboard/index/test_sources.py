"""What a page shows of a run folder, with and without a chain, of older runs, and of folders that go away."""

import json
import shutil
from pathlib import Path

import pytest

from bfl.dashboard.errors import DashboardError, NotFoundError
from bfl.dashboard.index.opening import newest_run, run_sources
from bfl.simulation.run_folder import RunFolder
from tests.bfl.dashboard.made import assignments_of, attacked_run, lied, line, opened, read_all, write_run


def test_a_run_without_a_chain_has_rounds_and_people_but_no_blocks(tmp_path: Path) -> None:
    shown = opened(write_run(tmp_path / "run", map(line, range(1, 6)))).snapshot
    assert [each.round for each in shown.rounds] == [1, 2, 3, 4, 5]
    assert (shown.blocks, shown.about.chain_id, shown.about.graph) == ((), None, ((0, 1),))
    assert [(each.name, each.home, each.address) for each in shown.participants] == [
        ("server 0", 0, ""), ("server 1", 1, ""),
        ("device 0", 0, ""), ("device 1", 1, ""), ("device 2", 0, ""), ("device 3", 1, ""),
    ]  # fmt: skip
    assert (shown.status, shown.told, shown.about.devices, shown.about.rounds_planned) == ("interrupted", "", 4, 10)


def test_a_run_on_a_chain_has_its_blocks_and_the_liar() -> None:
    shown = opened(attacked_run()).snapshot
    assert (shown.status, shown.told, len(shown.rounds), len(shown.blocks)) == ("finished", "", 4, 6)
    assert [each.offender for each in shown.offences] == ["server 1"] * len(shown.offences)
    assert shown.offences[0].id == "2-server-1-1"
    assert shown.offences[0].excluded_through == 12
    head = shown.blocks[-1]
    assert (head.number, head.round, head.hash) == (5, 4, shown.rounds[-1].block)
    assert head.leader.startswith("server ")
    assert head.winner.startswith("device ")
    assert head.posts["plan"] == head.posts["model"] == 1
    assert all(each.is_final for each in shown.blocks[:-1])
    assert shown.participants[0].address.startswith("0x")
    assert shown.participants[-1].samples > 0


def test_metrics_of_an_older_run_get_their_assignments_from_the_plans_on_the_chain(tmp_path: Path) -> None:
    shutil.copytree(attacked_run(), tmp_path / "old")
    lines = [json.loads(each) for each in (tmp_path / "old" / "metrics.jsonl").read_text().splitlines()]
    expected = [each.pop("assignment") for each in lines]
    (tmp_path / "old" / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    dashboard = opened(tmp_path / "old")
    assert assignments_of(dashboard) == expected
    assert any(each >= 0 for round_ in expected for each in round_), "somebody offloads"


def test_a_folder_that_goes_away_is_told_and_what_was_read_stays(tmp_path: Path) -> None:
    dashboard = opened(write_run(tmp_path / "run", map(line, range(1, 4))))
    shutil.rmtree(tmp_path / "run")
    read_all(dashboard)
    assert dashboard.snapshot.status == "unreachable"
    assert "is gone" in dashboard.snapshot.told
    assert len(dashboard.snapshot.rounds) == 3


def test_a_run_that_somebody_writes_is_running_and_is_not_disturbed(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", map(line, range(1, 4)))
    writer = RunFolder.open(folder)
    dashboard = opened(folder)
    seen = [dashboard.snapshot.status]
    writer.release()
    (folder / "summary.json").write_text('{"status": "finished"}')
    read_all(dashboard)
    assert [*seen, dashboard.snapshot.status] == ["running", "finished"]
    RunFolder.open(folder).release()


def test_a_run_that_has_just_begun_waits(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [])
    writer = RunFolder.open(folder)
    assert opened(folder).snapshot.status == "waiting"
    writer.release()


def test_a_damaged_chain_is_told_and_the_metrics_are_shown(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", map(line, range(1, 4)))
    (folder / "chain.db").write_bytes(b"no database at all, but long enough to look like one" * 50)
    shown = opened(folder).snapshot
    assert len(shown.rounds) == 3
    assert "is no chain database" in shown.told


def test_settings_are_data_and_name_no_code_to_run(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", map(line, range(1, 3)))
    text = (folder / "config.toml").read_text().replace('model = "auto"', 'model = "os:abort"')
    (folder / "config.toml").write_text(text)
    shown = opened(folder).snapshot
    assert shown.about.settings["model"] == "os:abort"
    assert len(shown.rounds) == 2


def test_several_runs_have_names_that_differ(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / place / "run", [line(1)]) for place in ("a", "b")]
    first = opened(*folders)
    assert list(first.siblings) == ["run", "run-2"]
    assert [each.about.name for each in first.compare(["run-2", "run"])] == ["run-2", "run"]
    with pytest.raises(NotFoundError, match="found run 'other', expected one of run, run-2"):
        first.compare(["other"])


def test_the_newest_run_is_the_one_that_was_written_last(tmp_path: Path) -> None:
    for name in ("old", "new"):
        write_run(tmp_path / name, [line(1)])
    assert newest_run(tmp_path) == tmp_path / "new"
    with pytest.raises(DashboardError, match="found no run under"):
        newest_run(tmp_path / "old")


def test_what_is_no_run_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DashboardError, match=r"is no run folder: found no config\.toml"):
        run_sources([tmp_path])
    with pytest.raises(DashboardError, match="found no folder"):
        run_sources([tmp_path / "nowhere"])


def test_a_run_without_a_chain_cannot_be_audited_and_has_no_evidence_but_its_own_word(tmp_path: Path) -> None:
    lines = [line(1), line(2, offences=[lied()], excluded=[1])]
    dashboard = opened(write_run(tmp_path / "run", lines))
    assert dashboard.audit.start().status == "impossible"
    evidence = dashboard.details.evidence("2-server-1-3")
    assert (evidence.source, evidence.block, evidence.flags) == ("metrics", None, ())
    with pytest.raises(NotFoundError, match="no chain"):
        dashboard.details.model_file(1)
