"""`bfl audit ...`: derive a chain again, name who misbehaved, take a model out of it, prove it to somebody else."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from bfl.commands.chain import Rpc, Run, open_archive_of, read_hash
from bfl.commands.command import Command, this_program
from bfl.errors import BflError
from bfl.show.task_display import wide_console

if TYPE_CHECKING:
    from bfl.auditing.findings import Audit, AuditedRound

app = typer.Typer(no_args_is_help=True, help="Check what made a model.")

RUNS = Path("runs")
Round = Annotated[int | None, typer.Option("--round", min=0, help="Round K; default: the last one.")]


@app.command(cls=Command)
def check(
    run: Run = None,
    rpc: Rpc = "",
    round_: Annotated[int | None, typer.Option("--round", min=1, help="Also show who did what in round K.")] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Also execute every block again (needs py-evm): checks the state roots.")
    ] = False,
) -> None:
    """Check every seal, link, signature, role, turn and digest, and derive every model again from its gradients.

    Without RUN: the newest run folder under runs/ that has a chain. Exit code 1 and the place of the first misfit; 2
    where something could not be checked, because it was pruned, say.
    """
    console = wide_console()
    with open_archive_of(_chosen(run, rpc), rpc) as archive, _verdict_of_misfits(console):
        from bfl.auditing.tables import findings_table, round_table, verdict_table

        wanted = None if round_ is None else _wanted_round(round_, archive.head().block_number - 1)
        if not archive.head().block_number:
            raise BflError("this chain is not founded: there is nothing to check yet")
        started = time.perf_counter()
        audit = _audit(archive, console)
        if execute:
            _execute(archive, audit.found, console)
        console.print(verdict_table(audit, archive.genesis, time.perf_counter() - started, execute))
        if audit.founding is not None and audit.findings:
            console.print(findings_table(audit.findings))
        if wanted is not None:
            console.print(round_table(_round(audit, wanted)))
        if audit.found.pruned:
            raise BflError(
                f"{len(audit.found.pruned)} of {audit.found.blocks} blocks are pruned: their models could not be "
                f"derived again; `{this_program()} chain fetch` brings their payloads back from a node that has them"
            )


def _chosen(run: Path | None, rpc: str) -> Path | None:
    """The run that is meant: the newest one with a chain where nothing is named, which is said."""
    if run is not None or rpc:
        return run
    chains = sorted(RUNS.glob("*/chain.db"), key=lambda path: path.stat().st_mtime)
    if not chains:
        raise BflError(f"no folder under {RUNS}/ has a chain.db: name a run folder (or its chain.db), or --rpc URL")
    print(f"run: {chains[-1].parent}")
    return chains[-1].parent


@contextmanager
def _verdict_of_misfits(console: Console) -> Iterator[None]:
    from chain.errors import InspectionError, ProofError
    from edge_servers.replay.audit import AuditError

    try:
        yield
    except (InspectionError, AuditError, ProofError) as error:
        console.print(Text.assemble(("does not fit: ", "red"), str(error)), soft_wrap=True)
        raise typer.Exit(1) from error


def _audit(archive: Any, console: Console) -> "Audit":
    from bfl.auditing.findings import audit_rounds

    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("deriving rounds again", total=None)
        return audit_rounds(archive, lambda done, total: progress.update(task, completed=done, total=total))


def _round(audit: "Audit", round_: int) -> "AuditedRound":
    if audit.founding is None:
        raise BflError(f"round {round_} cannot be derived again: {audit.obstacle}; see `bfl chain block {round_ + 1}`")
    for found in audit.rounds:
        if found.round == round_:
            return found
    raise BflError(f"round {round_} is pruned: of it digests and signatures were checked, no more")


def _execute(archive: Any, found: Any, console: Console) -> None:
    """Import every block into a node in memory. Its clock is the chain's: only the order of times is checked here."""
    from chain.audit.inspection import checked_block
    from chain.errors import ChainError, InspectionError
    from chain.node.node import Node
    from chain.wire.blocks import encode_block

    if found.pruned:
        raise BflError("a pruned chain cannot be executed again; leave --execute out, or fetch its payloads first")
    now, last = float(archive.head().timestamp), found.blocks - 1
    bar = Progress(console=console, transient=True, disable=not console.is_terminal)
    with closing(Node.in_memory(archive.genesis, now=lambda: now)) as node, bar as progress:
        node.sources.append(archive)
        task = progress.add_task("executing blocks", total=last)
        for number in range(1, last + 1):
            block = checked_block(archive, number, found)
            try:
                node.import_block(encode_block(block.header, block.transactions))
            except ChainError as error:
                raise InspectionError(f"block {number}, executed again: {error}") from error
            progress.update(task, completed=number)


@app.command(cls=Command)
def model(
    run: Run = None,
    rpc: Rpc = "",
    round_: Round = None,
    out: Annotated[Path | None, typer.Option(help="File to write (default: model-K.pt).", show_default=False)] = None,
) -> None:
    """Export the model of a round as a .pt file, and say who contributed to it. The chain is checked first."""
    console = wide_console()
    with open_archive_of(_chosen(run, rpc), rpc) as archive, _verdict_of_misfits(console):
        from bfl.auditing.model_export import export_model

        wanted = _wanted_round(round_, archive.head().block_number - 1)
        path = out or Path(f"model-{wanted}.pt")
        if path.exists():
            raise BflError(f"{path} exists; choose another file with --out")
        if not path.parent.is_dir():
            raise BflError(f"there is no folder {path.parent}; make it, or choose another file with --out")
        found = _audit(archive, console).found
        console.print(export_model(archive, found, wanted, path))
        print(f"model: {path}")


def _wanted_round(asked: int | None, last: int) -> int:
    if last < 0:
        raise BflError("this chain is not founded: it has no model")
    wanted = last if asked is None else asked
    if wanted > last:
        raise BflError(f"found --round {wanted}, the last sealed round is {last}")
    return wanted


@app.command(cls=Command)
def why(
    name: Annotated[str, typer.Argument(help='"server 1", "device 3", an address or the beginning of one.')],
    run: Run = None,
    rpc: Rpc = "",
) -> None:
    """The evidence against somebody: why it was flagged, excluded or refused, derived again here."""
    console = wide_console()
    with open_archive_of(_chosen(run, rpc), rpc) as archive, _verdict_of_misfits(console):
        from bfl.auditing.evidence import evidence_against

        told, tables = evidence_against(name, _audit(archive, console))
        for table in tables:
            console.print(table)
        print(told)


@app.command(cls=Command)
def proof(
    out: Annotated[Path, typer.Option(help="Folder to make.")],
    run: Run = None,
    rpc: Rpc = "",
    round_: Round = None,
) -> None:
    """Write a folder that proves a model to somebody without the chain. The chain is checked first."""
    console = wide_console()
    with open_archive_of(_chosen(run, rpc), rpc) as archive, _verdict_of_misfits(console):
        from bfl.auditing.portable_proof import write_proof
        from bfl.show.chain_tables import full_hex, pairs_table

        wanted = _wanted_round(round_, archive.head().block_number - 1)
        audit = _audit(archive, console)
        if wanted:
            _round(audit, wanted)
        files = write_proof(archive, audit.found, wanted, out)
        console.print(pairs_table(f"proof of the model of round {wanted}", dict(files)))
        print(f"check it with: {this_program()} audit verify {out} --genesis {full_hex(archive.genesis.header.hash)}")


@app.command(cls=Command)
def verify(
    folder: Annotated[Path, typer.Argument(help="Folder that `bfl audit proof` made.")],
    genesis: Annotated[
        str, typer.Option(help="Genesis hash of the network, from somebody you trust.", show_default=False)
    ] = "",
) -> None:
    """Derive a model again from a proof, without the chain. Exit code 1 and the place if anything does not fit."""
    console = wide_console()
    trusted = read_hash(genesis, "genesis") if genesis else None
    with _verdict_of_misfits(console):
        from bfl.auditing.portable_proof import verify_proof
        from bfl.auditing.tables import findings_table, proven_table, round_table

        proven = verify_proof(folder, trusted)
        console.print(proven_table(proven, trusted is not None))
        console.print(round_table(proven.round))
        if proven.round.findings:
            console.print(findings_table(proven.round.findings))
