"""The programs of one machine (D1), with their command lines: what a supervisor starts, and what its units would."""

import errno
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bfl.config import PASSWORD_VARIABLE
from bfl.errors import BflError
from bfl.network.certificates import write_private
from bfl.network.devices.hash_share import SHARE_FILE
from bfl.network.kits import AUTHORITY, CERTIFICATE, CONFIG, DATABASE, STOCK, DeviceKit, EdgeConfig, EdgeKit
from bfl.network.own_keys import FLOWER_KEY, KEY, TLS_KEY
from bfl.network.supervision import Part, Supervisor

if TYPE_CHECKING:
    from clients.standby import Whereabouts

STARTED_BY_FLOWER = ("flower-superexec", "flwr-clientapp")
"""What a stock SuperNode starts once, and what that starts for each order"""
SECRET = "flower.secret"  # noqa: S105 - the name of a file
LINK_DATABASE = "superlink.db"
_LOOPBACK = "127.0.0.1"
_SECRET_BYTES = 32
_ASK_S = 5.0
_PORT_S, _LOOK_S = 5.0, 0.2
_FLOWER_ENV = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "NO_PROXY": "*", "no_proxy": "*"}
"""Machines of a network are reached directly, whatever proxy this one uses"""
_FLOWERS_TALK = r"^INFO|uvicorn|\bINFO\b|EXPERIMENTAL|Invalid destination node ID"
"""What Flower says of every request; the last one of a device that has not been there yet, which its order waits for"""
_AWAY, _TWICE = "Connection attempt failed", "Failed to activate SuperNode"
"""What a SuperNode says of a SuperLink that does not answer, or that has its key online already"""
_CAME_TWICE = "/activate-node][ApiError:2004]"
"""What a SuperLink says of the same"""
_FLOWERS_TALK_OF_AN_END = (
    "Exit Code: 305|Failed to initialize the connection|could not establish a|For more information"
)
"""Around that"""
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
    twice = "a device that is here came a second time: a copy of its kit runs on another machine, or it was just killed"
    return [
        Part("node", node, _env(kit.folder)),
        Part("superlink", link, _env(kit.folder), hides=_FLOWERS_TALK, words={_CAME_TWICE: twice}),
        Part("edge-server", [*_bfl("edge-server"), "."], _env(kit.folder, password), may_end=True),
    ]


def device_parts(kit: DeviceKit, password: str) -> list[Part]:
    """What answers orders, and the miner."""
    node = supernode_part(kit, password, is_at_home=True)
    if kit.config.flower == STOCK:
        return [node, _miner(kit, password)]
    return [node, Part("device", [*_bfl("device-executor"), "."], _env(kit.folder, password)), _miner(kit, password)]


def supernode_part(kit: DeviceKit, password: str, is_at_home: bool) -> Part:
    """The SuperNode of a device, which comes to its home or to its standby."""
    config = kit.config
    edge = config.home_place if is_at_home else config.standby_place or config.home_place
    told = f"at {edge.name}, its home" if edge.name == config.home else f"at {edge.name}, its standby"
    node = [
        find_flower("flower-supernode"), "--superlink", f"{edge.host}:{edge.devices_port}",
        "--root-certificates", AUTHORITY, "--auth-supernode-private-key", FLOWER_KEY,
        "--host", _LOOPBACK, "--port", str(config.node_port),
    ]  # fmt: skip
    away = f"{edge.name} does not answer at {edge.host}:{edge.devices_port}; is it on, is that port open between you?"
    twice = (
        f"{edge.name} has this device running already: does a copy of this kit run on another machine? It belongs on "
        "one, another joins with its own token. If this one was just killed, it is let in within a minute"
    )
    words, hides = {_AWAY: away, _TWICE: twice}, f"{_FLOWERS_TALK}|{_FLOWERS_TALK_OF_AN_END}"
    part = Part("supernode", node, hides=hides, told=told, words=words, most_pause_s=_OFFLINE_S)
    if config.flower == STOCK:
        return _stock(kit, password, part)
    alone = ["--isolation", "process", "--superexec-auth-secret-file", SECRET]
    return replace(part, command=[*node, *alone], env=_env(kit.folder), restarts_with="device")


def _stock(kit: DeviceKit, password: str, part: Part) -> Part:
    """A SuperNode as Flower ships it: what it starts needs the password, and finds Flower's programs by the path."""
    for name in STARTED_BY_FLOWER:
        find_flower(name)
    programs = {"PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))}
    command = [*part.command, "--node-config", 'kit="."']
    return replace(
        part, command=command, env={**_env(kit.folder, password), **programs}, needs_child=STARTED_BY_FLOWER[0]
    )


def _miner(kit: DeviceKit, password: str) -> Part:
    config = kit.config
    miner = [*_bfl("miner"), "--key", KEY, *_TLS, "--share-file", SHARE_FILE]
    for edge in config.edges:
        miner += ["--node", edge.node_url]
    if config.hashes_per_s:
        miner += ["--hashes-per-s", f"{config.hashes_per_s:g}"]
    return Part("miner", miner, _env(kit.folder, password))


def whereabouts(kit: DeviceKit) -> "Whereabouts | None":
    """What watches whether home is dormant; nothing where a device has no standby to go to."""
    config, standby = kit.config, kit.config.standby_place
    if standby is None:
        return None
    from chain.client.asking import web3_over_http  # web3; an edge's supervisor needs none of it
    from chain.client.tls import TlsClient
    from chain.wire.address import Address
    from chain.wire.identity import Identity
    from clients.standby import Whereabouts, dormancy_at, only

    registry = bytes.fromhex(config.registry.removeprefix("0x"))
    nodes = []
    for edge in config.edges:
        tls = TlsClient(kit.tls, only(Identity(config.chain_id, Address(edge.key_address))))
        nodes.append(dormancy_at(web3_over_http(edge.node_url, timeout_s=_ASK_S, tls=tls), registry))
    return Whereabouts(nodes, Address(config.home_place.key_address), Address(standby.key_address))


def follow_home(kit: DeviceKit, password: str, supervisor: Supervisor, stop: threading.Event) -> None:
    """Restart the SuperNode of a running machine against its standby while home is dormant, and then against home."""
    watched, config = whereabouts(kit), kit.config
    if watched is None:
        return

    def moved(is_at_home: bool) -> None:
        why = f"{config.home} is no longer dormant" if is_at_home else f"home, {config.home}, is dormant"
        part = supernode_part(kit, password, is_at_home)
        supervisor.say("supernode", f"{why}, most of the edges say: from now on {part.told}")
        supervisor.exchange(part)

    watched.follow(stop, moved)


def check_ports(kit: EdgeKit | DeviceKit) -> None:
    """Raise `BflError` unless this machine can listen where its kit says; what has just ended may still hold a port."""
    own, config = f", or choose another one in {kit.folder / CONFIG}", kit.config
    if isinstance(config, EdgeConfig):
        kept, host = ": the others come to this port", bind_address(config.address)
        wanted = [(host, port, kept) for port in (config.node_port, config.devices_port, config.edge_port)]
        wanted += [(_LOOPBACK, port, own) for port in (config.owner_port, config.link_port)]
    else:
        wanted = [(_LOOPBACK, config.node_port, own)]
    end = time.monotonic() + _PORT_S
    for host, port, advice in wanted:
        while trouble := _trouble(host, port):
            if trouble == errno.EADDRNOTAVAIL:
                raise BflError(
                    f"found no address {host} on this machine, expected the one in {kit.folder / CONFIG}, to which the "
                    "others come; give it to this machine again (a fixed address), or found the network anew"
                )
            if time.monotonic() > end:
                told = "is taken" if trouble == errno.EADDRINUSE else f"cannot be used ({os.strerror(trouble)})"
                raise BflError(f"port {port} of {host} {told}; stop what uses it (`ss -ltnp` names it){advice}")
            time.sleep(_LOOK_S)


def _trouble(host: str, port: int) -> int:
    """Why nobody can listen there, as a number of the system; 0 where it works."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.errno or errno.EINVAL
    return 0


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
