"""`bfl audit ...`: derive a chain again, name who misbehaved, take a model out of it, prove it to somebody else.

Exit codes of them all: 0 it fits, also where somebody misbehaved; 1 it does not; 2 something could not be checked.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
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
    from bfl.auditing.findings import Audit

app = typer.Typer(no_args_is_help=True, help="Check what made a model.")

RUNS = Path("runs")
Round = Annotated[int | None, typer.Option("--round", min=0, help="Round K; default: the last one.")]
_EXECUTES = "Execute every block again, which is done where py-evm is installed; or believe the receipts."
Execute = Annotated[bool | None, typer.Option("--execute/--no-execute", help=_EXECUTES, show_default=False)]
_JUDGES = "Judge by the root set again: takes the data set of the network."


def _permit(wanted: bool) -> bool:
    if wanted:
        from clients.plugins import permit_everything
        from edge_servers.founding.code import REPLAYED

        permit_everything(*REPLAYED)
    return wanted


AllowPlugins = Annotated[
    bool,
    typer.Option(
        "--allow-plugins",
        callback=_permit,
        help="Run the filter or scheme of others (module:function) that the network was founded with.",
    ),
]
Explain = Annotated[bool, typer.Option("--explain", help="Also explain the words in the tables.")]


@app.command(cls=Command)
def check(
    run: Run = None,
    rpc: Rpc = "",
    round_: Annotated[
        int | None,
        typer.Option("--round", min=1, help="Check round K alone, fast, and show who did what in it."),
    ] = None,
    before: Annotated[
        Path | None,
        typer.Option(metavar="CHAIN", help="The chain that this one went on from: is model 0 a final one there?"),
    ] = None,
    execute: Execute = None,
    judge: Annotated[bool, typer.Option("--judge", help=_JUDGES)] = False,
    explain: Explain = False,
    allow_plugins: AllowPlugins = False,  # noqa: ARG001 - its callback says so
) -> None:
    """Check every seal, link, signature, role, turn, digest and event, execute every block, and derive every model.

    The model.pt of a run folder is compared with them. Without RUN: the newest run folder under runs/ that has a chain.
    Exit code 1 and the place of the first misfit; 2 where something could not be checked, because it was pruned, say.
    """
    chosen = _chosen(run, rpc)
    with _told(explain) as console, open_archive_of(chosen, rpc) as archive:
        from bfl.auditing.model_file import checked_run_model, run_model
        from bfl.auditing.tables import findings_table, verdict_table

        wanted = None if round_ is None else _wanted_round(round_, archive.head().block_number - 1)
        if not archive.head().block_number:
            raise BflError("this chain is not founded: there is nothing to check yet")
        if wanted is not None and before is not None:
            raise BflError("found --before with --round, expected it where the whole chain is checked")
        if wanted is not None:
            _check_round(archive, wanted, execute, console)
            return
        started = time.perf_counter()
        audit = _audit(archive, console, execute, judge)
        audit.before = "" if before is None else _look_before(audit, before)
        path = None if rpc else run_model(chosen)
        audit.model_file = "" if path is None else checked_run_model(path, audit)
        console.print(verdict_table(audit, archive.genesis, time.perf_counter() - started))
        if audit.findings:
            console.print(findings_table(audit.findings))
        _check_gaps(audit)


def _look_before(audit: "Audit", before: Path) -> str:
    """Whether model 0 is what the founding says of it, on the chain that it names."""
    from edge_servers.errors import FederationError
    from edge_servers.replay.audit import AuditError
    from edge_servers.replay.continued import check_origin

    origin = None if audit.founding is None else audit.founding.origin
    if origin is None:
        raise BflError("found --before, and this chain went on from no other: leave it out")
    with open_archive_of(before, "") as archive:
        try:
            return check_origin(origin, archive)
        except FederationError as error:
            raise AuditError(f"--before {before}: {error}") from error


def _check_round(archive: Any, round_: int, execute: bool | None, console: Console) -> None:
    from bfl.auditing.one_round import audit_round
    from bfl.auditing.tables import findings_table, round_table, round_verdict_table

    started = time.perf_counter()
    audit = audit_round(archive, round_, execute)
    console.print(round_verdict_table(audit, archive.genesis, time.perf_counter() - started))
    console.print(round_table(audit.round))
    if audit.round.findings:
        console.print(findings_table(audit.round.findings))


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
def _told(explain: bool = False) -> Iterator[Console]:
    """The console of an audit: what does not fit is told there, and the words that were used if that is wanted."""
    console = wide_console()
    console.record = explain
    try:
        with _verdict_of_misfits(console):
            yield console
    finally:
        if explain:
            from bfl.auditing.glossary import glossary_table

            words = glossary_table(console.export_text())
            if words is not None:
                console.print(words)
    if not explain:
        print("What the words mean: the same command with --explain")


@contextmanager
def _verdict_of_misfits(console: Console) -> Iterator[None]:
    from chain.errors import InspectionError, ProofError
    from edge_servers.replay.audit import AuditError, PrunedModelError

    try:
        yield
    except PrunedModelError as error:
        raise BflError(str(error)) from error
    except (InspectionError, AuditError, ProofError) as error:
        console.print(Text.assemble(("does not fit: ", "red"), str(error)), soft_wrap=True)
        raise typer.Exit(1) from error


def _audit(archive: Any, console: Console, execute: bool | None = None, judge: bool = False) -> "Audit":
    from bfl.auditing.findings import audit_rounds

    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("deriving rounds again", total=None)
        return audit_rounds(
            archive, lambda done, total: progress.update(task, completed=done, total=total), execute, judge
        )


def _check_gaps(audit: "Audit") -> None:
    """Exit code 2 where something could not be checked, once everything else is told."""
    from bfl.auditing.verdict import gaps_in

    gaps = gaps_in(audit)
    if gaps:
        raise BflError(gaps[0])


@app.command(cls=Command)
def model(
    run: Run = None,
    rpc: Rpc = "",
    round_: Round = None,
    out: Annotated[Path | None, typer.Option(help="File to write (default: model-K.pt).", show_default=False)] = None,
    execute: Execute = None,
    explain: Explain = False,
    allow_plugins: AllowPlugins = False,  # noqa: ARG001 - its callback says so
) -> None:
    """Export the model of a round as a .pt file, and say who contributed to it. The chain is checked first."""
    with _told(explain) as console, open_archive_of(_chosen(run, rpc), rpc) as archive:
        from bfl.auditing.model_export import export_model

        wanted = _wanted_round(round_, archive.head().block_number - 1)
        path = out or Path(f"model-{wanted}.pt")
        if path.exists():
            raise BflError(f"{path} exists; choose another file with --out")
        if not path.parent.is_dir():
            raise BflError(f"there is no folder {path.parent}; make it, or choose another file with --out")
        audit = _audit(archive, console, execute)
        console.print(export_model(archive, audit.found, wanted, path))
        print(f"model: {path}")
        _check_gaps(audit)


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
    execute: Execute = None,
    explain: Explain = False,
    allow_plugins: AllowPlugins = False,  # noqa: ARG001 - its callback says so
) -> None:
    """The evidence against somebody: why it was flagged, excluded or refused, derived again here."""
    with _told(explain) as console, open_archive_of(_chosen(run, rpc), rpc) as archive:
        from bfl.auditing.evidence import evidence_against

        audit = _audit(archive, console, execute)
        told, tables = evidence_against(name, audit)
        for table in tables:
            console.print(table)
        print(told)
        _check_gaps(audit)


@app.command(cls=Command)
def proof(
    out: Annotated[Path, typer.Option(help="Folder to make.")],
    run: Run = None,
    rpc: Rpc = "",
    round_: Round = None,
    execute: Execute = None,
    allow_plugins: AllowPlugins = False,  # noqa: ARG001 - its callback says so
) -> None:
    """Write a folder that proves a model to somebody without the chain. The chain is checked first."""
    with _told() as console, open_archive_of(_chosen(run, rpc), rpc) as archive:
        from bfl.auditing.portable_proof import write_proof
        from bfl.show.chain_tables import pairs_table
        from bfl.show.names import full_hex

        wanted = _wanted_round(round_, archive.head().block_number - 1)
        audit = _audit(archive, console, execute)
        _check_derived(audit, wanted)
        files = write_proof(archive, audit.found, wanted, out)
        console.print(pairs_table(f"proof of the model of round {wanted}", dict(files)))
        print(f"check it with: {this_program()} audit verify {out} --genesis {full_hex(archive.genesis.header.hash)}")
        _check_gaps(audit)


def _check_derived(audit: "Audit", round_: int) -> None:
    """Raise where the model of this round was not derived; model 0 follows from nothing."""
    if audit.founding is None:
        raise BflError(f"round {round_} cannot be derived again: {audit.obstacle}; see `bfl chain block {round_ + 1}`")
    if round_ and round_ not in {each.round for each in audit.rounds}:
        raise BflError(f"round {round_} is pruned: of it digests and signatures were checked, no more")


@app.command(cls=Command)
def verify(
    folder: Annotated[Path, typer.Argument(help="Folder that `bfl audit proof` made.")],
    genesis: Annotated[
        str, typer.Option(help="Genesis hash of the network, from somebody you trust.", show_default=False)
    ] = "",
    explain: Explain = False,
    allow_plugins: AllowPlugins = False,  # noqa: ARG001 - its callback says so
) -> None:
    """Derive a model again from a proof, without the chain. Exit code 1 and the place if anything does not fit."""
    trusted = read_hash(genesis, "genesis") if genesis else None
    with _told(explain) as console:
        from bfl.auditing.portable_proof import verify_proof
        from bfl.auditing.tables import findings_table, proven_table, round_table

        proven = verify_proof(folder, trusted)
        console.print(proven_table(proven, trusted is not None))
        console.print(round_table(proven.round))
        if proven.round.findings:
            console.print(findings_table(proven.round.findings))
