"""Commands that keep the help of their arguments, and say what to install where a part of the package is missing."""

import os
from typing import Any, get_type_hints

import click
from typer.core import TyperArgument, TyperCommand
from typer.models import ArgumentInfo

from bfl.errors import BflError

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
            raise BflError(f"{error.name} is not installed; get it with: pip install 'bfl[{extra}]'") from error


def _help(annotation: Any) -> str | None:
    """The help in `Annotated[..., typer.Argument(help=...)]`."""
    found = [each for each in getattr(annotation, "__metadata__", ()) if isinstance(each, ArgumentInfo)]
    return found[0].help if found else None
