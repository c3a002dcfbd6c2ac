"""`bfl network ...`: parts of a real deployment. Here: keys, a genesis, and a chain node."""

import getpass
import os
import secrets
import signal
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bfl.chain_commands import TOKEN_VARIABLE, token
from bfl.errors import BflError

app = typer.Typer(no_args_is_help=True, help="Run the system on real machines.")
PASSWORD_VARIABLE = "BFL_KEY_PASSWORD"  # noqa: S105 - its name


@app.command()
def key(out: Annotated[Path, typer.Argument(help="Key file to make (keystore v3).")]) -> None:
    """Make a participant's key. The password comes from the terminal, or from BFL_KEY_PASSWORD."""
    from chain.keys import new_account, save_key

    password = os.environ.get(PASSWORD_VARIABLE) or _asked_password()
    account = new_account()
    save_key(out, account, password)
    print(f"address: {account.address}\nkey file: {out} (keep it, and its password; nobody can restore either)")


def _asked_password() -> str:
    password = getpass.getpass("password: ")
    if password != getpass.getpass("again: "):
        raise BflError("the two passwords differ")
    return password


@app.command()
def genesis(
    founder: Annotated[str, typer.Option(help="Address of the key that will found the network.")],
    out: Annotated[Path, typer.Option(help="File to make.")] = Path("genesis.json"),
    devices: Annotated[int, typer.Option(min=1, help="Devices, for the gas limit.")] = 10,
    edges: Annotated[int, typer.Option(min=1, help="Edge servers, for the gas limit.")] = 3,
    phi: Annotated[int, typer.Option(min=0, help="Consensus rounds, for the gas limit.")] = 5,
    payload_bytes: Annotated[int, typer.Option(min=1, help="Largest post of a round, in bytes.")] = 100_000,
    difficulty: Annotated[int, typer.Option(min=1, help="Hashes a block takes on average.")] = 1_000_000,
    retarget: Annotated[bool, typer.Option("--retarget", help="Adapt the difficulty to --block-s.")] = False,
    block_s: Annotated[int, typer.Option(min=1, help="Seconds between blocks that --retarget aims at.")] = 60,
) -> None:
    """Write the rules of a new network; every node starts from the same file."""
    from chain.contract import size_class
    from chain.genesis import FIXED, RETARGET, Genesis, block_gas

    calls = 2 * devices + edges * (phi + 4) + 4
    made = Genesis(
        chain_id=secrets.randbelow(2**31) + 2**16,
        founder=founder.lower(),
        timestamp=int(time.time()),
        gas_limit=block_gas(calls, payload_bytes, size_class(payload_bytes)),
        difficulty=difficulty,
        difficulty_rule=RETARGET if retarget else FIXED,
        block_s=block_s,
    )
    if out.exists():
        raise BflError(f"{out} exists; a genesis is never overwritten")
    out.write_text(made.canonical_json() + "\n", encoding="utf-8")
    print(f"chain id {made.chain_id}, genesis hash 0x{made.header.hash.hex()}, registry 0x{made.registry.hex()}\n{out}")


@app.command()
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
    requests_per_s: Annotated[float, typer.Option(min=1, help="Requests per second and client.")] = 500.0,
    max_request_mb: Annotated[float, typer.Option(min=0.1, help="Largest request, in MB.")] = 32.0,
) -> None:
    """Run a node of the chain: JSON-RPC for web3, devices and auditors. BFL_RPC_TOKEN demands a bearer token."""
    from chain.peers import Peers
    from chain.server import RpcServer, ServerParams

    if host not in ("127.0.0.1", "localhost", "::1") and not token():
        print(f"warning: {host} is open to others and {TOKEN_VARIABLE} is not set: anybody can post and propose")
    running = _opened(database, genesis_file)
    params = ServerParams(host, port, token(), int(max_request_mb * 1e6), requests_per_s)
    server = RpcServer(running, params)
    try:
        url = server.start()
        with Peers(running, peer or [], token()):
            head = running.head
            print(f"node of chain {running.genesis.chain_id}: {url}\ndatabase: {database}")
            print(f"registry: 0x{running.genesis.registry.hex()}\nhead: block {head.block_number} 0x{head.hash.hex()}")
            print("Ctrl-C stops it; everything sealed is on disk.", flush=True)
            _watch(running, Console())
    finally:
        server.stop()
        running.close()
    print("stopped")


def _opened(database: Path, genesis_file: Path | None) -> Any:
    from chain.genesis import read_genesis
    from chain.node import Node

    given = None
    if genesis_file is not None:
        if not genesis_file.is_file():
            raise BflError(f"{genesis_file} is no file; make a genesis with: bfl network genesis --founder ADDRESS")
        given = read_genesis(genesis_file.read_text(encoding="utf-8"))
    if not database.exists():
        if given is None:
            raise BflError(f"{database} does not exist; a new chain needs --genesis FILE (bfl network genesis)")
        return Node.create(database, given)
    opened = Node.open(database)
    if given is not None and given != opened.genesis:
        opened.close()
        raise BflError(f"{database} is of chain {opened.genesis.chain_id}, {genesis_file} of chain {given.chain_id}")
    return opened


def _watch(running: Any, console: Console) -> None:
    """Say each new block until Ctrl-C or SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    head = running.head
    while not stop.wait(0.2):
        now = running.head
        if now.hash != head.hash:
            head = now
            winner = f", sealed by 0x{head.winner.hex()}" if head.winner else ""
            console.print(f"block {head.block_number} 0x{head.hash.hex()}{winner}", soft_wrap=True, highlight=False)
