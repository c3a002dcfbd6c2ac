"""The model.pt of a run folder is a model of its chain, or `audit check` says so."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from edge_servers.replay.record import model_in
from tests.bfl.auditing.tables_shown import rows
from tests.bfl.conftest import Command
from tests.chain.small_chain import story
from tests.edge_servers.audited_chain import Chain, chain


def tensors(found: Chain, round_: int) -> dict[str, torch.Tensor]:
    """The model of a round by name."""
    values = model_in(found.blocks[round_ + 1], found.founding, found)
    parts = np.split(values, np.cumsum(found.founding.sizes)[:-1])
    named = zip(found.founding.tensors, parts, strict=True)
    return {name: torch.from_numpy(part.copy()).reshape(tuple(shape)) for (name, shape), part in named}


def run_with(content: Any, folder: Path) -> str:
    chain().written(folder)
    torch.save(content, folder / "model.pt")
    return str(folder)


@pytest.mark.parametrize(
    ("round_", "told"), [(3, "the model of round 3, bit for bit"), (1, "round 1, bit for bit; the chain goes on to")]
)
def test_a_model_of_the_chain_is_told_with_its_round(round_: int, told: str, command: Command, tmp_path: Path) -> None:
    """A run that was killed may have an older one."""
    answer = command("audit", "check", run_with(tensors(chain(), round_), tmp_path))
    assert answer.code == 0
    assert told in rows(answer.out)["model.pt"]
    assert command("audit", "check", str(tmp_path / "chain.db")).out.count("bit for bit") == 2, (
        "by the chain's own path"
    )


def test_a_network_that_keeps_more_than_is_trained_has_the_model_all_the_same(command: Command, tmp_path: Path) -> None:
    more = tensors(chain(), 3) | {"running_mean": torch.zeros(3)}
    assert command("audit", "check", run_with(more, tmp_path)).code == 0


def _touched() -> Mapping[str, torch.Tensor]:
    found = tensors(chain(), 3)
    name = next(iter(found))
    first = found[name].reshape(-1)
    first[0] = float(np.nextafter(first[0].numpy(), np.float32(9)))
    return found


def test_one_number_that_is_off_by_one_bit_gives_exit_code_1(command: Command, tmp_path: Path) -> None:
    answer = command("audit", "check", run_with(_touched(), tmp_path))
    assert (answer.code, answer.err) == (1, "")
    assert answer.out.startswith("does not fit: model.pt is another model than the last one of the chain: its numbers ")
    assert "those of round 3 0x" in answer.out
    assert answer.out.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({}, "model.pt is no model of this chain: "),
        ([1, 2], "model.pt is no model: found list, expected named tensors"),
        ({name: value.double() for name, value in tensors(chain(), 3).items()}, "is double ["),
        ({name: value.reshape(-1, 1) for name, value in tensors(chain(), 3).items()}, "is no model of this chain"),
    ],
    ids=["nothing", "a list", "doubles", "other shapes"],
)
def test_what_is_no_model_gives_exit_code_1(content: Any, told: str, command: Command, tmp_path: Path) -> None:
    answer = command("audit", "check", run_with(content, tmp_path))
    assert answer.code == 1
    assert told in answer.out


def test_a_file_that_torch_did_not_write_gives_exit_code_1(command: Command, tmp_path: Path) -> None:
    chain().written(tmp_path)
    (tmp_path / "model.pt").write_bytes(b"nothing")
    answer = command("audit", "check", str(tmp_path))
    assert answer.code == 1
    assert answer.out.startswith("does not fit: model.pt is no model: ")
    (tmp_path / "model.pt").unlink()
    (tmp_path / "model.pt").symlink_to("/dev/zero")
    answer = command("audit", "check", str(tmp_path))
    assert answer.code == 1
    assert "found a link, expected an ordinary file" in answer.out


def test_where_models_cannot_be_derived_the_file_was_not_checked(command: Command, tmp_path: Path) -> None:
    story().write(tmp_path)
    torch.save({}, tmp_path / "model.pt")
    answer = command("audit", "check", str(tmp_path))
    assert answer.code == 2
    assert rows(answer.out)["model.pt"].startswith("not checked: the founding parameters name no such network")


def test_a_folder_without_a_model_has_no_row_of_it(command: Command, tmp_path: Path) -> None:
    assert "model.pt" not in rows(command("audit", "check", str(chain().written(tmp_path))).out)
