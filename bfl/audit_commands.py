"""`bfl audit ...`: check a chain, and take a model out of it."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from bfl.chain_commands import Rpc, Run, token
from bfl.errors import BflError

app = typer.Typer(no_args_is_help=True, help="Check what made a model.")


@app.command()
def check(
    run: Run = None,
    rpc: Rpc = "",
    execute: Annotated[
        bool, typer.Option("--execute", help="Also execute every block again (needs py-evm): checks the state roots.")
    ] = False,
) -> None:
    """Check every seal, parent link, signature, role, turn and digest. Exit code 1 if anything does not fit."""
    from chain.archive import open_archive
    from chain.errors import InspectionError

    console = Console()
    archive = open_archive(run, rpc, token())
    started = time.perf_counter()
    try:
        found = _inspect(archive, console)
        if execute:
            _execute(archive, console)
    except InspectionError as error:
        console.print(f"[red]does not fit:[/] {error}", soft_wrap=True, highlight=False)
        raise typer.Exit(1) from error
    console.print(_verdict(found, archive.head().hash, time.perf_counter() - started, execute))


def _inspect(archive: Any, console: Console) -> Any:
    from chain.inspection import inspect_chain

    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("checking blocks", total=None)
        return inspect_chain(archive, lambda done, total: progress.update(task, completed=done, total=total))


def _execute(archive: Any, console: Console) -> None:
    """Import every block into a node in memory."""
    from chain.blocks import encode_block
    from chain.errors import ChainError, InspectionError
    from chain.node import Node

    last = archive.head().block_number
    node = Node.in_memory(archive.genesis)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("executing blocks", total=last)
        for number in range(1, last + 1):
            block = archive.block(number)
            try:
                node.import_block(encode_block(block.header, block.transactions))
            except ChainError as error:
                raise InspectionError(f"block {number}, executed again: {error}") from error
            progress.update(task, completed=number)
    node.close()


def _verdict(found: Any, head_hash: bytes, seconds: float, executed: bool) -> Any:
    from bfl.chain_tables import full, pairs_table, size

    kinds = ", ".join(f"{count} {kind}" for kind, count in found.by_kind.items())
    rows = {
        "verdict": "everything fits" + (", executed again too" if executed else ""),
        "checked": "seals, links, signatures, roles, turns, digests" + (", state roots" if executed else ""),
        "head": full(head_hash),
        "blocks": f"{found.blocks} ({len(found.models) - 1} models after model 0)",
        "transactions": f"{found.transactions} ({kinds})",
        "reverted": str(found.reverted),
        "payload": size(found.payload_bytes),
        "time": f"{seconds:.2f} s, {found.blocks / max(seconds, 1e-9):.0f} blocks per second",
    }
    return pairs_table("audit", rows)


@app.command()
def model(
    run: Run = None,
    rpc: Rpc = "",
    round_: Annotated[int | None, typer.Option("--round", min=0, help="Round K; default: the last one.")] = None,
    out: Annotated[Path | None, typer.Option(help="File to write (default: model-K.pt).", show_default=False)] = None,
) -> None:
    """Export the model of a round as a .pt file, and say who contributed to it. The chain is checked first."""
    from bfl.model_export import export_model
    from chain.archive import open_archive

    archive = open_archive(run, rpc, token())
    last = archive.head().block_number - 1
    if last < 0:
        raise BflError("this chain is not founded: it has no model")
    wanted = last if round_ is None else round_
    if wanted > last:
        raise BflError(f"found --round {wanted}, the last sealed round is {last}")
    console = Console()
    _inspect(archive, console)
    path = out or Path(f"model-{wanted}.pt")
    console.print(export_model(archive, wanted, path))
    print(f"model: {path}")
