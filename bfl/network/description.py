"""`network.toml`: the machines of a network, who is at home where, and its settings. One file, written by people."""

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from bfl.config import check_keys, check_plugins, read_toml
from bfl.errors import ConfigError
from clients.consent import Consent
from clients.errors import ClientError, ParameterError
from clients.parameters import did_you_mean
from clients.plugins import foreign_plugins, permit
from edge_servers.parameters import CONDITION_KEYS, Settings

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_PAUSES_BELOW = 3
"""So many edges, and the network pauses as soon as one is off"""
_DEPLOYED = {"scheme": "bfl", "deadline-s": 60.0}
"""Where a network on machines differs from a simulation, unless its settings say otherwise"""
RESERVED = "operator"
"""The folder of whoever runs the network, beside those of the machines"""
_COUNTED = ("edges", "devices")
Row = TypeVar("Row")


@dataclass(frozen=True)
class EdgeMachine:
    """An edge PC: a chain node, a Flower SuperLink and an edge server."""

    name: str
    address: str
    """Where the others reach it: an IP address or a host name."""
    node_port: int = 8545
    owner_port: int = 8546
    """On loopback: the door of its own edge server."""
    devices_port: int = 9100
    """Where its devices come: Flower's fleet interface."""
    edge_port: int = 9101
    """Where other edges bring data that was offloaded to it."""
    link_port: int = 9102
    """On loopback: its SuperLink."""

    @property
    def ports(self) -> tuple[int, ...]:
        """All that it listens on."""
        return (self.node_port, self.owner_port, self.devices_port, self.edge_port, self.link_port)


@dataclass(frozen=True)
class DeviceMachine:
    """A Raspberry Pi, a phone or a PC with data."""

    name: str
    home: str
    """Name of the edge that it belongs to."""
    standby: str = ""
    """Name of the edge that it comes to while home is dormant; empty: the next one in the list after home."""
    data: str = ""
    """Folder with its data; empty: its share of the data set of the settings."""
    offload: str = "any"
    """To whom it hands its data: any, never, or names of edges."""
    hashes_per_s: float = 0.0
    """What its miner may take; 0: as much as it can get."""
    node_port: int = 9094
    """On loopback: its SuperNode."""


@dataclass(frozen=True)
class ChainRules:
    """What the genesis block fixes."""

    difficulty: int = 100_000
    """Hashes that a block takes on average."""
    retarget: bool = True
    """Whether the difficulty follows `block_s`."""
    block_s: int = 10


@dataclass(frozen=True)
class Description:
    """A network as its operator describes it."""

    name: str
    edges: tuple[EdgeMachine, ...]
    devices: tuple[DeviceMachine, ...]
    settings: Settings
    chain: ChainRules = field(default_factory=ChainRules)

    @property
    def warnings(self) -> list[str]:
        """What works, and may surprise."""
        few = f"{len(self.edges)} edges: the network pauses while one of them is off; three go on with two"
        homes = Counter(device.home for device in self.devices)
        empty = [edge.name for edge in self.edges if not homes[edge.name]]
        told = [few] if len(self.edges) < _PAUSES_BELOW else []
        return told + [f"{name} is nobody's home: it helps to agree, and learns from nobody" for name in empty]

    def edge_index(self, name: str) -> int:
        """The number m of an edge."""
        return [edge.name for edge in self.edges].index(name)

    def standby_of(self, device: DeviceMachine) -> EdgeMachine | None:
        """Where a device comes while its home is dormant; nowhere in a network of one edge."""
        if device.standby:
            return self.edges[self.edge_index(device.standby)]
        following = self.edges[(self.edge_index(device.home) + 1) % len(self.edges)]
        return following if following.name != device.home else None

    def consent(self, device: DeviceMachine) -> Consent:
        """With the numbers of edges in place of their names."""
        if device.offload in ("any", "never"):
            return Consent(device.offload)
        return Consent(",".join(str(self.edge_index(each.strip())) for each in device.offload.split(",")))


def read_description(path: Path, allow_plugins: bool = False) -> Description:
    """The network in a file; `ConfigError` says what was found where, and what was expected. Code is named by people,
    not by a file (Q4): `allow_plugins` where somebody has said so.
    """
    content = read_toml(path)
    known = ("name", "settings", "chain", "edges", "devices")
    for key in content:
        if key not in known:
            raise ConfigError(f'{path}: unknown key "{key}"{did_you_mean(key, known)}; expected {", ".join(known)}')
    name = content.get("name")
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ConfigError(f"{path}: found name = {name!r:.60}, expected small letters, digits and hyphens")
    edges = read_rows(content.get("edges"), "edges", EdgeMachine, path)
    devices = read_rows(content.get("devices"), "devices", DeviceMachine, path)
    chain = read_row(content.get("chain", {}), ChainRules, f"{path}, [chain]")
    settings = _settings(content.get("settings", {}), len(edges), len(devices), path, allow_plugins)
    made = Description(name, tuple(edges), tuple(devices), settings, chain)
    _check(made, path)
    return made


def read_rows(found: object, key: str, kind: type[Row], path: Path) -> list[Row]:
    """A list of tables, one for each of them."""
    if not isinstance(found, list) or not found:
        raise ConfigError(f"{path}: found no [[{key}]], expected one for each of them, with its name")
    return [read_row(each, kind, f"{path}, {key} {number}") for number, each in enumerate(found, 1)]


def read_row(found: object, kind: type[Row], where: str) -> Row:
    """A table as a frozen dataclass: unknown and missing keys are named, and every value has its type."""
    if not isinstance(found, Mapping):
        raise ConfigError(f"{where}: found {found!r:.60}, expected keys with values")
    known = {each.name.replace("_", "-"): each for each in fields(kind)}  # type: ignore[arg-type]
    for key in found:
        if key not in known:
            raise ConfigError(f'{where}: unknown key "{key}"{did_you_mean(key, known)}; expected {", ".join(known)}')
    missing = [key for key, each in known.items() if each.default is MISSING and key not in found]
    if missing:
        raise ConfigError(f"{where}: found no {missing[0]}, expected one")
    return kind(**{known[key].name: _value(value, known[key].type, f"{where}: {key}") for key, value in found.items()})


def _value(found: Any, kind: Any, where: str) -> Any:
    """A value of the field's type; a whole number will do for a fraction."""
    if kind is float and type(found) is int:
        found = float(found)
    if type(found) is not kind:
        raise ConfigError(f"{where}: found {found!r:.60}, expected {_WORDS[kind]}")
    return found


_WORDS = {str: "a text in quotes", int: "a whole number", float: "a number", bool: "true or false"}


def _settings(found: object, edges: int, devices: int, path: Path, allow_plugins: bool) -> Settings:
    """Those of a network; how many take part is counted."""
    if not isinstance(found, Mapping):
        raise ConfigError(f"{path}: found settings = {found!r:.60}, expected [settings] with keys")
    for key in _COUNTED:
        if key in found:
            raise ConfigError(f"{path}, [settings]: found {key}, which is counted; expected [[{key}]] alone")
    check_keys(found, f"{path}, [settings]")
    for key in CONDITION_KEYS:
        if key in found:
            raise ConfigError(f"{path}, [settings]: found {key}, which is of simulated devices; expected none of it")
    own = foreign_plugins({key: found[key] for key in ("filter", "scheme") if key in found})
    if own:
        key, name = next(iter(own.items()))
        raise ConfigError(
            f"{path}, [settings]: found {key} = {name!r:.200}, code that every node would have to run; expected one of "
            "ours: own filters and schemes are for simulations"
        )
    if not allow_plugins:
        check_plugins(found, f"{path}, [settings]")
    permit(found)
    try:
        return Settings.read({**_DEPLOYED, **found, "edges": edges, "devices": devices})
    except ParameterError as error:
        raise ConfigError(f"{path}, [settings]: {error}") from error


def _check(made: Description, path: Path) -> None:
    machines: Sequence[EdgeMachine | DeviceMachine] = [*made.edges, *made.devices]
    for machine in machines:
        if _NAME.fullmatch(machine.name) is None:
            raise ConfigError(f"{path}: found name {machine.name!r:.60}, expected small letters, digits and hyphens")
    _check_once((machine.name for machine in machines), "two machines are called", path)
    if any(machine.name == RESERVED for machine in machines):
        raise ConfigError(f"{path}: found a machine called {RESERVED}, expected another name: its folder is yours")
    for edge in made.edges:
        _check_edge(edge, path)
    ports = [f"{edge.address}:{port}" for edge in made.edges for port in edge.ports]
    _check_once(ports, "two edges answer at", path)
    homes = [edge.name for edge in made.edges]
    for device in made.devices:
        if device.home not in homes:
            known = f"{did_you_mean(device.home, homes)}; expected one of {', '.join(homes)}"
            raise ConfigError(f'{path}: {device.name} is at home at "{device.home}", which is no edge{known}')
        _check_standby(device, homes, path)
        if not 1 <= device.node_port < 1 << 16:
            raise ConfigError(f"{path}: {device.name}: found node-port = {device.node_port}, expected 1 to 65535")
        if not 0 <= device.hashes_per_s < float("inf"):
            raise ConfigError(f"{path}: {device.name}: found hashes-per-s = {device.hashes_per_s}, expected 0 or more")
        _check_offload(made, device, homes, path)
    if made.chain.difficulty < 1 or made.chain.block_s < 1:
        raise ConfigError(f"{path}, [chain]: expected difficulty and block-s of 1 or more")


def _check_edge(edge: EdgeMachine, path: Path) -> None:
    try:
        ipaddress.ip_address(edge.address)
    except ValueError:
        if _HOST.fullmatch(edge.address) is None:
            raise ConfigError(
                f"{path}: {edge.name}: found address {edge.address!r:.60}, expected an IP address or a host name, "
                "without a port"
            ) from None
    ports = edge.ports
    if not all(1 <= port < 1 << 16 for port in ports) or len(set(ports)) < len(ports):
        raise ConfigError(f"{path}: {edge.name}: found ports {ports}, expected {len(ports)} different ones, 1 to 65535")


def _check_standby(device: DeviceMachine, homes: Sequence[str], path: Path) -> None:
    others = [name for name in homes if name != device.home]
    if device.standby and device.standby not in others:
        expected = (
            f"an edge other than home{did_you_mean(device.standby, others)}: {', '.join(others) or 'there is none'}"
        )
        raise ConfigError(f'{path}: {device.name}: found standby = "{device.standby}", expected {expected}')


def _check_offload(made: Description, device: DeviceMachine, homes: Sequence[str], path: Path) -> None:
    listed = [] if device.offload in ("any", "never") else [each.strip() for each in device.offload.split(",")]
    for each in listed:
        if each not in homes:
            expected = f"any, never, or edges such as {homes[0]}{did_you_mean(each, homes)}"
            raise ConfigError(f'{path}: {device.name}: found offload "{device.offload}", expected {expected}')
    try:
        made.consent(device)
    except ClientError as error:
        raise ConfigError(f"{path}: {device.name}: {error}") from error


def _check_once(names: Iterable[str], told: str, path: Path) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ConfigError(f"{path}: {told} {twice[0]}, expected each once")
