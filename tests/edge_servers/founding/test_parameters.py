"""The founding parameters: a network that is written is read back, and nothing else is taken for one."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from bfl.config import AttackParams, RunSettings
from chain.wire.codec import PayloadKind, encode_floats, encode_iterate
from chain.wire.documents import canonical_json
from clients.consent import Consent
from clients.parameters import DataParams, TrainingParams
from edge_servers.errors import FederationError
from edge_servers.founding.network import DeviceRecord, Network, simulated_address
from edge_servers.founding.parameters import FoundingParameters, founding_settings, read_founding_parameters, tensors_of
from edge_servers.learning.graph import make_graph
from edge_servers.parameters import RoundParams, Settings

SETTINGS = RunSettings(
    RoundParams(rounds=7, edges=3, graph="ring", phi="auto:3", filter="krum+norm-clip:2.5", nodes=3),
    DataParams(devices=4, seed=5, data_dir="/somewhere"),
    TrainingParams(hidden="8,4", learning_rate=0.05, threads=2),
    AttackParams("x@1"),
)
NETWORK = Network(
    tuple(simulated_address(5, "server", m) for m in range(3)),
    tuple(
        DeviceRecord(n, simulated_address(5, "device", n), n % 3, 40 + n, Consent(("any", "never", "0,2", "1")[n]))
        for n in range(4)
    ),
    make_graph("ring", 3),
    1365,
)
ARTICLES = FoundingParameters(SETTINGS, NETWORK, tensors_of(torch.nn.Linear(5, 2)), 784)


def content() -> dict[str, Any]:
    """The parameters as the founding block has them."""
    read: dict[str, Any] = json.loads(ARTICLES.encode())
    return read


def test_a_network_is_read_back_as_it_was_founded() -> None:
    found = read_founding_parameters(ARTICLES.encode())
    assert found.network == NETWORK
    assert found.tensors == ARTICLES.tensors == (("weight", (2, 5)), ("bias", (2,)))
    assert found.sizes == (10, 2)
    assert found.encode() == ARTICLES.encode()


def test_a_standby_is_written_where_there_is_one() -> None:
    """Chains that were founded without are read as they are."""
    first, *others = NETWORK.devices
    network = replace(NETWORK, devices=(replace(first, standby=2), *others))
    founded = FoundingParameters(SETTINGS, network, ARTICLES.tensors, 784)
    rows = json.loads(founded.encode())["devices"]
    assert [len(row) for row in rows] == [5, 4, 4, 4]
    assert rows[0][4] == 2
    assert read_founding_parameters(founded.encode()).network == network


LATER = (
    "label-column", "group-column", "drop-columns", "header", "class-names", "image-size", "hardness", "device-speeds",
    "dropout", "availability", "reputation", "reputation-window", "reputation-rounds",
)  # fmt: skip


def test_settings_that_came_later_are_written_only_where_they_are_set() -> None:
    """So a network that does not use them has the bytes of before."""
    data = replace(SETTINGS.data, label_column="quality", hardness=0.25)
    written = founding_settings(replace(SETTINGS, data=data))
    assert written == founding_settings(SETTINGS) | {"label-column": "quality", "hardness": 0.25}
    assert Settings.read(written).data == replace(data, data_dir="")


def test_what_a_run_may_change_is_not_written_and_everything_else_is() -> None:
    free = {"rounds", "data-dir", "threads", "engine", "chunk", "evaluate-every", "nodes", "keep-payloads", "attack"}
    free |= set(LATER)
    assert set(SETTINGS.flat()) - set(founding_settings(SETTINGS)) == {*free, "root-set"}, "where nobody judges"
    judged = replace(SETTINGS, rounds=replace(SETTINGS.rounds, filter="loss"))
    assert set(judged.flat()) - set(founding_settings(judged)) == free
    found = read_founding_parameters(ARTICLES.encode()).settings
    assert founding_settings(found) == founding_settings(SETTINGS)
    assert (found.rounds.rounds, found.rounds.nodes, found.data.data_dir) == (100, 1, "")  # the defaults


@pytest.mark.parametrize(("codec", "gradient"), [("fp32", 48), ("fp16", 24), ("int8", 12 + 2 * 4)])
def test_payloads_have_the_sizes_that_tensors_codec_and_participants_give(codec: str, gradient: int) -> None:
    """Ten weights and two biases behind a header; of int8 every tensor has a scale. Documents grow with the nodes."""
    settings = Settings.read({**SETTINGS.flat(), "codec": codec})
    sizes = FoundingParameters(settings, NETWORK, ARTICLES.tensors, 784).payload_sizes
    values = np.zeros(12, np.float32)
    assert sizes.gradient == len(encode_floats(values, (10, 2), codec))
    assert sizes.iterate == len(encode_iterate(values.astype(np.int32), (10, 2)))
    assert sizes.model == len(encode_floats(values, (10, 2), "fp32", PayloadKind.MODEL))
    header = sizes.iterate - 48
    assert (sizes.gradient, sizes.model) == (header + gradient, header + 48)
    more = replace(NETWORK, devices=(*NETWORK.devices, *NETWORK.devices))
    larger = FoundingParameters(settings, more, ARTICLES.tensors, 784).payload_sizes
    assert larger[:3] == sizes[:3]
    assert larger.plan > sizes.plan
    assert larger.close > sizes.close


def test_a_document_of_another_kind_is_refused() -> None:
    with pytest.raises(FederationError, match="not those of a network of ours"):
        read_founding_parameters(canonical_json({**content(), "kind": "plan"}))


@pytest.mark.parametrize("change", [{"seed": 6}, {"learning-rate": 0.06}, {"phi": "4"}, {"codec": "fp32"}])
def test_another_setting_makes_another_network(change: dict[str, Any]) -> None:
    other = Settings.read({**SETTINGS.flat(), **change})
    assert FoundingParameters(other, NETWORK, ARTICLES.tensors, 784).encode() != ARTICLES.encode()


@pytest.mark.parametrize("key", ["kind", "settings", "servers", "devices", "graph", "weight", "tensors"])
def test_parameters_without_one_of_their_parts_are_refused(key: str) -> None:
    with pytest.raises(FederationError, match="not those of a network of ours"):
        read_founding_parameters(canonical_json({name: value for name, value in content().items() if name != key}))


@pytest.mark.parametrize("key", ["devices", "graph", "tensors"])
@pytest.mark.parametrize("value", [None, True, "text", [[1]], {"a": 1}])
def test_parts_of_another_form_are_refused(key: str, value: Any) -> None:
    with pytest.raises(FederationError, match="not those of a network of ours"):
        read_founding_parameters(canonical_json({**content(), key: value}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("settings", value) for value in ("text", [[1]], {"a": 1}, {})),
        *(("servers", value) for value in ("text", [[1]], {"a": 1})),
        ("weight", True),
        ("extra", 1),
    ],
)
def test_what_would_be_written_otherwise_is_refused(key: str, value: Any) -> None:
    with pytest.raises(FederationError, match="not those of a network of ours"):
        read_founding_parameters(canonical_json({**content(), key: value}))


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("devices", lambda devices: [[devices[0][0], 3, *devices[0][2:]], *devices[1:]]),  # the home of none of three
        ("devices", lambda devices: [[devices[0][0], -1, *devices[0][2:]], *devices[1:]]),
        ("devices", lambda devices: [[*devices[0][:2], 0, devices[0][3]], *devices[1:]]),  # no samples
        ("devices", lambda devices: [[*devices[0], 3], *devices[1:]]),  # the standby of none of three
        ("devices", lambda devices: [[*devices[0], -1], *devices[1:]]),
        ("devices", lambda devices: [[*devices[0], 0], *devices[1:]]),  # home itself
        ("devices", lambda devices: [[*devices[0], 1, 2], *devices[1:]]),  # two of them
        ("devices", lambda devices: [[*devices[0], None], *devices[1:]]),
        ("servers", lambda servers: servers[:2] + servers[:1]),
        ("servers", lambda servers: ["0xab", *servers[1:]]),
        ("servers", lambda servers: []),
        ("graph", lambda graph: [[0, 3], *graph]),
        ("graph", lambda graph: [[0, 1]]),
        ("weight", lambda weight: 0),
        ("weight", lambda weight: 4096),
    ],
)
def test_participants_that_cannot_be_are_refused(key: str, change: Callable[[Any], Any]) -> None:
    spoiled = content()
    with pytest.raises(FederationError, match="not those of a network of ours"):
        read_founding_parameters(canonical_json({**spoiled, key: change(spoiled.get(key))}))


def test_settings_that_are_missing_are_not_made_up() -> None:
    """A replay with a default in place of what the network was founded with would accuse everybody."""
    spoiled = content()
    del spoiled["settings"]["learning-rate"]
    with pytest.raises(FederationError, match="not those of a network of ours"):
        read_founding_parameters(canonical_json(spoiled))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("scheme", "bfl2"),
        ("phi", "five"),
        ("learning-rate", -1.0),
        ("edges", "three"),
        ("gradient-bound", 1e9),
    ],
)
def test_settings_that_cannot_be_are_refused(key: str, value: Any) -> None:
    spoiled = content()
    spoiled["settings"][key] = value
    with pytest.raises(FederationError, match="not those of a network of ours"):
        read_founding_parameters(canonical_json(spoiled))


@pytest.mark.parametrize("consent", ["sometimes", "1,", None, 3])
def test_a_consent_that_is_none_is_refused(consent: Any) -> None:
    spoiled = content()
    spoiled["devices"][0][3] = consent
    with pytest.raises(FederationError):
        read_founding_parameters(canonical_json(spoiled))


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xff", b"[]", b"null", b"3", b"{}", b"[" * 100_000, ARTICLES.encode() + b" ", ARTICLES.encode()[:-1]],
)
def test_bytes_that_are_no_founding_parameters_are_refused(payload: bytes) -> None:
    with pytest.raises(FederationError):
        read_founding_parameters(payload)


def test_a_number_beyond_all_bounds_is_refused() -> None:
    spoiled = ARTICLES.encode().replace(b'"weight":1365', b'"weight":1e999')
    with pytest.raises(FederationError):
        read_founding_parameters(spoiled)


@pytest.mark.parametrize(
    "change",
    [{"edges": 50, "graph": "complete"}, {"scheme": "fedavg", "edges": 10**6, "graph": "complete"}, {"devices": 10**9},
     {"scheme": "fedavg"}],
)  # fmt: skip
def test_settings_of_another_network_than_the_participants_are_refused(change: dict[str, Any]) -> None:
    """Whoever replays makes a graph of `edges` servers: a million of them, complete, never end."""
    spoiled = content()
    spoiled["settings"] |= change
    with pytest.raises(FederationError, match=r"found settings of .* servers and .* devices, expected"):
        read_founding_parameters(canonical_json(spoiled))
