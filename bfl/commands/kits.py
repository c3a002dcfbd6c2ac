"""`bfl network init`, `join`, `admit` and `found`: from a description to a kit for each machine (D6)."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from bfl.commands.network import password_of
from bfl.errors import BflError

Plugins = Annotated[
    bool, typer.Option("--allow-plugins", help="Load code that the description names as MODULE:FUNCTION.")
]
Before = Annotated[
    Path | None,
    typer.Option(
        "--continue", metavar="CHAIN", help="Chain of the network that this one takes the place of: its last model.",
        show_default=False,
    ),
]  # fmt: skip
Office = Annotated[Path, typer.Option(help="The operator's folder, as `init --tokens` made it.")]


def init(
    description: Annotated[Path, typer.Argument(help="The network (TOML): its edges, devices and settings.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder to make (default: kits, or office with --tokens).", show_default=False)
    ] = None,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Make no keys here: a token for each machine, which joins with it.")
    ] = False,
    before: Before = None,
    allow_plugins: Plugins = False,
) -> None:
    """Begin a network: a kit for each of its machines, or with --tokens a token for each. In kits all keys are made
    here: a lab's way. A password comes from the terminal, or from BFL_KEY_PASSWORD. Run again it does nothing new.
    """
    from bfl.network.description import read_description
    from bfl.network.enrolment.office import open_office
    from bfl.network.making import make_kits

    read_description(description, allow_plugins)  # before anybody is asked for a password
    if tokens and before is not None:
        raise BflError("found --continue with --tokens; give it to `bfl network found`, when all machines have asked")
    folder = out or Path("office" if tokens else "kits")
    what = "the founder's key" if tokens else "all keys"
    password = "" if folder.exists() else password_of(what, is_new=True)
    if not tokens:
        told = make_kits(description, folder, password, time.time(), allow_plugins=allow_plugins, before=before)
    else:
        told = open_office(description, folder, password, None, allow_plugins)
        told = [
            "What each machine types, a secret until it has joined; tell each its own line alone:",
            *told,
            "Each gives you NAME.request for it. Then here: bfl network admit *.request, and bfl network found",
        ]
    for line in told:
        print(line)


def join(
    token: Annotated[str, typer.Argument(help="What the operator gave this machine; - reads it from the terminal.")],
    data: Annotated[
        str,
        typer.Option(
            help="Folder: of a device with its own data (default: its part of the network's data set), of an edge with "
            "the files of the data set, for its tests (default: the usual places)."
        ),
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
    password = password_of(f"the key of {found.name}", is_new=not folder.exists())
    request = join_network(found, folder, password, data, offload)
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


def found(office: Office = Path("office"), before: Before = None, allow_plugins: Plugins = False) -> None:
    """Found the network with all its machines: certificates, the founding block, and NAME.grant for each of them. The
    password is that of `init`. With --continue it begins with the last model that a majority signed on another chain.
    """
    from bfl.network.enrolment.office import found as found_network

    for line in found_network(office, password_of("the founder's key"), time.time(), allow_plugins, before):
        print(line)
