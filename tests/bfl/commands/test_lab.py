"""What a person sees at the end of a rehearsal, and while it goes on."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from bfl.commands.lab import _Display, _show
from bfl.network.lab.outcome import LabResult
from bfl.network.lab.params import LabParams

PARAMS = LabParams(Path("out"), edges=2, devices=1, rounds=3)
WELL = LabResult(
    rounds={"edge-1": 3, "edge-2": 3}, heads={"edge-1": "0x1234", "edge-2": "0x1234"},
    seconds={"kits": 2.0, "start": 30.0, "rounds": 12.0}, accuracy=0.5, restarts={"edge-1": 1, "device-1 miner": 2},
    audits={"edge-1": 0, "edge-2": 0}, accused={"edge-1": [], "edge-2": []}, left_out={"late": 1},
)  # fmt: skip


def shown(result: LabResult) -> list[str]:
    console = Console(record=True, width=120)
    _show(PARAMS, result, console)
    return [" ".join(line.split()) for line in console.export_text().splitlines()]


def test_a_rehearsal_that_ended_well_says_so_and_where_everything_is() -> None:
    told = shown(WELL)
    assert told[0] == "2 edges, 1 devices"
    assert "│ edge-2 │ 3 │ 0x1234 │ fits │ none │" in told
    assert told[-8:] == [
        "verdict WELL: 3 rounds at every edge, one head, every audit fits, nobody accused or excluded",
        "seconds 44: kits 2, start 30, rounds 12",
        "accuracy 50.0 %",
        "started again edge-1 1 x, device-1 miner 2 x",
        "left out 1 late",
        "logs out/kits/NAME/log, out/NAME.out",
        "audits out/audit-NAME.txt",
        "summary out/summary.json",
    ]


def test_a_rehearsal_that_did_not_says_why() -> None:
    accused = {"edge-1": ["block 3: server 0 accuses server 1 (flag)"], "edge-2": []}
    told = shown(replace(WELL, rounds={"edge-1": 3, "edge-2": 1}, accused=accused, audits={"edge-1": 0, "edge-2": 1}))
    assert "│ edge-1 │ 3 │ 0x1234 │ fits │ 1 │" in told
    assert "│ edge-2 │ 1 │ 0x1234 │ DOES NOT FIT │ none │" in told
    (verdict,) = [line for line in told if line.startswith("verdict")]
    assert verdict == (
        "verdict NOT WELL: edge-2 has 1 of 3 rounds; audit of edge-2: DOES NOT FIT; "
        "edge-1: block 3: server 0 accuses server 1 (flag)"
    )


def test_in_a_pipe_every_round_is_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    display = _Display(Console(), 3)
    display.show(0, "edge-server  [it starts]")
    display.show(1, "accuracy 10.0 %")
    display.show(1, "accuracy 10.0 %")
    display.say("edge-1 has ended (SIGKILL)")
    display.show(2, "accuracy 20.0 %")
    lines = capsys.readouterr().out.splitlines()
    assert [line[9:] for line in lines] == [
        "round 1 of 3 is sealed: accuracy 10.0 %",
        "edge-1 has ended (SIGKILL)",
        "round 2 of 3 is sealed: accuracy 20.0 %",
    ]
