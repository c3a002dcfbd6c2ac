"""Config files of edge servers and devices: what is wrong with one is told in a sentence."""

from pathlib import Path

import pytest

from bfl.commands.participants import EdgeConfig, StubConfig, read_config
from bfl.errors import BflError

EDGE = {"node": "http://127.0.0.1:8546", "registry": "0x" + "ab" * 20, "key": "key.json", "listen": "127.0.0.1:9101"}


def written(tmp_path: Path, **content: object) -> Path:
    lines = [f"{key} = {value!r}".replace("'", '"') for key, value in content.items()]
    path = tmp_path / "edge.toml"
    path.write_text("\n".join(lines))
    return path


def test_a_config_has_what_it_says_and_defaults(tmp_path: Path) -> None:
    found = read_config(written(tmp_path, **EDGE, rounds=7), EdgeConfig)
    assert (found.node, found.rounds, found.signed) == (EDGE["node"], 7, "signed.db")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rounds": "many"}, "found rounds = 'many', expected"),
        ({"colour": "red"}, "found 'colour', expected only node, registry"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, changes: dict[str, object], told: str) -> None:
    with pytest.raises(BflError, match=told):
        read_config(written(tmp_path, **{**EDGE, **changes}), EdgeConfig)


def test_a_missing_entry_is_named(tmp_path: Path) -> None:
    with pytest.raises(BflError, match="edge"):
        read_config(written(tmp_path, node=EDGE["node"]), StubConfig)


def test_no_file_and_no_toml_are_told(tmp_path: Path) -> None:
    with pytest.raises(BflError, match="cannot be read as a config file"):
        read_config(tmp_path / "none.toml", EdgeConfig)
    bad = tmp_path / "bad.toml"
    bad.write_text("node = ")
    with pytest.raises(BflError, match="cannot be read as a config file"):
        read_config(bad, EdgeConfig)
