"""A description of a network: what it says, and what is said of a wrong one."""

from pathlib import Path

import pytest

from bfl.errors import ConfigError
from bfl.network.description import read_description
from tests.bfl.network.described import SMALL, write


def test_a_description_says_who_is_where(tmp_path: Path) -> None:
    made = read_description(write(tmp_path))
    assert [edge.name for edge in made.edges] == ["edge-a", "edge-b", "edge-c"]
    assert [edge.node_port for edge in made.edges] == [8545, 8545, 9545]
    assert (made.settings.rounds.edges, made.settings.data.devices) == (3, 2)
    assert (made.settings.rounds.scheme, made.settings.rounds.deadline_s) == ("bfl", 60.0)
    assert [made.consent(device).text for device in made.devices] == ["0,2", "never"]
    assert made.devices[1].hashes_per_s == 500.0
    assert made.chain.difficulty == 1000
    standbys = [made.standby_of(device) for device in made.devices]
    assert [edge and edge.name for edge in standbys] == ["edge-c", "edge-c"], "the next after edge-b"
    assert made.warnings == [
        "edge-a is nobody's home: it helps to agree, and learns from nobody",
        "edge-c is nobody's home: it helps to agree, and learns from nobody",
    ]


def test_two_edges_are_told_to_pause(tmp_path: Path) -> None:
    text = SMALL.replace('[[edges]]\nname = "edge-c"\naddress = "10.0.0.3"\nnode-port = 9545\n', "")
    two = read_description(write(tmp_path, text.replace("edge-a, edge-c", "edge-a")))
    assert "pauses while one of them is off" in two.warnings[0]


def test_a_standby_is_the_next_edge_in_the_list_or_the_one_that_is_named(tmp_path: Path) -> None:
    homes = SMALL.replace('home = "edge-b"', 'home = "edge-c"', 1)
    homes = homes.replace('home = "edge-b"', 'home = "edge-b"\nstandby = "edge-a"')
    made = read_description(write(tmp_path, homes))
    assert [edge and edge.name for edge in map(made.standby_of, made.devices)] == ["edge-a", "edge-a"]


def test_with_one_edge_there_is_no_standby(tmp_path: Path) -> None:
    first, _, _ = SMALL.partition("[[edges]]")
    edge = '[[edges]]\nname = "edge-a"\naddress = "10.0.0.1"\n[[devices]]\nname = "pi-1"\nhome = "edge-a"\n'
    made = read_description(write(tmp_path, first + edge))
    assert made.standby_of(made.devices[0]) is None
    with pytest.raises(ConfigError, match="expected an edge other than home: there is none"):
        read_description(write(tmp_path, first + edge + 'standby = "edge-a"\n'))


WRONG = {
    "another key": ("[chain]", "[chian]", 'unknown key "chian" .did you mean "chain".'),
    "no name": ('name = "greenhouse"', "", "found name = None, expected small letters"),
    "a large name": ('name = "greenhouse"', 'name = "Green House"', "expected small letters"),
    "another setting": ("planner", "planer", 'unknown key "planer" .did you mean "planner".'),
    "a wrong setting": ('planner = "all-local"', 'partition = "odd"', r"\[settings\]: .*partition"),
    "code to run": (
        '"synthetic"',
        '"module:function"',
        r"found dataset = 'module:function', which is code",
    ),
    "a counted setting": ('hidden = "8"', "devices = 2", r"found devices, which is counted"),
    "no edges": ("[[edges]]", "[[edgs]]", 'unknown key "edgs"'),
    "a key of an edge": ("node-port", "node-prot", 'edges 3: unknown key "node-prot" .did you mean "node-port".'),
    "no address": ('address = "10.0.0.1"\n', "", "edges 1: found no address"),
    "an address with a port": ('"10.0.0.1"', '"10.0.0.1:8545"', "without a port"),
    "a text for a number": ("node-port = 9545", 'node-port = "9545"', "expected a whole number"),
    "a port of two": ("node-port = 9545", "node-port = 8546", "expected 5 different ones"),
    "no port": ("node-port = 9545", "node-port = 0", "expected 5 different ones"),
    "one name twice": ('name = "pi-2"', 'name = "edge-a"', "two machines are called edge-a"),
    "one place twice": ('"10.0.0.3"\nnode-port = 9545', '"10.0.0.1"', "two edges answer at 10.0.0.1"),
    "no home": ('home = "edge-b"', 'home = "edge-d"', "which is no edge .did you mean"),
    "no such standby": (
        'offload = "never"',
        'standby = "edg-a"',
        'found standby = "edg-a", expected an edge other than home .did you mean "edge-a"..: edge-a, edge-c',
    ),
    "home as standby": ('offload = "never"', 'standby = "edge-b"', 'found standby = "edge-b", expected an edge other'),
    "no such consent": ('offload = "never"', 'offload = "edge-x"', "expected any, never, or edges"),
    "a negative rate": ("hashes-per-s = 500", "hashes-per-s = -1", "expected 0 or more"),
    "no difficulty": ("difficulty = 1000", "difficulty = 0", "of 1 or more"),
    "no TOML": ("[chain]", "[chain", "is not TOML"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_with_what_was_found_and_expected(what: str, tmp_path: Path) -> None:
    old, new, told = WRONG[what]
    assert old in SMALL
    with pytest.raises(ConfigError, match=told):
        read_description(write(tmp_path, SMALL.replace(old, new, 1)))
