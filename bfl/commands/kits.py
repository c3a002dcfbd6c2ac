"""`bfl network init`: from a description to a kit for each machine."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from bfl.commands.network import asked_password
from bfl.config import PASSWORD_VARIABLE


def init(
    description: Annotated[Path, typer.Argument(help="The network (TOML): its edges, devices and settings.")],
    out: Annotated[Path, typer.Option(help="Folder to make, with a kit for each machine in it.")] = Path("kits"),
    allow_plugins: Annotated[
        bool, typer.Option("--allow-plugins", help="Load code that the description names as MODULE:FUNCTION.")
    ] = False,
) -> None:
    """Found a network and make a kit for each of its machines. All keys are made here: a lab's way. Their password
    comes from the terminal, or from BFL_KEY_PASSWORD. Run again with the same description it does nothing.
    """
    from bfl.network.description import read_description
    from bfl.network.making import make_kits

    read_description(description, allow_plugins)  # before anybody is asked for a password
    password = os.environ.get(PASSWORD_VARIABLE) or asked_password()
    for line in make_kits(description, out, password, time.time(), allow_plugins=allow_plugins):
        print(line)
