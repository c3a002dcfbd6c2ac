"""The programs of one machine (D1), with their command lines: what a supervisor starts, and what its units would."""

import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

from bfl.config import PASSWORD_VARIABLE
from bfl.errors import BflError
from bfl.network.certificates import write_private
from bfl.network.kits import AUTHORITY, CERTIFICATE, DATABASE, DeviceKit, EdgeKit
from bfl.network.own_keys import FLOWER_KEY, KEY, TLS_KEY
from bfl.network.supervision import Part

SECRET = "flower.secret"  # noqa: S105 - the name of a file
LINK_DATABASE = "superlink.db"
_LOOPBACK = "127.0.0.1"
_SECRET_BYTES = 32
_FLOWER_ENV = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "NO_PROXY": "*", "no_proxy": "*"}
"""Machines of a network are reached directly, whatever proxy this one uses"""
_FLOWERS_TALK = r"^INFO|uvicorn|\bINFO\b|EXPERIMENTAL|Invalid destination node ID"
"""What Flower says of every request; the last one of a device that has not been there yet, which its order waits for"""
_OFFLINE_S = 8.0
"""A SuperNode that was killed is refused until its SuperLink has missed the old one for a minute (exit code 305)"""
_TLS = ("--tls-cert", CERTIFICATE, "--tls-key", TLS_KEY, "--tls-ca", AUTHORITY)


def edge_parts(kit: EdgeKit, password: str) -> list[Part]:
    """Node, SuperLink, edge server; each depends on those before it."""
    config = kit.config
    node = [
        *_bfl("node"), "--db", DATABASE, "--host", bind_address(config.address), "--port", str(config.node_port),
        "--owner-port", str(config.owner_port), *_TLS,
    ]  # fmt: skip
    for peer in config.peers:
        node += ["--peer", peer.node_url]
    link = [
        find_flower("flower-superlink"), "--host", _LOOPBACK, "--port", str(config.link_port),
        "--database", LINK_DATABASE, "--isolation", "process", "--disable-runtime-dependency-installation",
        "--superexec-auth-secret-file", SECRET, "--enable-supernode-auth",
        "--ssl-certfile", CERTIFICATE, "--ssl-keyfile", TLS_KEY, "--ssl-ca-certfile", AUTHORITY,
    ]  # fmt: skip
    return [
        Part("node", node, _env(kit.folder)),
        Part("superlink", link, _env(kit.folder), hides=_FLOWERS_TALK),
        Part("edge-server", [*_bfl("edge-server"), "."], _env(kit.folder, password), may_end=True),
    ]


def device_parts(kit: DeviceKit, password: str) -> list[Part]:
    """SuperNode, executor, miner."""
    config, home = kit.config, kit.config.home_place
    node = [
        find_flower("flower-supernode"), "--superlink", f"{home.host}:{home.devices_port}",
        "--root-certificates", AUTHORITY, "--auth-supernode-private-key", FLOWER_KEY, "--isolation", "process",
        "--host", _LOOPBACK, "--port", str(config.node_port), "--superexec-auth-secret-file", SECRET,
    ]  # fmt: skip
    miner = [*_bfl("miner"), "--key", KEY, *_TLS]
    for edge in config.edges:
        miner += ["--node", edge.node_url]
    if config.hashes_per_s:
        miner += ["--hashes-per-s", f"{config.hashes_per_s:g}"]
    return [
        Part("supernode", node, _env(kit.folder), hides=_FLOWERS_TALK, restarts_with="device", most_pause_s=_OFFLINE_S),
        Part("device", [*_bfl("device-executor"), "."], _env(kit.folder, password)),
        Part("miner", miner, _env(kit.folder, password)),
    ]


def read_secret(folder: Path) -> bytes:
    """What a machine's Flower and its executor know, and nobody else; made once."""
    path = folder / SECRET
    if path.exists() and not path.stat().st_size:  # of a start that was killed here
        path.unlink()
    if not path.exists():
        write_private(path, secrets.token_bytes(_SECRET_BYTES))
    return path.read_bytes()


def _bfl(command: str) -> list[str]:
    return [sys.executable, "-m", "bfl", "network", command]


def find_flower(name: str) -> str:
    """A program of Flower's, from beside this Python."""
    path = Path(sys.executable).with_name(name)
    if not path.is_file():
        raise BflError(f"found no {name} beside {sys.executable}; install bfl there with pip")
    return str(path)


def bind_address(address: str) -> str:
    """Where to listen so that others reach this address: a host name may be anybody's."""
    is_ip = address.replace(".", "").isdecimal() or ":" in address
    return address if is_ip else "0.0.0.0"  # noqa: S104 - the door asks for certificates


def _env(folder: Path, password: str = "") -> Mapping[str, str]:
    secret = {PASSWORD_VARIABLE: password} if password else {PASSWORD_VARIABLE: ""}
    return {**_FLOWER_ENV, "FLWR_HOME": str(folder.absolute() / "flwr"), "PYTHONUNBUFFERED": "1", **secret}
