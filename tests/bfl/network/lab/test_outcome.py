"""How a rehearsal ended: well only if nothing is missing, everything agrees, and nobody is accused."""

import json
from dataclasses import replace
from pathlib import Path

from bfl.network.lab.outcome import LabResult, accusations_at, left_out_at
from tests.edge_servers.audited_chain import LIES, chain

WELL = LabResult(
    rounds={"a": 3, "b": 3}, heads={"a": "0x1", "b": "0x1"}, seconds={}, accuracy=None, restarts={"a node": 2},
    audits={"a": 0, "b": 0}, accused={"a": (), "b": ()}, left_out={"late": 1},
)  # fmt: skip


def line(round_: int, **told: object) -> str:
    return json.dumps({"round": round_, "offences": [], "excluded": [], "refused": [], **told}) + "\n"


def test_it_ended_well_only_with_all_rounds_one_head_audits_that_fit_and_nobody_accused() -> None:
    assert WELL.faults(3) == []
    assert replace(WELL, rounds={"a": 3, "b": 2}).faults(3) == ["b has 2 of 3 rounds"]
    assert replace(WELL, heads={"a": "0x1", "b": "0x2"}).faults(3) == ["the heads differ"]
    assert replace(WELL, audits={"a": 0, "b": 1}).faults(3) == ["audit of b: DOES NOT FIT"]
    assert replace(WELL, audits={"a": 0, "b": 2}).faults(3) == ["audit of b: not all could be checked"]
    assert replace(WELL, accused={"a": ("server 1 is excluded",), "b": ()}).faults(3) == ["a: server 1 is excluded"]


def test_whoever_is_accused_on_the_chain_is_named_with_whom_and_where(tmp_path: Path) -> None:
    found = accusations_at(chain(LIES).written(tmp_path))
    assert any("block 2" in told and "accuses server 1 " in told and "(flag)" in told for told in found)
    assert any("block 3" in told and "accuses server 2 " in told and "(flag_equivocation)" in told for told in found)


def test_two_signatures_that_convict_count_though_nobody_flagged_them(tmp_path: Path) -> None:
    folder = chain("double-signing@2:server=leader").written(tmp_path)
    told = [each for each in accusations_at(folder) if "flag_signatures" in each or "has signed two things" in each]
    assert told


def test_nobody_is_accused_on_the_chain_of_an_honest_network(tmp_path: Path) -> None:
    assert accusations_at(chain("").written(tmp_path)) == []


def test_what_an_edge_found_counts_too_but_for_who_was_away(tmp_path: Path) -> None:
    kit = chain("").written(tmp_path)
    late = {"node": "device 1", "reason": "late", "detail": "no answer"}
    offence = {"offender": "server 2", "kind": "model", "detail": "server 2 published a model that ..."}
    cut_off = '{"round": 3, "offen'
    (kit / "metrics.jsonl").write_text(
        line(1, refused=[late, late]) + line(2, offences=[offence], excluded=[2]) + cut_off
    )
    assert accusations_at(kit) == [
        "round 2: found that server 2 published a model that ...", "round 2: server 2 is excluded",
    ]  # fmt: skip
    assert left_out_at(kit) == {"late": 2}
