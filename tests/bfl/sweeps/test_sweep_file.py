"""A sweep as a file: what it makes, and what is refused in it."""

from pathlib import Path

import pytest

from bfl.config import read_settings
from bfl.errors import ConfigError
from bfl.sweeps.plan import make_plan, one_cell
from bfl.sweeps.sweep_file import MOST_BYTES, SweepFile, read_sweep_file

GRID = """
seeds = "0-1"
[common]
rounds = 3
dataset = "synthetic"
[grid]
scheme = ["consensus-no-chain", "fedavg"]
partition = ["iid", "dirichlet"]
[[cells]]
scheme = "traditional"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "sweep.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(folder: Path, text: str) -> str:
    path = write(folder, text)
    with pytest.raises(ConfigError) as refused:
        make_plan(read_sweep_file(path), str(path))
    return str(refused.value)


def test_a_grid_times_seeds_and_single_cells(tmp_path: Path) -> None:
    plan = make_plan(read_sweep_file(write(tmp_path, GRID)), "sweep.toml")
    assert [cell.name for cell in plan.cells] == [
        "scheme=consensus-no-chain,partition=iid",
        "scheme=consensus-no-chain,partition=dirichlet",
        "scheme=fedavg,partition=iid",
        "scheme=fedavg,partition=dirichlet",
        "scheme=traditional,partition=iid",
    ]
    assert len(plan.runs) == 10
    assert plan.rounds == 30
    assert [run.name for run in plan.runs[:2]] == [
        "scheme=consensus-no-chain,partition=iid/seed=0", "scheme=consensus-no-chain,partition=dirichlet/seed=0",
    ]  # fmt: skip
    last = plan.runs[-1].settings
    assert (last.rounds.scheme, last.data.seed, last.rounds.rounds, last.training.threads) == ("traditional", 1, 3, 1)


def test_cells_that_are_written_twice_are_one(tmp_path: Path) -> None:
    text = GRID + '[[cells]]\nscheme = "fedavg"\npartition = "iid"\n'
    assert len(make_plan(read_sweep_file(write(tmp_path, text)), "x").cells) == 5


def test_values_that_are_no_plain_names_have_folders_that_differ() -> None:
    file = SweepFile(grid={"attack": ("sign-flip@1:device=0", "sign-flip@1:device=1", "sign-flip@1 :device=1", "")})
    names = [cell.name for cell in make_plan(file, "x").cells]
    assert names[:2] == ["attack=sign-flip-1-device-0", "attack=sign-flip-1-device-1"]
    assert names[2].startswith("attack=sign-flip-1-device-1~")
    assert names[3] == "attack=none"


def test_the_text_of_a_file_reads_back(tmp_path: Path) -> None:
    read = read_sweep_file(write(tmp_path, GRID))
    again = read_sweep_file(write(tmp_path, read.text()))
    assert again == read


def test_settings_of_the_environment_are_common_to_all_cells(tmp_path: Path) -> None:
    read = read_sweep_file(write(tmp_path, GRID), {"BFL_ROUNDS": "7", "BFL_SCHEME": "fedavg"})
    plan = make_plan(read, "x")
    assert {run.settings.rounds.rounds for run in plan.runs} == {7}
    assert {run.settings.rounds.scheme for run in plan.runs} == {"consensus-no-chain", "fedavg", "traditional"}


def test_a_run_with_seeds_is_a_sweep_with_one_cell() -> None:
    settings = read_settings(flags={"rounds": 3, "scheme": "fedavg", "seed": 5})
    file = one_cell(settings.flat(), (1, 2))
    assert dict(file.common) == {"rounds": 3, "scheme": "fedavg"}
    assert [run.name for run in make_plan(file, "x").runs] == ["seed=1", "seed=2"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[comon]\nrounds = 1", 'unknown key "comon" (did you mean "common"?)'),
        ("rounds = 1", 'unknown key "rounds"; it belongs under [common]'),
        ("[common]\nround = 1", '[common]: unknown key "round" (did you mean "rounds"?)'),
        ("[grid]\nshceme = ['bfl']", '[grid]: unknown key "shceme" (did you mean "scheme"?)'),
        ("[[cells]]\nseed = 3", '[[cells]] 1: found seed, expected it above all tables as seeds = "0-4"'),
        ("[grid]\nscheme = 'bfl'", "[grid]: found scheme = 'bfl', expected a list of values"),
        ("[grid]\nscheme = []", "found scheme = [], expected a list"),
        ("[grid]\nscheme = [['bfl']]", "expected a list of values"),
        ("[common]\nscheme = ['bfl']", "expected one value; a list of values belongs under [grid]"),
        ("grid = 3", "[grid]: found 3, expected a table"),
        ("cells = {}", "expected tables, each headed by [[cells]]"),
        ("[grid]\nscheme = ['bfl', 'fedavgg']", 'cell scheme=fedavgg: scheme: found "fedavgg"'),
        (
            "[grid]\nlearning-rate = [0.1, -1.0]",
            "cell learning-rate=-1.0: learning-rate: found -1.0, expected at least",
        ),
        ("[grid]\ngraph = ['line', '0-1']", "cell graph=0-1: "),
        (
            "seeds = '0-999'\n[grid]\nrounds = [1,2,3,4,5,6,7,8,9,10,11]",
            "found 11 cells of 1,000 seeds, expected at most",
        ),
        ("[common]\nmodel = 'mine:make'", "which is code to run"),
        ("[grid]\nmodel = ['mine:make']", "which is code to run"),
        ("seeds = [", "is not TOML"),
        ("#" * (MOST_BYTES + 1), "cannot be read"),
    ],
)
def test_what_cannot_be_is_told_before_anything_runs(tmp_path: Path, text: str, told: str) -> None:
    assert told in refusal(tmp_path, text)


def test_code_of_others_is_permitted_by_a_person(tmp_path: Path) -> None:
    path = write(tmp_path, "[common]\ndataset = 'stripes:load'")
    assert read_sweep_file(path, allow_plugins=True).common == {"dataset": "stripes:load"}
