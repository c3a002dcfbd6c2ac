"""`bfl network init`, `join`, `admit` and `found`: from a description to a kit for each machine (D6)."""

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from bfl.commands.network import asked_password
from bfl.config import PASSWORD_VARIABLE

Plugins = Annotated[
    bool, typer.Option("--allow-plugins", help="Load code that the description names as MODULE:FUNCTION.")
]
Office = Annotated[Path, typer.Option(help="The operator's folder, as `init --tokens` made it.")]


def init(
    description: Annotated[Path, typer.Argument(help="The network (TOML): its edges, devices and settings.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder to make (default: kits, or office with --tokens).", show_default=False)
    ] = None,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Make no keys here: a token for each machine, which joins with it.")
    ] = False,
    allow_plugins: Plugins = False,
) -> None:
    """Begin a network: a kit for each of its machines, or with --tokens a token for each. In kits all keys are made
    here: a lab's way. A password comes from the terminal, or from BFL_KEY_PASSWORD. Run again it does nothing new.
    """
    from bfl.network.description import read_description
    from bfl.network.enrolment.office import open_office
    from bfl.network.making import make_kits

    read_description(description, allow_plugins)  # before anybody is asked for a password
    password = _password(is_new=True)
    if not tokens:
        told = make_kits(description, out or Path("kits"), password, time.time(), allow_plugins=allow_plugins)
    else:
        office = out or Path("office")
        told = open_office(description, office, password, None, allow_plugins)
        told = [*told, "on each machine: bfl network join TOKEN; then here: bfl network admit NAME.request"]
    for line in told:
        print(line)


def join(
    token: Annotated[str, typer.Argument(help="What the operator gave this machine; - reads it from the terminal.")],
    data: Annotated[
        str, typer.Option(help="A device: folder with its own data (default: its part of the network's data set).")
    ] = "",
    offload: Annotated[str, typer.Option(help="A device: to whom it hands its data: any, never, or edges.")] = "any",
    out: Annotated[Path | None, typer.Option(help="The machine's kit (default: its name).", show_default=False)] = None,
) -> None:
    """Make this machine's keys, which stay here, and its request NAME.request for the operator. The password of its
    key comes from the terminal, or from BFL_KEY_PASSWORD.
    """
    from bfl.network.enrolment.joining import join as join_network
    from bfl.network.enrolment.tokens import read_token

    found = read_token(sys.stdin.readline() if token == "-" else token)  # noqa: S105 - a dash
    folder = out or Path(found.name)
    request = join_network(found, folder, _password(is_new=not folder.exists()), data, offload)
    print(f"the keys of {found.name} are in {folder} and stay there; send {request} to the operator of {found.network}")
    print(f"then put {found.name}.grant, which you get for it, into {folder}, and: bfl network {found.role} {folder}")


def admit(
    requests: Annotated[list[Path], typer.Argument(help="Requests of machines (NAME.request).")],
    office: Office = Path("office"),
) -> None:
    """Take the requests of machines that want to join, each with the secret of its token and signed by its own keys."""
    from bfl.network.enrolment.office import admit as admit_to

    for request in requests:
        print(admit_to(office, request))


def found(office: Office = Path("office"), allow_plugins: Plugins = False) -> None:
    """Found the network with all its machines: certificates, the founding block, and NAME.grant for each of them. The
    password is that of `init`.
    """
    from bfl.network.enrolment.office import found as found_network

    for line in found_network(office, _password(is_new=False), time.time(), allow_plugins):
        print(line)


def _password(is_new: bool) -> str:
    return os.environ.get(PASSWORD_VARIABLE) or asked_password(is_new=is_new)
