"""`bfl network ...`: parts of a real deployment. Here: keys, a genesis, and a chain node."""

import errno
import getpass
import logging
import os
import re
import secrets
import signal
import socket
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.console import Console

from bfl.commands.chain import token
from bfl.commands.command import Command
from bfl.config import PASSWORD_VARIABLE, TOKEN_VARIABLE
from bfl.errors import BflError
from policy.files import read_bounded_text

_SWITCH_S = 0.001
"""Whoever computes lets the others go on: a node has many visitors, and Python lets one at a time"""

app = typer.Typer(no_args_is_help=True, help="Run the system on real machines.")
_MOST_GENESIS_BYTES = 1 << 16


@app.command(cls=Command)
def key(out: Annotated[Path, typer.Argument(help="Key file to make (keystore v3).")]) -> None:
    """Make a participant's key. The password comes from the terminal, or from BFL_KEY_PASSWORD."""
    from chain.client.keys import new_account, save_key

    password = os.environ.get(PASSWORD_VARIABLE) or asked_password()
    account = new_account()
    save_key(out, account, password)
    print(f"address: {account.address}\nkey file: {out} (keep it, and its password; nobody can restore either)")


def asked_password(is_new: bool = True) -> str:
    """A password from the terminal; a new one is asked for twice."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise BflError(f"found no terminal to ask for a password; set {PASSWORD_VARIABLE}, or run it in a terminal")
    try:
        password = getpass.getpass("password: ")
        if not is_new or password == getpass.getpass("again: "):
            return password
    except EOFError as error:
        raise BflError(f"no password was given; type one, or set {PASSWORD_VARIABLE}") from error
    raise BflError("the two passwords differ")


@app.command(cls=Command)
def genesis(
    founder: Annotated[str, typer.Option(help="Address of the key that will found the network.")],
    out: Annotated[Path, typer.Option(help="File to make.")] = Path("genesis.json"),
    devices: Annotated[int, typer.Option(min=1, help="Devices, for the gas limit.")] = 10,
    edges: Annotated[int, typer.Option(min=1, help="Edge servers, for the gas limit.")] = 3,
    phi: Annotated[int, typer.Option(min=0, help="Consensus rounds, for the gas limit.")] = 5,
    difficulty: Annotated[int, typer.Option(min=1, help="Hashes a block takes on average.")] = 1_000_000,
    retarget: Annotated[bool, typer.Option("--retarget", help="Adapt the difficulty to --block-s.")] = False,
    block_s: Annotated[int, typer.Option(min=1, help="Seconds between blocks that --retarget aims at.")] = 60,
) -> None:
    """Write the rules of a new network; every node starts from the same file."""
    from chain.protocol.genesis import FIXED, RETARGET, Genesis, block_gas

    if re.fullmatch(r"0x[0-9a-fA-F]{40}", founder) is None:
        raise BflError(f"found --founder {founder!r}, expected an address: 0x and 40 hexadecimal digits")
    calls = 2 * devices + edges * (phi + 4) + 4
    made = Genesis(
        chain_id=secrets.randbelow(2**31) + 2**16,
        founder=founder.lower(),
        timestamp=int(time.time()),
        gas_limit=block_gas(calls),
        difficulty=difficulty,
        difficulty_rule=RETARGET if retarget else FIXED,
        block_s=block_s,
    )
    _write_new(out, made.canonical_json() + "\n")
    print(f"chain id {made.chain_id}, genesis hash 0x{made.header.hash.hex()}, registry 0x{made.registry.hex()}\n{out}")


def _write_new(out: Path, text: str) -> None:
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise BflError(f"{out} exists; a genesis is never overwritten; choose another --out") from error
    except FileNotFoundError as error:
        raise BflError(f"{out.parent} does not exist; make it, or choose another --out") from error
    except OSError as error:
        raise BflError(f"{out} cannot be written ({error.strerror}); choose another --out") from error


@app.command(cls=Command)
def node(
    database: Annotated[Path, typer.Option("--db", help="The node's database file.")] = Path("chain.db"),
    genesis_file: Annotated[
        Path | None, typer.Option("--genesis", help="Rules of the network; needed for a new database.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to answer on; others than this machine need 0.0.0.0.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to answer on; 0 takes a free one.")] = 8545,
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
    """Run a node of the chain: JSON-RPC for web3, devices and auditors. BFL_RPC_TOKEN demands a bearer token."""
    from chain.peers.peers import Peers
    from chain.rpc.server import RpcServer, ServerParams

    stop = stop_by_signal()
    sys.setswitchinterval(_SWITCH_S)
    for each in peer or []:
        check_node_url(each, "--peer")
    tokens = _peer_tokens(peer or [], peer_token or [])
    params = ServerParams(
        host,
        port,
        token(),
        requests_per_s=requests_per_s,
        max_connections=max_connections,
        max_connections_per_address=max_connections_per_address,
    )
    _check_can_listen(host, port)  # what can be refused is, before a database is made
    if host not in ("127.0.0.1", "localhost", "::1") and not token():
        print(f"warning: {host} is open to others and {TOKEN_VARIABLE} is not set: anybody can post and propose")
    _log_to_terminal()
    with closing(_opened(database, genesis_file)) as running:
        params = replace(params, max_request_bytes=_request_bytes(running, max_request_mb))
        peers = Peers(running, peer or [], tokens)
        with RpcServer(running, params, peers.hurry) as url, peers:
            _introduce(running, url, database)
            _watch(running, Console(), stop)
    print("stopped")


def check_node_url(url: str, option: str) -> None:
    """Raise unless it is the address of a node."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, half an IPv6 address
        is_address = False
    if not is_address or re.search(r"\s", url):
        raise BflError(f"found {option} {url!r}, expected http:// or https:// and a host, such as http://other:8545")


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


def _introduce(running: Any, url: str, database: Path) -> None:
    head = running.head
    print(f"node of chain {running.genesis.chain_id}: {url}\ndatabase: {database}")
    print(f"registry: 0x{running.genesis.registry.hex()}\nhead: block {head.block_number} 0x{head.hash.hex()}")
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
        opened = Node.create(database, given, check_round=checker)
    else:
        opened = Node.open(database, check_round=checker)
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


def stop_by_signal() -> threading.Event:
    """Set by Ctrl-C or SIGTERM, also by one that comes while the program is starting."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _watch(running: Any, console: Console, stop: threading.Event) -> None:
    """Say each new block until told to stop."""
    head = running.head
    while not stop.wait(0.2):
        now = running.head
        if now.hash != head.hash:
            head = now
            winner = f", sealed by 0x{head.winner.hex()}" if head.winner else ""
            console.print(f"block {head.block_number} 0x{head.hash.hex()}{winner}", soft_wrap=True, highlight=False)
