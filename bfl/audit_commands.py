"""`bfl audit ...`: check a chain, and take a model out of it."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from bfl.chain_commands import Rpc, Run, opened
from bfl.command import Command
from bfl.errors import BflError
from bfl.watch import wide_console

app = typer.Typer(no_args_is_help=True, help="Check what made a model.")


@app.command(cls=Command)
def check(
    run: Run = None,
    rpc: Rpc = "",
    execute: Annotated[
        bool, typer.Option("--execute", help="Also execute every block again (needs py-evm): checks the state roots.")
    ] = False,
) -> None:
    """Check every seal, parent link, signature, role, turn and digest. Exit code 1 if anything does not fit."""
    console = wide_console()
    with opened(run, rpc) as archive, _verdict_of_misfits(console):
        started = time.perf_counter()
        found = _inspect(archive, console)
        if execute:
            _execute(archive, found, console)
        console.print(_verdict(found, archive.genesis, time.perf_counter() - started, execute))


@contextmanager
def _verdict_of_misfits(console: Console) -> Iterator[None]:
    from chain.errors import InspectionError

    try:
        yield
    except InspectionError as error:
        console.print(Text.assemble(("does not fit: ", "red"), str(error)), soft_wrap=True)
        raise typer.Exit(1) from error


def _inspect(archive: Any, console: Console) -> Any:
    from chain.inspection import inspect_chain

    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("checking blocks", total=None)
        return inspect_chain(archive, lambda done, total: progress.update(task, completed=done, total=total))


def _execute(archive: Any, found: Any, console: Console) -> None:
    """Import every block into a node in memory. Its clock is the chain's: only the order of times is checked here."""
    from chain.blocks import encode_block
    from chain.errors import ChainError, InspectionError
    from chain.inspection import checked_block
    from chain.node import Node

    now, last = float(archive.head().timestamp), found.blocks - 1
    bar = Progress(console=console, transient=True, disable=not console.is_terminal)
    with closing(Node.in_memory(archive.genesis, now=lambda: now)) as node, bar as progress:
        task = progress.add_task("executing blocks", total=last)
        for number in range(1, last + 1):
            block = checked_block(archive, number, found)
            try:
                node.import_block(encode_block(block.header, block.transactions))
            except ChainError as error:
                raise InspectionError(f"block {number}, executed again: {error}") from error
            progress.update(task, completed=number)


def _verdict(found: Any, genesis: Any, seconds: float, executed: bool) -> Any:
    from bfl.chain_tables import full, pairs_table, size

    kinds = ", ".join(f"{count} {kind}" for kind, count in found.by_kind.items())
    rows = {
        "verdict": "everything fits" + (", executed again too" if executed else ""),
        "checked": "seals, links, signatures, roles, turns, digests" + (", state roots" if executed else ""),
        "network": f"chain {genesis.chain_id}, genesis {full(genesis.header.hash)}",
        "head": full(found.hashes[-1]),
        "blocks": f"{found.blocks} ({max(0, len(found.models) - 1)} models after model 0)",
        "transactions": f"{found.transactions} ({kinds})",
        "reverted": str(found.reverted),
        "broken": f"{found.broken} (posts in chunks without their digest: they count as not posted)",
        "payload": size(found.payload_bytes),
        "time": f"{seconds:.2f} s, {found.blocks / max(seconds, 1e-9):.0f} blocks per second",
    }
    return pairs_table("audit", rows)


@app.command(cls=Command)
def model(
    run: Run = None,
    rpc: Rpc = "",
    round_: Annotated[int | None, typer.Option("--round", min=0, help="Round K; default: the last one.")] = None,
    out: Annotated[Path | None, typer.Option(help="File to write (default: model-K.pt).", show_default=False)] = None,
) -> None:
    """Export the model of a round as a .pt file, and say who contributed to it. The chain is checked first."""
    console = wide_console()
    with opened(run, rpc) as archive, _verdict_of_misfits(console):
        from bfl.model_export import export_model

        wanted = _wanted_round(round_, archive.head().block_number - 1)
        path = out or Path(f"model-{wanted}.pt")
        if path.exists():
            raise BflError(f"{path} exists; choose another file with --out")
        found = _inspect(archive, console)
        console.print(export_model(archive, found, wanted, path))
        print(f"model: {path}")


def _wanted_round(asked: int | None, last: int) -> int:
    if last < 0:
        raise BflError("this chain is not founded: it has no model")
    wanted = last if asked is None else asked
    if wanted > last:
        raise BflError(f"found --round {wanted}, the last sealed round is {last}")
    return wanted
