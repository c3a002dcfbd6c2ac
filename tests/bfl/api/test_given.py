"""Functions, classes and data given in Python, and what another process needs to go on with such a run."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import Subset, TensorDataset

import bfl
from bfl.api.given import as_model, named_settings
from bfl.api.given_data import as_dataset, named_data
from bfl.attacks.own import Scene
from bfl.config import all_fields
from clients.data import synthetic
from clients.plugins import forget_permissions
from edge_servers.learning.filtered import Filtered
from edge_servers.learning.gradients import Gradient
from edge_servers.planning.state import LOCAL
from tests.bfl.api.small_runs import ON_CHAIN, QUICK
from tests.bfl.runs import ROOT, environment

pytestmark = pytest.mark.usefixtures("without_plots")


@pytest.fixture(autouse=True)
def _nothing_is_permitted() -> Iterator[None]:
    yield
    forget_permissions()


class Small(nn.Sequential):
    """A network of somebody who knows nothing of plug-ins."""

    def __init__(self, width: int = 3) -> None:
        super().__init__(nn.Flatten(), nn.Linear(784, width), nn.ReLU(), nn.Linear(width, 10))


def protocol_model(sample_shape: tuple[int, ...], classes: int, hidden: Sequence[int]) -> nn.Module:
    """The plug-in's own signature."""
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(sample_shape)), classes))


def to_server_one(world: Any, params: Any, rng: np.random.Generator) -> list[int]:
    """Device 0 offloads, nobody else."""
    return [1] + [LOCAL] * (params.devices - 1)


def halved(labels: NDArray[np.int64], devices: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Device 0 has half of everything."""
    order = np.arange(len(labels))
    return [order[: len(order) // 2], *np.array_split(order[len(order) // 2 :], devices - 1)]


def all_but_the_first(closed: Sequence[Gradient]) -> Filtered:
    """Takes out whoever comes first."""
    return Filtered(kept=tuple(closed[1:]), removed={closed[0].sender: "came first"})


cautious = lambda closed: all_but_the_first(closed)  # noqa: E731 - it has no name that another process could import


def negated(honest: NDArray[np.float64], scene: Scene) -> NDArray[np.float64]:
    """Pushes the other way."""
    return -honest


def pictures(count: int = 60) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """A few images whose brightness is their label."""
    labels = np.arange(count) % 3
    return (labels[:, None, None, None] * np.full((1, 1, 16, 16), 80)).astype(np.uint8), labels


# --- models


@pytest.mark.parametrize(
    ("given", "parameters"),
    [(Small, 2395), (Small(4), 3190), (lambda classes: nn.Sequential(nn.Flatten(), nn.Linear(784, classes)), 7850)],
    ids=["class", "network", "function of classes"],
)
def test_a_network_is_given_as_it_is(given: Any, parameters: int) -> None:
    run = bfl.simulate(**QUICK | {"rounds": 1, "model": given})
    assert run.summary["parameters"] == parameters
    assert sum(p.numel() for p in run.model().parameters()) == parameters


def test_a_function_with_the_plug_ins_own_signature_is_taken_as_it_is() -> None:
    assert as_model(protocol_model) == (protocol_model, "")
    assert named_settings({"model": protocol_model}, None, all_fields())["model"] == f"{__name__}:protocol_model"


def test_two_networks_of_one_shape_have_one_name_and_of_two_shapes_two() -> None:
    names = [named_settings({"model": Small(width)}, None, all_fields())["model"] for width in (3, 3, 4)]
    assert names[0] == names[1] != names[2]


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(bfl.BflError, match=r"model: found 3, expected a torch\.nn\.Module, its class, or a function"):
        bfl.simulate(model=3)  # type: ignore[arg-type]


# --- data


def test_arrays_and_torch_data_sets_are_the_same_data() -> None:
    x, y = pictures()
    tensors = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    train, test = Subset(tensors, range(40)), Subset(tensors, range(40, 60))
    forms = [
        (x[:40], y[:40], x[40:], y[40:]),
        ((x[:40], y[:40]), (x[40:], y[40:])),
        (train, test),
    ]
    assert len({named_data(form) for form in forms}) == 1
    whole = as_dataset(tensors)
    assert (len(whole.train), len(whole.test), whole.classes) == (48, 12, 3)
    assert whole.source == "given in Python, 12 of 60 samples held out for the test"
    assert torch.equal(as_dataset((x, y)).train.inputs, whole.train.inputs)
    assert named_data((x, y)) != named_data((255 - x, y))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (3, r"data: found int, expected \(x, y\)"),
        ((1, 2, 3), "data: found 3 of them, expected"),
        ((np.zeros((5, 1, 16, 16)), [0, 1]), "data, train: found 5 samples and 2 labels"),
        ((np.zeros((2, 1, 16, 16)), [0.5, 1.0]), "data, train: found labels of type float64, expected whole numbers"),
        ((np.zeros((2, 1, 16, 16)), [0, 1]), "data: found 2 samples, expected at least 5"),
    ],
)
def test_what_is_no_data_is_refused(data: Any, message: str) -> None:
    with pytest.raises(bfl.BflError, match=message):
        as_dataset(data)


def test_data_and_dataset_are_not_given_together() -> None:
    with pytest.raises(bfl.BflError, match="found data and dataset, expected one of them"):
        bfl.simulate(data=pictures(), dataset="synthetic")


def test_a_run_learns_from_arrays() -> None:
    settings = {name: value for name, value in QUICK.items() if name != "dataset"}
    settings |= {"rounds": 3, "iterations": 10, "model": lambda: nn.Sequential(nn.Flatten(), nn.Linear(256, 3))}
    run = bfl.simulate(**settings, data=pictures(300))
    assert run.settings["dataset"].startswith("given:dataset_")
    assert run.summary["data-source"].startswith("given in Python, 60 of 300")
    assert run.summary["accuracy"] > 0.6


def test_a_dataset_of_ours_and_a_function_that_makes_one_are_data_too() -> None:
    settings = {name: value for name, value in QUICK.items() if name != "dataset"} | {"rounds": 1}
    given, made = bfl.simulate(**settings, data=synthetic(None, 0)), bfl.simulate(**settings, dataset=synthetic)
    assert made.settings["dataset"] == "clients.data:synthetic"
    assert given.metrics[0]["loss"] == made.metrics[0]["loss"]


# --- functions


def test_planner_partition_filter_and_attack_are_given_as_functions() -> None:
    functions = {"planner": to_server_one, "partition": halved, "filter": ["norm-clip", all_but_the_first]}
    attacks = [(negated, "all:device=1"), "noise@1:device=2"]
    run = bfl.simulate(**ON_CHAIN | functions | {"rounds": 1, "data_per_round": "all", "attack": attacks})
    line = run.rounds[0]
    assert line["assignment"] == [1, -1, -1, -1]
    assert [each["reason"] for each in line["refused"]] == ["filtered"]
    assert run.settings["filter"] == f"norm-clip+{__name__}:all_but_the_first"
    assert run.settings["attack"] == f"{__name__}:negated@all:device=1;noise@1:device=2"
    assert run.audit().verdict == "fits"


def test_an_attack_without_its_rounds_is_refused() -> None:
    with pytest.raises(bfl.BflError, match=r'expected \(function, "5-9:device=3"\)'):
        bfl.simulate(attack=negated)  # type: ignore[arg-type]


# --- another process


def in_another_process(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Python that knows nothing of what was given here."""
    command = [sys.executable, "-c", f"import sys, bfl; path = sys.argv[1]\n{code}", str(folder)]
    return subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)


def test_another_process_sees_the_run_and_needs_the_functions_again_to_go_on(tmp_path: Path) -> None:
    x, y = pictures(100)
    settings = {name: value for name, value in ON_CHAIN.items() if name != "dataset"} | {"filter": cautious}
    run = bfl.simulate(**settings | {"rounds": 1}, data=(x, y), out=tmp_path / "run")
    whole = bfl.simulate(**settings | {"rounds": 2}, data=(x, y))
    forget_permissions()  # as in another process
    again = bfl.open_run(run.folder)
    assert (again.metrics, again.chain.head) == (run.metrics, run.chain.head)
    for needs in (again.resume, again.audit, again.model):
        with pytest.raises(bfl.BflError, match=r"give it again: bfl\.open_run\(path, data=\.\.\.\)"):
            needs()
    with pytest.raises(bfl.BflError, match=r"data: the run was made with given:dataset_\w+, these are given:dataset_"):
        bfl.open_run(run.folder, data=(255 - x, y))
    with pytest.raises(bfl.BflError, match=r'found "filtr", expected one of .*did you mean "filter"'):
        bfl.open_run(run.folder, filtr=all_but_the_first)
    again = bfl.open_run(run.folder, data=(x, y), filter=cautious)
    assert again.resume(2, progress=False).chain.head == whole.chain.head


def test_the_command_line_says_where_a_run_with_functions_goes_on(tmp_path: Path) -> None:
    settings = {name: value for name, value in QUICK.items() if name != "dataset"} | {"rounds": 1}
    run = bfl.simulate(**settings, data=pictures(100), out=tmp_path / "run")
    code = (
        "from bfl.cli import main\n"
        "sys.argv = ['bfl', 'simulate', '--resume', path, '--allow-plugins', '--rounds', '2']; main()"
    )
    done = in_another_process(code, run.folder)
    assert done.returncode == 2
    assert "which was given in Python" in done.stderr
    assert "bfl.open_run(path, data=...)" in done.stderr


def test_a_function_that_can_be_imported_needs_a_persons_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("from clients.models import fashion_mnist_cnn as net\n")
    monkeypatch.chdir(tmp_path)
    run = bfl.simulate(**QUICK | {"rounds": 1, "model": "mine:net"}, out=tmp_path / "run")
    forget_permissions()
    with pytest.raises(bfl.BflError, match=r"or allow mine:net to be imported: allow_plugins=True"):
        bfl.open_run(run.folder).resume(2)
    assert bfl.open_run(run.folder, allow_plugins=True).resume(2, progress=False).status == "finished"


def test_a_tensor_of_doubles_becomes_floats() -> None:
    values: Tensor = torch.zeros(10, 1, 16, 16, dtype=torch.float64)
    assert as_dataset((values, [0, 1] * 5)).train.inputs.dtype is torch.float32


def test_a_function_that_fails_in_a_round_leaves_the_rounds_before_it() -> None:
    def third_time_unlucky(state: Any, params: Any, rng: np.random.Generator) -> list[int]:
        asked.append(1)
        if len(asked) > 2:
            raise ZeroDivisionError("of a user")
        return [LOCAL] * params.devices

    asked: list[int] = []
    with pytest.raises(ZeroDivisionError, match="of a user") as caught:
        bfl.simulate(**QUICK | {"planner": third_time_unlucky})
    (note,) = caught.value.__notes__
    assert note.startswith("The rounds before it are recorded: bfl.open_run('")
    run = bfl.open_run(note.split("'")[1])
    assert len(run.rounds) == 2
    asked.clear()
    assert run.resume(progress=False).status == "finished"
