"""A kit (D6): what one machine has of its network. Its keys, its certificate, where the others are, what was founded.

    edge-a/   config.toml key.json tls.key tls.crt ca.crt genesis.json chain.db
    pi-1/     config.toml key.json tls.key tls.crt ca.crt genesis.json flower.key founding.json

Beside them a running machine keeps what it remembers: signed.db or device.json, its log, its SuperLink's database.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import tomli_w
from cryptography import x509

from bfl.config import read_toml
from bfl.errors import BflError
from bfl.network.certificates import check_issued, write_private
from bfl.network.description import read_row, read_rows
from bfl.network.own_keys import FLOWER_KEY, KEY, TLS_KEY
from chain.client.tls import TlsFiles

EDGE, DEVICE = "edge", "device"
RESIDENT, STOCK = "resident", "stock"
"""What carries out a device's orders: a process of ours that stays, or one of Flower's for each (D2)"""
CONFIG, CERTIFICATE, AUTHORITY = "config.toml", "tls.crt", "ca.crt"
GENESIS, DATABASE, FOUNDING = "genesis.json", "chain.db", "founding.json"
JOINED = "token.json"
"""There where a machine has made its own keys, with a token: it is a kit once it has its grant"""
UNUSED = "never-signed"
"""There until a kit is started for the first time: its key has signed nothing yet (D5)"""
_OTHERS = 0o077
_PRIVATE = (KEY, TLS_KEY, FLOWER_KEY)


@dataclass(frozen=True)
class EdgePlace:
    """Where an edge is."""

    name: str
    address: str
    node_port: int
    devices_port: int
    edge_port: int
    key_address: str

    @property
    def edge_url(self) -> str:
        """Where other edges bring data for it."""
        return f"https://{self.host}:{self.edge_port}"

    @property
    def node_url(self) -> str:
        """Of its node's door for members."""
        return f"https://{self.host}:{self.node_port}"

    @property
    def host(self) -> str:
        """As an URL has it."""
        return f"[{self.address}]" if ":" in self.address else self.address


@dataclass(frozen=True)
class KnownDevice:
    """A device that comes to an edge, which is its home or its standby: how its SuperLink knows it."""

    name: str
    index: int
    flower_key: str


@dataclass(frozen=True)
class Common:
    """What every kit's config says."""

    network: str
    role: str
    name: str
    index: int
    chain_id: int
    registry: str
    founding_block: str
    key_address: str


@dataclass(frozen=True)
class EdgeConfig(Common):
    """`config.toml` of an edge PC."""

    address: str
    node_port: int
    owner_port: int
    devices_port: int
    edge_port: int
    link_port: int
    data_dir: str = ""
    """Folder with the files of the network's data set, for its tests; empty: the usual places."""
    rounds: int = 0
    """After so many it ends; 0: never."""
    allow_plugins: bool = False
    """Whether it loads code that the network was founded with as module:function."""
    peers: tuple[EdgePlace, ...] = ()
    devices: tuple[KnownDevice, ...] = ()


@dataclass(frozen=True)
class DeviceConfig(Common):
    """`config.toml` of a device. What its owner may change: data, offload, hashes-per-s, allow-plugins, flower."""

    home: str
    standby: str = ""
    """The edge that it comes to while home is dormant; empty: none."""
    node_port: int = 9094
    data: str = ""
    """Folder with its own data; empty: its part of the network's data set."""
    offload: str = "any"
    """To whom it hands its data: any, never, or numbers of edges such as 0,2."""
    hashes_per_s: float = 0.0
    """What its miner may take; 0: as much as it can get."""
    allow_plugins: bool = False
    """Whether it loads code that the network was founded with as module:function."""
    flower: str = RESIDENT
    edges: tuple[EdgePlace, ...] = ()

    def __post_init__(self) -> None:
        if self.flower not in (RESIDENT, STOCK):
            raise BflError(f"config.toml: found flower = {self.flower!r:.40}, expected {RESIDENT} or {STOCK}")

    @property
    def home_place(self) -> EdgePlace:
        """Where its home is."""
        return self._place("home", self.home)

    @property
    def standby_place(self) -> EdgePlace | None:
        """Where its standby is, if it has one."""
        return self._place("standby", self.standby) if self.standby else None

    def _place(self, key: str, name: str) -> EdgePlace:
        found = [edge for edge in self.edges if edge.name == name]
        if not found:
            names = ", ".join(edge.name for edge in self.edges)
            raise BflError(f"config.toml: found {key} = {name!r}, expected the name of one of its edges: {names}")
        return found[0]


_Config = TypeVar("_Config", EdgeConfig, DeviceConfig)
_LISTS: dict[str, Any] = {"peers": EdgePlace, "edges": EdgePlace, "devices": KnownDevice}


@dataclass(frozen=True)
class Kit:
    """A folder whose files are all there and belong together."""

    folder: Path

    @property
    def key_file(self) -> Path:
        """Its key of the chain."""
        return self.folder / KEY

    @property
    def database(self) -> Path:
        """Of an edge's node."""
        return self.folder / DATABASE

    @property
    def tls(self) -> TlsFiles:
        """How it shows itself to the others."""
        return TlsFiles(self.folder / CERTIFICATE, self.folder / TLS_KEY, self.folder / AUTHORITY)


@dataclass(frozen=True)
class EdgeKit(Kit):
    """That of an edge PC."""

    config: EdgeConfig


@dataclass(frozen=True)
class DeviceKit(Kit):
    """That of a device."""

    config: DeviceConfig


_OF_A_DEVICE = """\
# flower = "stock": orders are carried out as Flower ships it, a process for each, instead of by one that stays. Then
# whatever program this device's edge sends with an order runs here, as this user, beside the key and its password:
# the kit's rules (offload, allow-plugins, one answer to each order) bind the program that an honest edge names, and
# no other. Choose it only where you trust that edge with this device. docs/security.md says more.
"""


def config_text(config: EdgeConfig | DeviceConfig) -> bytes:
    """As the kit has it."""
    told = _OF_A_DEVICE if isinstance(config, DeviceConfig) else ""
    return (told + tomli_w.dumps(_keyed(asdict(config)))).encode()


def _keyed(content: Any) -> Any:
    if isinstance(content, dict):
        return {key.replace("_", "-"): _keyed(value) for key, value in content.items()}
    return [_keyed(each) for each in content] if isinstance(content, (list, tuple)) else content


def write_given(folder: Path, files: Mapping[str, bytes]) -> None:
    """What a machine was given, into its kit."""
    for name, content in files.items():
        write_private(folder / name, content)


def read_kit(folder: Path) -> EdgeKit | DeviceKit:
    """The kit in a folder; `BflError` says which file is missing or wrong."""
    path = folder / CONFIG
    if not path.is_file() and (folder / JOINED).is_file():
        raise BflError(f"{folder} has joined and waits: copy NAME.grant of the operator into it, and start it")
    if not path.is_file():
        raise BflError(f"{folder} is no kit: found no {CONFIG}; make kits with: bfl network init")
    content = read_toml(path)
    role = content.get("role")
    if role not in (EDGE, DEVICE):
        raise BflError(f"{path}: found role = {role!r:.40}, expected {EDGE} or {DEVICE}")
    _check_files(folder, str(role))
    if role == EDGE:
        edge = EdgeKit(folder, _read_config(content, EdgeConfig, path))
        _check_certificate(folder, edge.config)
        return edge
    device = DeviceKit(folder, _read_config(content, DeviceConfig, path))
    _check_certificate(folder, device.config)
    return device


def read_edge_kit(folder: Path) -> EdgeKit:
    """That of an edge PC, and no other."""
    kit = read_kit(folder)
    if not isinstance(kit, EdgeKit):
        raise BflError(f"{folder} is the kit of {kit.config.role} {kit.config.name}, expected an edge's")
    return kit


def read_device_kit(folder: Path) -> DeviceKit:
    """That of a device, and no other."""
    kit = read_kit(folder)
    if not isinstance(kit, DeviceKit):
        raise BflError(f"{folder} is the kit of {kit.config.role} {kit.config.name}, expected a device's")
    return kit


def _read_config(content: dict[str, Any], kind: type[_Config], path: Path) -> _Config:
    lists = {each.name for each in fields(kind)} & _LISTS.keys()
    flat = read_row({key: value for key, value in content.items() if key not in lists}, kind, str(path))
    rows = {key: tuple(read_rows(content[key], key, _LISTS[key], path)) for key in lists if content.get(key)}
    return kind(**{**{each.name: getattr(flat, each.name) for each in fields(kind)}, **rows})


def _check_files(folder: Path, role: str) -> None:
    own = [DATABASE] if role == EDGE else [FLOWER_KEY, FOUNDING]
    missing = [name for name in (KEY, CERTIFICATE, TLS_KEY, AUTHORITY, GENESIS, *own) if not (folder / name).is_file()]
    if missing:
        raise BflError(f"{folder}: found no {missing[0]}; get that file from the operator again")
    for name in _PRIVATE:
        mode = (folder / name).stat().st_mode if (folder / name).exists() else 0
        if os.name == "posix" and mode & _OTHERS:
            raise BflError(f"{folder / name} can be read by others (mode {mode & 0o777:o}); run: chmod 600 {folder}/*")


def _check_certificate(folder: Path, config: Common) -> None:
    """It is of this network's authority, for this key, and has not run out."""
    try:
        certificate = x509.load_pem_x509_certificate((folder / CERTIFICATE).read_bytes())
        authority = x509.load_pem_x509_certificate((folder / AUTHORITY).read_bytes())
    except (OSError, ValueError) as error:
        raise BflError(f"{folder}: {CERTIFICATE} or {AUTHORITY} is no certificate ({error})") from error
    check_issued(certificate, authority, f"bfl:{config.chain_id}:{config.key_address}", folder / CERTIFICATE)
    names = [str(each.value) for each in certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)]
    if names != [config.name]:
        raise BflError(
            f"{folder / CONFIG}: found name = {config.name!r}, expected {names[0] if names else 'one'}, as it was "
            "founded: the others know it by that; only the folder may have another name"
        )
