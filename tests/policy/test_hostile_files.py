"""Weights, checkpoints and agents that somebody else made ask for no more than they bring (Q4)."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from policy.actor.weights import MOST_BYTES, SHIPPED, actor_of, read_weights
from policy.cache import read_curve
from policy.errors import PolicyError
from policy.files import read_bounded, read_bounded_text, replacing
from policy.parameters import LatencyParams
from policy.rivals.library import MEMBER, load_agent
from policy.training.settings import LearningParams
from policy.training.train import Training
from tests.policy.hostile_torch_files import calling, saved, with_pickle, zipped

BYTEARRAY = calling("builtins bytearray", b"\x8a\x05\x00\x00\x00\x00\x02\x85")


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_bounded(tmp_path / "a", 5) == b"12345"
    assert read_bounded_text(tmp_path / "a", 5) == "12345"
    with pytest.raises(OSError, match="found more than 4 bytes, expected at most so many"):
        read_bounded(tmp_path / "a", 4)


def test_a_link_in_the_place_of_a_part_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("years of work")
    (tmp_path / "a.part").symlink_to(tmp_path / "precious")
    with replacing(tmp_path / "a") as part:
        part.write_text("new")
    assert (tmp_path / "precious").read_text() == "years of work"
    assert (tmp_path / "a").read_text() == "new"
    assert not (tmp_path / "a").is_symlink()


@pytest.mark.parametrize("sizes", [{"hidden": 10**6, "passes": 4}, {"hidden": 32, "passes": 10**9}])
def test_weights_that_ask_for_a_huge_network_are_refused(tmp_path: Path, sizes: dict[str, int]) -> None:
    """A million hidden units are 4 TB, whatever the file has."""
    content: dict[str, Any] = json.loads(SHIPPED.read_text(encoding="utf-8")) | {"sizes": sizes}
    (tmp_path / "weights.json").write_text(json.dumps(content))
    with pytest.raises(PolicyError, match="expected at most"):
        actor_of(read_weights(tmp_path / "weights.json"), LatencyParams())


def test_weights_of_64_megabytes_or_of_brackets_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.json"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(PolicyError, match="found more than 67,108,864 bytes"):
        read_weights(path)
    path.write_text("[" * 200_000)
    with pytest.raises(PolicyError, match="holds no weights"):
        read_weights(path)
    with pytest.raises(PolicyError, match="holds no learning curve"):
        read_curve(path)


def test_a_checkpoint_that_asks_for_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(with_pickle(saved({}), BYTEARRAY))
    training = Training(LearningParams(devices=(3,), rows=12), LatencyParams(devices=3))
    with pytest.raises(PolicyError, match="is no checkpoint: found a call of 'builtins bytearray'"):
        training.resume(path)


def agent_file(**more: Any) -> bytes:
    facts = {"name": "dqn", "servers": 2, "channels": 2} | more
    return zipped({MEMBER: json.dumps(facts).encode(), "policy.pth": with_pickle(saved({}), BYTEARRAY)})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (agent_file(), "found a call of 'builtins bytearray'"),
        (agent_file(servers=10**6, channels=10**6), "slots, expected at most 10000"),
        (zipped({MEMBER: b"{" * (1 << 20)}, zipfile.ZIP_DEFLATED), "to be stored, not compressed"),
        (zipped({MEMBER: b"[" * 200_000}), "found no saved agent"),
    ],
)
def test_an_agent_that_asks_for_gigabytes_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    pytest.importorskip("stable_baselines3")
    (tmp_path / "agent.zip").write_bytes(content)
    with pytest.raises(PolicyError, match=message):
        load_agent(tmp_path / "agent.zip")
