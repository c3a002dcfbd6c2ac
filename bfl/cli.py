"""The command line. Options of `simulate` are the fields of the `...Params`: one place for key, default and help."""

import dataclasses
import errno
import inspect
import os
import signal
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import click
import typer
from rich.console import Console

from bfl import __version__
from bfl.api import simulating
from bfl.api.run import Run
from bfl.commands import audit as audit_commands
from bfl.commands import chain as chain_commands
from bfl.commands import network as network_commands
from bfl.commands import policy as policy_commands
from bfl.commands import reproduce as reproduce_commands
from bfl.commands.command import Command, FrontDoor, this_program, usage_refusal
from bfl.commands.dashboard import dashboard as dashboard_command
from bfl.commands.kits import admit, found, init, join
from bfl.commands.lab import lab
from bfl.commands.machines import device, device_executor, edge, edge_server, logs, status, stop
from bfl.commands.mining import miner
from bfl.commands.node import node
from bfl.commands.page_beside import page_beside
from bfl.commands.report import report
from bfl.commands.sweeping.compare import compare
from bfl.commands.sweeping.sweep import simulate_seeds, sweep
from bfl.config import AttackParams, all_fields, read_settings
from bfl.errors import BflError, RunInterrupted
from bfl.libraries import leaving_at_once, settle_libraries
from bfl.show.beginning import first_line
from bfl.show.text import printable_lines
from bfl.writers.named import names_in, writers_named
from chain.errors import ChainError
from clients.errors import ClientError
from clients.parameters import DataParams, TrainingParams, key_of
from clients.plugins import foreign_plugins
from edge_servers.errors import EdgeError
from edge_servers.parameters import ConditionParams, RoundParams
from policy.errors import PolicyError
from policy.extras import install_command

settle_libraries()  # before torch is first imported, which no module above does

_DEFAULTS = {"config": None, "out": None, "resume": None, "seeds": "", "log": ""}
"""Of options that are no switches"""
PANELS = {
    "Rounds and edge servers": RoundParams,
    "Data": DataParams,
    "Training": TrainingParams,
    "Simulated devices": ConditionParams,
    "Attacks": AttackParams,
}

app = typer.Typer(
    cls=FrontDoor,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Blockchain-empowered federated learning for multi-server edge computing.",
    epilog="Exit codes: 0 done; 1 what was checked is not in order; 2 refused or impossible; "
    "3 nothing was learned; 130 interrupted.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bfl {__version__}")
        raise typer.Exit


@app.callback()
def front_door(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Options that hold for every command."""


@app.command()
def doctor(
    device: Annotated[
        Path | None, typer.Option(metavar="KIT", help="Check what this kit of a network needs instead.")
    ] = None,
) -> None:
    """Check this machine and say what to do."""
    from bfl.doctor import examine, report

    if device is None:
        checks = examine()
    else:
        from bfl.network.checkup import examine_kit

        checks = examine_kit(device)
    report(checks, Console())
    if any(check.status == "fail" for check in checks):
        raise typer.Exit(1)


def simulate(
    config: Path | None = None,
    out: Path | None = None,
    resume: Path | None = None,
    allow_other_environment: bool = False,
    allow_plugins: bool = False,
    dashboard: bool = False,
    seeds: str = "",
    log: str = "",
    **flags: Any,
) -> None:
    """Train over simulated devices and edge servers on this machine.

    Settings come from the defaults, then --config, then environment variables such as BFL_ROUNDS, then flags.
    Everything about the run is recorded in the run folder; Ctrl-C leaves it complete and resumable.
    Exit codes: 0 it has run; 2 refused, and why; 3 it has run and nothing was learned; 130 Ctrl-C. In Python:
    bfl.simulate(rounds=20, ...).
    """
    given = {key_of(name): value for name, value in flags.items() if value is not None}
    if resume:
        _check_resume_flags(given, config, out, seeds)
    elif allow_other_environment:
        raise BflError("--allow-other-environment goes with --resume")
    writers = names_in(log)
    with leaving_at_once("Interrupted before anything was done: give the same command again."):
        settings = read_settings(config, os.environ, {} if resume else given, allow_plugins)
        print(f"resuming {resume}; loading ..." if resume else first_line(settings.rounds, settings.data), flush=True)
        simulating.load()
    folder = out or _default_folder(settings.rounds.scheme, settings.data.partition)
    if seeds:
        simulate_seeds(settings, given, seeds, folder, writers, allow_plugins, dashboard)
        return

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if resume:
            run = Run(resume, None, allow_plugins)
            begun = simulating.begin_again(run, given.get("rounds"), allow_other_environment)
        else:
            begun = simulating.begin(settings, folder, allow_plugins)
        simulating.introduce(begun)
        with page_beside(begun.run.folder, dashboard) as stay:
            run = simulating.go(begun, writers_named(writers), progress=True)
            _say_what_is_where(run)
            if not run.problem:
                stay()
    except RunInterrupted as interrupted:
        _say_how_to_go_on(interrupted)
        raise typer.Exit(130) from None
    if run.problem:
        print(f"error: nothing was learned: {run.problem}", file=sys.stderr)
        raise typer.Exit(3)


def _say_how_to_go_on(interrupted: RunInterrupted) -> None:
    run = interrupted.run
    if run is None:
        print("Interrupted before the run began: nothing was written. Give the same command again.", flush=True)
        return
    done = len(run.rounds)
    if run.summary:
        _say_what_is_where(run)
    word = " --allow-plugins" * bool(foreign_plugins(run.settings))
    told = f"after round {done}" if done else "before round 1"
    print(f"Interrupted {told}. Go on with: {this_program()} simulate --resume {run.folder}{word}", flush=True)


def _check_resume_flags(given: dict[str, Any], config: Path | None, out: Path | None, seeds: str) -> None:
    extra = [f"--{key}" for key in given if key != "rounds"]
    extra += ["--config"] * (config is not None) + ["--out"] * (out is not None) + ["--seeds"] * bool(seeds)
    if extra:
        raise BflError(
            f"--resume goes on with the run's own settings; found {', '.join(extra)} beside it, expected only --rounds"
        )


def _default_folder(scheme: str, partition: str) -> Path:
    return Path("runs") / f"{datetime.now():%Y-%m-%d-%H%M%S}-{scheme}-{partition}"


def _say_what_is_where(run: Run) -> None:
    from bfl.show.plots import can_plot

    folder, head = run.folder, run.summary["head"]
    print(f"metrics: {folder / 'metrics.jsonl'}   summary: {folder / 'summary.json'}   model: {folder / 'model.pt'}")
    if head:
        print(f"chain: {folder / 'chain.db'}   head: 0x{head}   check it: {this_program()} audit check {folder}")
    if can_plot():
        print(f"plots: {folder / 'plots'}")
    else:
        print(f"plots: none, matplotlib is not installed; get it with: {install_command('simulation')}")


def _with_setting_flags(command: Any) -> Any:
    """`command` with one option per setting in place of its **flags, for typer to read."""
    fixed = {
        "config": Annotated[Path | None, typer.Option("--config", help="TOML file with settings.")],
        "out": Annotated[
            Path | None,
            typer.Option("--out", help="Run folder to make (default: runs/DATE-SCHEME-PARTITION)."),
        ],
        "resume": Annotated[Path | None, typer.Option("--resume", help="Run folder to go on with.")],
        "allow_other_environment": Annotated[
            bool,
            typer.Option("--allow-other-environment", help="Resume although torch, threads, engine or machine differ."),
        ],
        "allow_plugins": Annotated[
            bool,
            typer.Option("--allow-plugins", help="Run code that --config or the run folder names (module:function)."),
        ],
        "seeds": Annotated[
            str,
            typer.Option("--seeds", help="Several runs below one folder: 0-4, or 0,3,7.", show_default=False),
        ],
        "log": Annotated[
            str,
            typer.Option(
                "--log", help="Write the numbers also to csv, tensorboard, mlflow, wandb.", show_default=False
            ),
        ],
        "dashboard": Annotated[
            bool,
            typer.Option("--dashboard", help="Show the run as a page in the browser; it stays until Ctrl-C."),
        ],
    }
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS.get(name, False), annotation=a)
        for name, a in fixed.items()
    ]
    panels = {key_of(f.name): title for title, cls in PANELS.items() for f in dataclasses.fields(cls)}
    for key, field in all_fields().items():
        default = f" (default: {field.default})" if field.default != "" else ""
        option = typer.Option(
            f"--{key}",
            help=field.metadata["help"] + default,
            show_default=False,
            metavar=_metavar(field),
            rich_help_panel=panels[key],
        )
        annotation = Annotated[type(field.default) | None, option]  # type: ignore[valid-type]
        options.append(
            inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        )
    command.__signature__ = inspect.Signature(options)
    command.__annotations__ = {option.name: option.annotation for option in options}
    return command


def _metavar(field: Any) -> str:
    choices = field.metadata["choices"]
    return "|".join(choices) if choices and len("|".join(choices)) < 40 else type(field.default).__name__.upper()


app.command("simulate")(_with_setting_flags(simulate))
app.command("reproduce", cls=Command)(reproduce_commands.reproduce)
app.add_typer(audit_commands.app, name="audit")
app.add_typer(chain_commands.app, name="chain")
_MACHINES = (edge, device, status, logs, stop, node, edge_server, device_executor, miner)
for command in (init, join, admit, found, lab, *_MACHINES):
    network_commands.app.command(cls=Command)(command)
app.add_typer(network_commands.app, name="network")
app.add_typer(policy_commands.app, name="policy")
app.command("dashboard", cls=Command)(dashboard_command)
app.command("compare", cls=Command)(compare)
app.command("sweep", cls=Command)(sweep)
audit_commands.app.command("report", cls=Command)(report)


def main() -> None:
    """Entry point: what is refused is told in one line, with exit code 2."""
    try:
        sys.exit(app(standalone_mode=False, prog_name=this_program()) or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(2)
    except click.ClickException as error:
        print(f"error: {usage_refusal(error)}", file=sys.stderr)
        sys.exit(2)
    except (BflError, ChainError, ClientError, EdgeError, PolicyError) as error:
        print(f"error: {printable_lines(str(error))}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(141)
    except OSError as error:  # a full disk, a folder that went away
        print(f"error: {error}{'; make room' * (error.errno == errno.ENOSPC)}", file=sys.stderr)
        sys.exit(2)
