"""Commands that keep the help of their arguments, say what to install where a part of the package is missing, and
refuse in one line like everything else.
"""

import os
import sys
from typing import Any, get_type_hints

import click
import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.models import ArgumentInfo

from bfl.errors import BflError
from clients.parameters import did_you_mean
from policy.extras import install_command

_NODE = ("eth", "starlette", "uvicorn", "jinja2")
_CHAIN = (
    "web3", "rlp", "trie", "hexbytes", "eth_abi", "eth_account", "eth_bloom", "eth_hash", "eth_keyfile", "eth_keys",
    "eth_rlp", "eth_typing", "eth_utils",
)  # fmt: skip
_BASELINES = ("gymnasium", "stable_baselines3")
_EXTRAS = dict.fromkeys(_NODE, "node") | dict.fromkeys(_CHAIN, "chain") | dict.fromkeys(_BASELINES, "baselines")


def this_program() -> str:
    """How it was called: by run.sh, which says so, or as bfl."""
    return os.environ.get("RUN_SH", "bfl")


class FrontDoor(TyperGroup):
    """All commands: `cls` of the app."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run what was asked for; Ctrl-C is told, which typer would turn into an exit code without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            print("Interrupted.", file=sys.stderr)
            raise typer.Exit(130) from error


def usage_refusal(error: click.ClickException) -> str:
    """What was wrong with a command line, in one line; the nearest word is named once (typer and click both do)."""
    told = error.format_message()
    if isinstance(error, click.NoSuchOption):
        told = f"no such option: {error.option_name}{did_you_mean(error.option_name, error.possibilities or ())}"
    elif isinstance(error, click.exceptions.NoSuchCommand):
        told = f"no such command: {error.command_name}{did_you_mean(error.command_name, error.possibilities or ())}"
    context = error.ctx if isinstance(error, click.UsageError) else None
    told = told[:1].lower() + told[1:].rstrip(".")
    return told if context is None else f"{told}; see: {context.command_path} --help"


class Command(TyperCommand):
    """For `@app.command(cls=Command)`.

    Since click 8.5 an argument has a `help` of its own, which its constructor sets to None after typer 0.20 has set it;
    flwr admits no later typer.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        hints = get_type_hints(self.callback, include_extras=True)
        for parameter in self.params:
            if isinstance(parameter, TyperArgument) and not parameter.help:
                parameter.help = _help(hints.get(str(parameter.name)))

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; an extra that is not installed is told in one line."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            extra = _EXTRAS.get(str(error.name).partition(".")[0])
            if extra is None:
                raise
            raise BflError(f"{error.name} is not installed; get it with: {install_command(extra)}") from error


def _help(annotation: Any) -> str | None:
    """The help in `Annotated[..., typer.Argument(help=...)]`."""
    found = [each for each in getattr(annotation, "__metadata__", ()) if isinstance(each, ArgumentInfo)]
    return found[0].help if found else None
