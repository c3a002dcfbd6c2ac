"""`bfl network node`: a chain node with its doors: the owner's on loopback, the members', and one for auditors."""

import errno
import logging
import os
import re
import socket
import sys
import threading
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from bfl.commands.chain import token
from bfl.commands.network import check_node_url, stop_by_signal
from bfl.config import TOKEN_VARIABLE
from bfl.errors import BflError
from policy.clock import epoch_s
from policy.files import read_bounded_text

if TYPE_CHECKING:
    from chain.client.tls import TlsFiles
    from chain.rpc.server import ServerParams

_SWITCH_S = 0.001
"""Whoever computes lets the others go on: a node has many visitors, and Python lets one at a time"""
_MOST_GENESIS_BYTES = 1 << 16
_HERE = ("127.0.0.1", "localhost", "::1")


def node(
    database: Annotated[Path, typer.Option("--db", help="The node's database file.")] = Path("chain.db"),
    genesis_file: Annotated[
        Path | None, typer.Option("--genesis", help="Rules of the network; needed for a new database.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to answer on; others than this machine need 0.0.0.0, and certificates.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to answer on; 0 takes a free one.")] = 8545,
    owner_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port of the owner's door, on 127.0.0.1 (default: the one after --port)."),
    ] = None,
    auditor_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of a door for auditors, who only read (default: none).")
    ] = None,
    auditor_requests_per_s: Annotated[float, typer.Option(min=0.1, help="Requests per second and auditor.")] = 20.0,
    tls_cert: Annotated[Path | None, typer.Option(help="The node's certificate, bfl:CHAIN-ID:ADDRESS in it.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key.")] = None,
    tls_ca: Annotated[Path | None, typer.Option(help="The authority of the network's certificates.")] = None,
    allow_plain: Annotated[
        bool, typer.Option("--allow-plain", help="Let other machines come without TLS: in a test, behind a tunnel.")
    ] = False,
    peer: Annotated[list[str] | None, typer.Option(help="JSON-RPC address of another node; may be repeated.")] = None,
    peer_token: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL=VARIABLE",
            help="Token of a --peer: the environment variable that has it; may be repeated. A peer without one is sent "
            "none, and none is sent over plain http to another machine.",
        ),
    ] = None,
    requests_per_s: Annotated[float, typer.Option(min=1, help="Requests per second and client.")] = 500.0,
    max_request_mb: Annotated[
        float | None, typer.Option(min=0.1, help="Largest request, in MB (default: a full block fits, at least 32).")
    ] = None,
    max_connections: Annotated[int, typer.Option(min=1, help="Connections at once, in all.")] = 512,
    max_connections_per_address: Annotated[int, typer.Option(min=1, help="Connections at once of one client.")] = 64,
) -> None:
    """Run a node of the chain: JSON-RPC for web3, devices and auditors. BFL_RPC_TOKEN demands a bearer token.

    Members read, post, mine and pass on blocks; proposing is open at the owner's door alone, on this machine.
    """
    from chain.client.tls import TlsClient
    from chain.peers.peers import Peers
    from chain.rpc.doors import MEMBERS, Doorkeeper
    from chain.rpc.server import RpcServer, ServerParams

    stop = stop_by_signal()
    sys.setswitchinterval(_SWITCH_S)
    for each in peer or []:
        check_node_url(each, "--peer")
    tokens = _peer_tokens(peer or [], peer_token or [])
    files = tls_files(tls_cert, tls_key, tls_ca)
    _check_can_listen(host, port)  # what can be refused is, before a database is made
    is_plain_to_others = host not in _HERE and files is None
    if is_plain_to_others and not allow_plain:
        raise BflError(f"found --host {host} without certificates; give --tls-cert, --tls-key and --tls-ca")
    members = ServerParams(
        host,
        port,
        token(),
        requests_per_s=requests_per_s,
        max_connections=max_connections,
        max_connections_per_address=max_connections_per_address,
        doors=MEMBERS,
        tls=files,
        allows_plain=allow_plain,
    )
    doors = _doors(members, owner_port, auditor_port, auditor_requests_per_s)
    if is_plain_to_others and not members.token:
        print(f"warning: {host} is open to others and {TOKEN_VARIABLE} is not set: anybody can post")
    _log_to_terminal()
    with closing(_opened(database, genesis_file)) as running, ExitStack() as stack:
        tls = None if files is None else TlsClient(files, Doorkeeper(running).check_peer)
        peers = Peers(running, peer or [], tokens, tls=tls)
        size = _request_bytes(running, max_request_mb)
        urls = {
            name: stack.enter_context(RpcServer(running, replace(params, max_request_bytes=size), peers.hurry))
            for name, params in doors.items()
        }
        stack.enter_context(peers)
        _introduce(running, urls, database)
        _watch(running, Console(), stop)
    print("stopped")


def _doors(
    members: "ServerParams", owner_port: int | None, auditor_port: int | None, auditor_requests_per_s: float
) -> "dict[str, ServerParams]":
    """The members' door, the owner's on loopback, and one for auditors where it has a port; checked to open."""
    from chain.rpc.doors import AUDITORS, OWNERS

    if owner_port is None:
        owner_port = members.port + 1 if members.port else 0
    doors = {
        "members": members,
        "owner": replace(members, host="127.0.0.1", port=owner_port, doors=OWNERS, tls=None),
    }
    if auditor_port is not None:
        doors["auditors"] = replace(
            members, port=auditor_port, token="", doors=AUDITORS, requests_per_s=auditor_requests_per_s
        )
    for name in doors.keys() - {"members"}:
        _check_can_listen(doors[name].host, doors[name].port)
    return doors


def tls_files(certificate: Path | None, key: Path | None, authority: Path | None) -> "TlsFiles | None":
    """The three files of `--tls-cert`, `--tls-key` and `--tls-ca`: all of them or none; they are read once here."""
    from chain.client.tls import TlsFiles

    if certificate is None or key is None or authority is None:
        if (certificate, key, authority) != (None, None, None):
            raise BflError("found some of --tls-cert, --tls-key and --tls-ca, expected all three or none")
        return None
    files = TlsFiles(certificate, key, authority)
    files.client_context()
    return files


def _peer_tokens(peers: list[str], given: list[str]) -> dict[str, str]:
    """The token of each peer, from the environment: on a command line everybody on this machine could read it."""
    from chain.client.bounded_http import check_token_may_go

    found: dict[str, str] = {}
    for each in given:
        url, _, variable = each.rpartition("=")
        if url not in peers:
            raise BflError("found --peer-token for no --peer, expected URL=VARIABLE with the URL of one")
        found[url] = os.environ.get(variable, "")
        if re.fullmatch(r"[!-~]+", found[url]) is None:  # not shown: somebody may have given the token itself
            raise BflError(f"found no token for {url}; set the variable that its --peer-token names, in visible ASCII")
        check_token_may_go(url, found[url])
    return found


def _check_can_listen(host: str, port: int) -> None:
    """Raise unless the server will be able to answer there; it binds the same way."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, UnicodeError, TypeError) as error:  # the last two: a name that no encoding takes
            raise BflError(_why_not_listening(host, port, error)) from error


def _why_not_listening(host: str, port: int, error: Exception) -> str:
    number = getattr(error, "errno", None)
    if isinstance(error, (socket.gaierror, UnicodeError, TypeError)) or number == errno.EADDRNOTAVAIL:
        return f"found --host {host!r}, expected an address of this machine: choose 127.0.0.1, or 0.0.0.0 for all"
    if number == errno.EADDRINUSE:
        return f"port {port} of {host} is taken; stop what uses it, or choose another --port (0 takes a free one)"
    return (
        f"cannot listen on {host}, port {port} ({getattr(error, 'strerror', error)}); choose another --host or --port"
    )


def _log_to_terminal() -> None:
    """Warnings of everybody; of peers also that one is back."""
    logging.basicConfig(format="%(levelname)s: %(message)s")
    logging.getLogger("chain.peers.peers").setLevel(logging.INFO)


def _introduce(running: Any, urls: dict[str, str], database: Path) -> None:
    head = running.head
    print(f"node of chain {running.genesis.chain_id}: {urls['members']}\nowner's door: {urls['owner']}")
    if "auditors" in urls:
        print(f"auditors' door: {urls['auditors']}")
    print(f"database: {database}\nregistry: 0x{running.genesis.registry.hex()}")
    print(f"head: block {head.block_number} 0x{head.hash.hex()}")
    print("Ctrl-C stops it; everything sealed is on disk.", flush=True)


def _request_bytes(running: Any, megabytes: float | None) -> int:
    """A block of a peer comes as one request, two hexadecimal digits per byte; a byte costs 16 gas."""
    full_block = int(2.2 * running.genesis.gas_limit / 16)
    return max(32 << 20, full_block) if megabytes is None else int(megabytes * 1e6)


def _opened(database: Path, genesis_file: Path | None) -> Any:
    from chain.node.node import Node
    from edge_servers.ledger.block_check import FoundedChecker

    given, checker = None, FoundedChecker()
    if genesis_file is not None:
        if not genesis_file.is_file():
            raise BflError(f"{genesis_file} is no file; make a genesis with: bfl network genesis --founder ADDRESS")
        given = _read_genesis(genesis_file)
    if not database.exists():
        if given is None:
            raise BflError(f"{database} does not exist; a new chain needs --genesis FILE (bfl network genesis)")
        opened = Node.create(database, given, now=epoch_s, check_round=checker)
    else:
        opened = Node.open(database, now=epoch_s, check_round=checker)
    if given is not None and given != opened.genesis:
        opened.close()
        raise BflError(
            f"{database} is of chain {opened.genesis.chain_id}, {genesis_file} of chain {given.chain_id}; "
            "leave out --genesis, or choose another --db"
        )
    return opened


def _read_genesis(path: Path) -> Any:
    from chain.errors import StoreError
    from chain.protocol.genesis import read_genesis

    try:
        return read_genesis(read_bounded_text(path, _MOST_GENESIS_BYTES))
    except (UnicodeDecodeError, StoreError) as error:
        found = str(error).removeprefix("genesis: ")
        raise BflError(f"{path}: {found}; make one with `bfl network genesis`") from error


def _watch(running: Any, console: Console, stop: threading.Event) -> None:
    """Say each new block until told to stop."""
    head = running.head
    while not stop.wait(0.2):
        now = running.head
        if now.hash != head.hash:
            head = now
            winner = f", sealed by 0x{head.winner.hex()}" if head.winner else ""
            console.print(f"block {head.block_number} 0x{head.hash.hex()}{winner}", soft_wrap=True, highlight=False)
