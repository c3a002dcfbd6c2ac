"""What the founding block says of a network (P2): enough for an auditor to replay every round from the chain alone."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from functools import cache, cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from chain.errors import CodecError
from chain.protocol.contract import PayloadSizes, RegistryTerms
from chain.wire.address import Address
from chain.wire.codec import encoded_size
from chain.wire.documents import canonical_json, read_canonical_json
from clients.consent import Consent
from clients.errors import ClientError
from clients.founded_work import FoundedWork
from clients.parameters import DataParams, TrainingParams, key_of
from clients.root_set import KEY
from edge_servers.errors import EdgeError, FederationError
from edge_servers.founding.code import read_code
from edge_servers.founding.network import DeviceRecord, Network
from edge_servers.founding.origin import Origin, read_origin
from edge_servers.learning.gossip import WEIGHT_BITS
from edge_servers.learning.graph import Graph, components
from edge_servers.parameters import ConditionParams, RoundParams, Settings

if TYPE_CHECKING:
    from torch import nn

# What a run may change without becoming another network: how long it is, where its data lies, how it computes.
_NOT_WRITTEN = ("rounds", "data-dir", "threads", "engine", "chunk", "evaluate-every", "nodes", "keep-payloads")
_KIND = "founding"
_KEYS = ("kind", "settings", "servers", "devices", "graph", "sample-bytes", "weight", "tensors")
_DOCUMENT_BYTES = 8192
_PLAN_BYTES, _STRIKE_BYTES = 256, 16
"""Of a plan, per training node, at most; and of what is held against it, per strike and for its head"""
_CLOSE_BYTES = 256
"""Of a closed list, per training node, at most: a hash, a refusal"""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ADDRESS = re.compile(r"0x[0-9a-f]{40}")
Tensors = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class FoundingParameters:
    """The settings, the participants and the form of the model."""

    settings: Settings
    network: Network
    tensors: Tensors
    sample_bytes: int
    """Of one sample, as the latency model counts data: with it anybody knows D_n of any round (P22)."""
    origin: Origin | None = None
    """Where model 0 came from, where another network stood before."""
    code: Mapping[str, str] = field(default_factory=dict)
    """sha256 of filters and schemes that are not ours, by kind and name (edge_servers/founding/code.py)."""
    root: str = ""
    """sha256 of the root set by which filters judge, where they do (clients/root_set.py)."""

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Values of each tensor, as the codec wants them."""
        return tuple(prod(shape) for _, shape in self.tensors)

    @cached_property
    def payload_sizes(self) -> PayloadSizes:
        """How large the payloads of a round are: exact for numbers, at most for documents (B2)."""
        nodes, strikes = len(self.network.devices) + len(self.network.servers), self.settings.rounds.reputation
        held = _STRIKE_BYTES * (strikes + 3) if strikes else 0
        return PayloadSizes(
            gradient=encoded_size(self.sizes, self.settings.rounds.codec),
            iterate=encoded_size(self.sizes, "int32"),
            model=encoded_size(self.sizes, "fp32"),
            plan=_DOCUMENT_BYTES + (_PLAN_BYTES + held) * nodes,
            close=_DOCUMENT_BYTES + _CLOSE_BYTES * nodes,
        )

    @property
    def work(self) -> FoundedWork:
        """What a device is told when it joins: with it, it can tell an order that was founded from any other (Q5)."""
        data, training, rounds = self.settings.data, self.settings.training, self.settings.rounds
        return FoundedWork(
            seed=data.seed,
            iterations=training.iterations,
            batch=training.batch,
            learning_rate=training.learning_rate,
            optimizer=training.optimizer,
            codec=rounds.codec,
            deadline_s=rounds.deadline_s,
            shares=tuple(device.samples for device in self.network.devices),
            sample_bytes=self.sample_bytes,
            draws_samples=data.data_per_round == "state",
            plan_bytes=self.payload_sizes.plan,
        )

    def encode(self) -> bytes:
        """The founding parameters: canonical JSON."""
        network = self.network
        return canonical_json(
            {
                "kind": _KIND,
                "settings": founding_settings(self.settings),
                "servers": [str(server) for server in network.servers],
                "devices": [_device_row(device) for device in network.devices],
                "graph": sorted([i, j] for i, j in network.graph.edges),
                "sample-bytes": self.sample_bytes,
                "weight": network.weight,
                "tensors": [[name, list(shape)] for name, shape in self.tensors],
                **({} if self.origin is None else {"origin": self.origin.content}),
                **({"code": dict(self.code)} if self.code else {}),
                **({"root": self.root} if self.root else {}),
            }
        )


def _device_row(device: DeviceRecord) -> list[str | int]:
    """A device as it is written; one without a standby has no word for it."""
    row: list[str | int] = [str(device.address), device.home, device.samples, device.consent.text]
    return row if device.standby is None else [*row, device.standby]


def founding_settings(settings: Settings) -> dict[str, Any]:
    """The settings that make a network what it is."""
    flat = Settings(settings.rounds, settings.data, settings.training, conditions=settings.conditions).flat()
    not_written = _NOT_WRITTEN if settings.root_set else (*_NOT_WRITTEN, KEY)  # where nobody judges, it says nothing
    return {key: value for key, value in flat.items() if key not in not_written and _later().get(key) != value}


@cache
def _later() -> dict[str, object]:
    """Settings that foundings of before know nothing of, with their defaults, which are not written."""
    parts = (RoundParams, DataParams, TrainingParams, ConditionParams)
    return {
        key_of(each.name): each.default
        for part in parts
        for each in dataclass_fields(part)
        if each.metadata["only_if_set"]
    }


def registry_terms(rounds: RoundParams) -> RegistryTerms:
    """What the registry of a network with these settings is deployed with."""
    return RegistryTerms(
        term_cap=rounds.term_cap,
        flag_window=rounds.flag_window,
        exclusion_rounds=rounds.exclusion_rounds,
    )


def tensors_of(architecture: "nn.Module") -> Tensors:
    """Names and shapes of the model's tensors, in the order of its vector."""
    return tuple((name, tuple(parameter.shape)) for name, parameter in architecture.named_parameters())


def read_founding_parameters(parameters: bytes) -> FoundingParameters:
    """The reverse of `FoundingParameters.encode`; `FederationError` says what is wrong."""
    try:
        content: Mapping[str, Any] = read_canonical_json(parameters)
        missing = [key for key in _KEYS if key not in content]
        if missing or content["kind"] != _KIND:
            raise ValueError(f"found no {', '.join(missing)}")
        servers: Sequence[str] = content["servers"]
        devices = tuple(
            DeviceRecord(n, _address(address), int(home), int(samples), Consent(consent), *map(int, standby))
            for n, (address, home, samples, consent, *standby) in enumerate(content["devices"])
        )
        graph = Graph(len(servers), frozenset((int(i), int(j)) for i, j in content["graph"]))
        network = Network(tuple(map(_address, servers)), devices, graph, int(content["weight"]))
        tensors = tuple((str(name), tuple(map(int, shape))) for name, shape in content["tensors"])
        settings = Settings.read(content["settings"])
        founding = FoundingParameters(
            settings, network, tensors, int(content["sample-bytes"]), read_origin(content.get("origin")),
            read_code(content.get("code", {}), settings), _root(content.get("root", "")),
        )  # fmt: skip
        _check_network(network)
        _check_settings(founding)
        if founding.encode() != parameters:
            raise ValueError("they would be written otherwise")
        return founding
    except (CodecError, ClientError, EdgeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise FederationError(f"the founding parameters are not those of a network of ours: {error}") from error


def _root(found: object) -> str:
    if not isinstance(found, str) or (found and not _DIGEST.fullmatch(found)):
        raise ValueError("found a root set without a digest")
    return found


def _check_settings(founding: FoundingParameters) -> None:
    """Raise `ValueError` for settings of another network: whoever replays makes graphs of their size."""
    found = founding.settings.rounds.edges, founding.settings.data.devices
    expected = len(founding.network.servers), len(founding.network.devices)
    if found != expected or not founding.settings.rounds.is_on_chain:
        raise ValueError(f"found settings of {found[0]} servers and {found[1]} devices, expected {expected} on a chain")


def _address(found: object) -> Address:
    if not isinstance(found, str) or not _ADDRESS.fullmatch(found):
        raise ValueError("found impossible addresses")
    return Address(found)


def _check_network(network: Network) -> None:
    """Raise `FederationError` for participants that cannot be."""
    addresses = [*network.servers, *(device.address for device in network.devices)]
    servers = len(network.servers)
    checks = {
        "addresses": len(set(addresses)) == len(addresses),
        "homes": all(0 <= device.home < servers for device in network.devices),
        "standbys": all(
            device.standby is None or (0 <= device.standby < servers and device.standby != device.home)
            for device in network.devices
        ),
        "samples": all(device.samples > 0 for device in network.devices),
        "graph": all(0 <= i < j < servers for i, j in network.graph.edges) and len(components(network.graph)) == 1,
        "weight": 0 < network.weight < 1 << WEIGHT_BITS or (servers == 1 and network.weight == 0),
    }
    for name, holds in checks.items():
        if not holds:
            raise FederationError(f"found impossible {name}")
