"""`bfl chain ...`: read a chain, of a run or of a node."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bfl.errors import BflError

app = typer.Typer(no_args_is_help=True, help="Read a chain: blocks, transactions, participants.")

Run = Annotated[Path | None, typer.Argument(help="Run folder, or a chain.db.", show_default=False)]
Rpc = Annotated[str, typer.Option("--rpc", help="JSON-RPC address of a node, instead of RUN.", show_default=False)]
TOKEN_VARIABLE = "BFL_RPC_TOKEN"  # noqa: S105 - its name


def token() -> str:
    """The bearer token of nodes that want one."""
    return os.environ.get(TOKEN_VARIABLE, "")


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=200)


def read_hash(text: str) -> bytes:
    """A transaction's hash as it is written."""
    try:
        found = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        found = b""
    if len(found) != 32:
        raise BflError(f"found {text!r}, expected a transaction hash: 0x and 64 hexadecimal digits")
    return found


@app.command()
def show(
    run: Run = None,
    rpc: Rpc = "",
    last: Annotated[int, typer.Option(min=1, help="How many blocks, counted from the head.")] = 20,
) -> None:
    """The last blocks: who led, who sealed, what is in them."""
    from bfl.chain_tables import chain_table
    from chain.archive import open_archive

    _console().print(chain_table(open_archive(run, rpc, token()), last))


@app.command()
def block(
    number: Annotated[int, typer.Argument(min=0, help="Number of the block; round k is block k + 1.")],
    run: Run = None,
    rpc: Rpc = "",
) -> None:
    """One block: header and transactions."""
    from bfl.chain_tables import block_tables
    from chain.archive import open_archive

    archive = open_archive(run, rpc, token())
    for table in block_tables(archive.block(number), archive.genesis):
        _console().print(table)


@app.command()
def transaction(
    transaction_hash: Annotated[str, typer.Argument(metavar="HASH", help="Hash of the transaction.")],
    run: Run = None,
    rpc: Rpc = "",
) -> None:
    """One transaction: what it says, and what the registry made of it."""
    from bfl.chain_tables import transaction_tables
    from chain.archive import open_archive

    wanted = read_hash(transaction_hash)
    archive = open_archive(run, rpc, token())
    found = archive.find_transaction(wanted)
    if found is None:
        raise BflError(f"0x{wanted.hex()} is in no sealed block of this chain")
    for table in transaction_tables(*found, archive.genesis):
        _console().print(table)


@app.command()
def participants(run: Run = None, rpc: Rpc = "") -> None:
    """Who takes part: roles, homes, blocks led and sealed, exclusions."""
    from bfl.chain_tables import participants_table
    from chain.archive import open_archive
    from chain.inspection import inspect_chain

    archive = open_archive(run, rpc, token())
    found = inspect_chain(archive)
    _console().print(participants_table(found.members, archive, found.excluded_through))
