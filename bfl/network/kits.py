"""A kit for each machine (D6): its key, its certificate, where the others are, and what the network was founded with.

    kits/network.toml       as it was described
    kits/operator/          ca.key, ca.crt, founder.json: stays with whoever runs the network
    kits/edge-a/            config.toml key.json tls.key tls.crt ca.crt genesis.json chain.db
    kits/pi-1/              config.toml key.json tls.key tls.crt ca.crt genesis.json

All keys are made here, in one place: a lab's way. Whoever has the folder has the network.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w
from cryptography import x509
from eth_account.signers.local import LocalAccount

from bfl.config import read_toml
from bfl.errors import BflError
from bfl.network.certificates import Authority, check_issued, write_private
from bfl.network.description import Description, EdgeMachine, read_description
from bfl.network.founding import Founded, found_described
from chain.client.keys import address_of, new_account, save_key
from chain.wire.address import Address
from chain.wire.identity import Identity

EDGE, DEVICE = "edge", "device"
_CONFIG, _KEY, _CERTIFICATE, _TLS_KEY, _AUTHORITY = "config.toml", "key.json", "tls.crt", "tls.key", "ca.crt"
_GENESIS, _DATABASE, _OPERATOR, _DESCRIPTION = "genesis.json", "chain.db", "operator", "network.toml"
_OTHERS = 0o077
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Kit:
    """What one machine has of its network."""

    folder: Path
    role: str
    name: str
    index: int
    config: Mapping[str, Any]
    """Everything in `config.toml`."""

    @property
    def key_file(self) -> Path:
        """Its key of the chain."""
        return self.folder / _KEY

    @property
    def database(self) -> Path:
        """Of an edge's node."""
        return self.folder / _DATABASE


class NewKeys:
    """Keys from the operating system's randomness, made as they are asked for."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, int], LocalAccount] = {}

    def account(self, role: str, index: int) -> LocalAccount:
        """The same one each time."""
        if (role, index) not in self._made:
            self._made[role, index] = new_account()
        return self._made[role, index]

    def address(self, role: str, index: int) -> Address:
        """What it signs for."""
        return address_of(self.account(role, index))


def make_kits(
    description_file: Path,
    out: Path,
    password: str,
    now_s: float,
    work: int | None = None,
    allow_plugins: bool = False,
) -> list[str]:
    """Found the network and write everybody's kit; what to tell about it. Made already, nothing is done."""
    description, text = read_description(description_file, allow_plugins), description_file.read_bytes()
    if out.exists():
        return [_made_before(out, text)]
    if not out.absolute().parent.is_dir():
        raise BflError(f"{out.parent} does not exist; make it, or choose another --out")
    with tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=".kits-") as scratch:
        made = Path(scratch) / "kits"
        made.mkdir(mode=0o700)
        _write_all(description, made, password, now_s, work)
        (made / _DESCRIPTION).write_bytes(text)
        made.rename(out)  # half a set of kits is none
    machines = len(description.edges) + len(description.devices)
    return [f"{machines} kits in {out}, and {out / _OPERATOR} for you alone", *description.warnings]


def _made_before(out: Path, text: bytes) -> str:
    made = out / _DESCRIPTION
    if not made.is_file():
        raise BflError(f"{out} exists and has no kits; choose another --out")
    if made.read_bytes() != text:
        raise BflError(f"{out} has the kits of another description ({made}); choose another --out, or remove it")
    return f"the kits of this network are in {out} already"


def _write_all(description: Description, out: Path, password: str, now_s: float, work: int | None) -> None:
    keys, authority, database = NewKeys(), Authority.create(description.name), out / "founded.db"
    founded = found_described(description, keys, database, now_s)
    operator = out / _OPERATOR
    operator.mkdir(mode=0o700)
    authority.save(operator)
    save_key(operator / "founder.json", keys.account("founder", 0), password, work)
    for index, edge in enumerate(description.edges):
        folder = out / edge.name
        shared = _kit(folder, authority, founded, keys.account("server", index), password, work)
        _certify(folder, authority, edge.name, [edge.address, _LOOPBACK], shared)
        shutil.copy(database, folder / _DATABASE)
        own = {"role": EDGE, "name": edge.name, "index": index, "address": edge.address, **_ports(edge)}
        _write_config(folder, description, {**own, **shared, "peers": _places(description, but=edge.name)})
    for index, device in enumerate(description.devices):
        folder = out / device.name
        shared = _kit(folder, authority, founded, keys.account("device", index), password, work)
        _certify(folder, authority, device.name, [_LOOPBACK], shared)
        own = {"role": DEVICE, "name": device.name, "index": index, "home": device.home, "data": device.data}
        own |= {"offload": device.offload, "hashes-per-s": device.hashes_per_s}
        _write_config(folder, description, {**own, **shared, "edges": _places(description)})
    database.unlink()


def _kit(
    folder: Path, authority: Authority, founded: Founded, account: LocalAccount, password: str, work: int | None
) -> dict[str, Any]:
    """What all kits have; returns what their config says of it."""
    folder.mkdir(mode=0o700)
    save_key(folder / _KEY, account, password, work)
    (folder / _AUTHORITY).write_bytes(authority.pem)
    (folder / _GENESIS).write_text(founded.genesis.canonical_json() + "\n", encoding="utf-8")
    return {
        "chain-id": founded.genesis.chain_id,
        "registry": str(founded.genesis.registry),
        "founding-block": "0x" + founded.block_hash.hex(),
        "key-address": str(address_of(account)),
    }


def _certify(folder: Path, authority: Authority, name: str, hosts: list[str], shared: Mapping[str, Any]) -> None:
    issued = authority.issue(name, hosts, Identity(shared["chain-id"], Address(shared["key-address"])))
    (folder / _CERTIFICATE).write_bytes(issued.certificate)
    write_private(folder / _TLS_KEY, issued.key)


def _ports(edge: EdgeMachine) -> dict[str, int]:
    return {"node-port": edge.node_port, "owner-port": edge.owner_port, "devices-port": edge.devices_port}


def _places(description: Description, but: str = "") -> list[dict[str, Any]]:
    """Where the edges are."""
    return [
        {"name": edge.name, "address": edge.address, "node-port": edge.node_port, "devices-port": edge.devices_port}
        for edge in description.edges
        if edge.name != but
    ]


def _write_config(folder: Path, description: Description, content: Mapping[str, Any]) -> None:
    text = tomli_w.dumps({"network": description.name, **content})
    write_private(folder / _CONFIG, text.encode())


# --- reading


def read_kit(folder: Path, role: str) -> Kit:
    """A kit whose files are all there and belong together; `BflError` says which is missing or wrong."""
    config = _read_config(folder / _CONFIG)
    lacking = [key for key in ("role", "name", "index", "chain-id", "key-address") if key not in config]
    if lacking:
        raise BflError(f"{folder / _CONFIG}: found no {lacking[0]}, expected what bfl network init writes")
    if config["role"] != role:
        raise BflError(f"{folder} is the kit of {config.get('role')!s:.20} {config.get('name')!s:.40}, expected {role}")
    names = [_KEY, _CERTIFICATE, _TLS_KEY, _AUTHORITY, _GENESIS] + ([_DATABASE] if role == EDGE else [])
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise BflError(f"{folder}: found no {missing[0]}; copy the whole kit again")
    for name in (_KEY, _TLS_KEY):
        mode = (folder / name).stat().st_mode
        if os.name == "posix" and mode & _OTHERS:
            raise BflError(f"{folder / name} can be read by others (mode {mode & 0o777:o}); run: chmod 600 {folder}/*")
    _check_certificate(folder, config)
    return Kit(folder, role, str(config["name"]), int(config["index"]), config)


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise BflError(f"{path.parent} is no kit: found no {path.name}; make kits with: bfl network init")
    return read_toml(path)


def _check_certificate(folder: Path, config: Mapping[str, Any]) -> None:
    """It is of this network's authority, for this key, and has not run out."""
    try:
        certificate = x509.load_pem_x509_certificate((folder / _CERTIFICATE).read_bytes())
        authority = x509.load_pem_x509_certificate((folder / _AUTHORITY).read_bytes())
    except (OSError, ValueError) as error:
        raise BflError(f"{folder}: {_CERTIFICATE} or {_AUTHORITY} is no certificate ({error})") from error
    uri = f"bfl:{config.get('chain-id')}:{config.get('key-address')}"
    check_issued(certificate, authority, uri, folder / _CERTIFICATE)
