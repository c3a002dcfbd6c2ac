"""`bfl chain ...`: read a chain, of a run or of a node."""

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bfl.commands.command import Command
from bfl.config import TOKEN_VARIABLE
from bfl.errors import BflError
from bfl.show.task_display import wide_console

if TYPE_CHECKING:
    from chain.audit.archive import Archive

app = typer.Typer(
    no_args_is_help=True, help="Read a chain: blocks, transactions, participants; prune it, fetch what was pruned."
)

Run = Annotated[Path | None, typer.Argument(help="Run folder, or a chain.db.", show_default=False)]
Rpc = Annotated[
    str,
    typer.Option(
        "--rpc",
        help=f"JSON-RPC address of a node, instead of RUN; its token, if any, is in {TOKEN_VARIABLE}.",
        show_default=False,
    ),
]


def token() -> str:
    """The bearer token of nodes that want one."""
    return os.environ.get(TOKEN_VARIABLE, "")


def open_archive_of(run: Path | None, rpc: str) -> "closing[Archive]":
    """The archive a command reads, for a `with` statement."""
    from chain.audit.archive import open_archive

    return closing(open_archive(run, rpc, token()))


def read_hash(text: str, of: str = "transaction") -> bytes:
    """A hash as it is written."""
    try:
        found = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        found = b""
    if len(found) != 32:
        raise BflError(f"found {text!r}, expected a {of} hash: 0x and 64 hexadecimal digits")
    return found


@app.command(cls=Command)
def show(
    run: Run = None,
    rpc: Rpc = "",
    last: Annotated[int, typer.Option(min=1, help="How many blocks, counted from the head.")] = 20,
) -> None:
    """The last blocks: who led, who sealed, what is in them."""
    with open_archive_of(run, rpc) as archive:
        from bfl.show.chain_tables import chain_table

        wide_console().print(chain_table(archive, last))


@app.command(cls=Command)
def block(
    number: Annotated[int, typer.Argument(min=0, help="Number of the block; round k is block k + 1.")],
    run: Run = None,
    rpc: Rpc = "",
) -> None:
    """One block: header and transactions."""
    with open_archive_of(run, rpc) as archive:
        from bfl.show.chain_tables import block_tables
        from bfl.show.names import names_in

        for table in block_tables(archive.block(number), archive.genesis, names_in(archive)):
            wide_console().print(table)


@app.command(cls=Command)
def transaction(
    transaction_hash: Annotated[str, typer.Argument(metavar="HASH", help="Hash of the transaction.")],
    run: Run = None,
    rpc: Rpc = "",
) -> None:
    """One transaction: what it says, and what the registry made of it."""
    wanted = read_hash(transaction_hash)
    with open_archive_of(run, rpc) as archive:
        from bfl.show.chain_tables import transaction_tables
        from bfl.show.names import names_in

        found = archive.find_transaction(wanted)
        if found is None:
            raise BflError(f"0x{wanted.hex()} is in no sealed block of this chain")
        for table in transaction_tables(*found, archive.genesis, names_in(archive)):
            wide_console().print(table)


@app.command(cls=Command)
def participants(run: Run = None, rpc: Rpc = "") -> None:
    """Who takes part: roles, homes, blocks led and sealed, exclusions. The chain is checked first."""
    with open_archive_of(run, rpc) as archive:
        from bfl.show.chain_tables import participants_table
        from bfl.show.names import names_in
        from chain.audit.inspection import inspect_chain

        wide_console().print(participants_table(inspect_chain(archive), names_in(archive)))


@app.command(cls=Command)
def prune(
    run: Annotated[Path, typer.Argument(help="Run folder, or a chain.db; no node may be running on it.")],
    keep: Annotated[int, typer.Option(min=1, help="How many of the last rounds keep their gradients and models.")],
) -> None:
    """Delete gradients and models of old rounds, and make the file smaller. What was there stays named by its digests.

    The newest model, the one that the first kept round starts from and every tenth stay, and so does whatever is not
    settled yet. An audit of pruned rounds checks digests and signatures, and says so.
    """
    from bfl.show.text import size_text
    from chain.audit.archive import DATABASE
    from chain.node.node import Node

    with closing(Node.open(run / DATABASE if run.is_dir() else run)) as node:
        dropped, pruned = node.prune(keep, shrinks=True), node.pruned()
    print(f"{size_text(dropped)} deleted; {len(pruned)} blocks are pruned now")


@app.command(cls=Command)
def fetch(
    run: Annotated[Path, typer.Argument(help="Run folder, or a chain.db; no node may be running on it.")],
    rpc: Annotated[str, typer.Option("--rpc", help=f"JSON-RPC address of a node; its token is in {TOKEN_VARIABLE}.")],
) -> None:
    """Bring payloads that were pruned back from a node that has them; each is checked against its digest."""
    from bfl.auditing.payload_fetch import fetch_payloads
    from chain.audit.archive import DATABASE
    from chain.client.asking import web3_over_http
    from chain.store.store import Store

    with closing(Store.open(run / DATABASE if run.is_dir() else run)) as store:
        fetched, missing = fetch_payloads(store, web3_over_http(rpc, token()), wide_console())
    print(f"{fetched} payloads fetched")
    if missing:
        raise BflError(f"{missing} payloads are missing still: the node at {rpc} does not have them; try another one")
