"""`bfl network ...`: parts of a real deployment. Here: keys and a genesis, and what its programs have in common."""

import getpass
import os
import re
import secrets
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from bfl.commands.command import Command
from bfl.config import PASSWORD_VARIABLE
from bfl.errors import BflError

CREDENTIAL = "bfl-password"
"""What systemd calls the password of a kit's key"""
app = typer.Typer(no_args_is_help=True, help="Run the system on real machines.")


@app.command(cls=Command)
def key(out: Annotated[Path, typer.Argument(help="Key file to make (keystore v3).")]) -> None:
    """Make a participant's key. The password comes from the terminal, or from BFL_KEY_PASSWORD."""
    from chain.client.keys import new_account, save_key

    password = password_of(str(out), is_new=True)
    account = new_account()
    save_key(out, account, password)
    print(f"address: {account.address}\nkey file: {out} (keep it, and its password; nobody can restore either)")


def password_of(what: str, is_new: bool = False) -> str:
    """A password from the environment, from systemd, or from the terminal; a new one is asked for twice."""
    if given := os.environ.get(PASSWORD_VARIABLE) or _credential():
        return given
    if sys.stdin is None or not sys.stdin.isatty():
        raise BflError(f"found no terminal to ask for a password; set {PASSWORD_VARIABLE}, or run it in a terminal")
    try:
        password = getpass.getpass(f"{'new ' * is_new}password of {what}: ")
        if not password:
            raise BflError("the password is empty, expected one: else the key file is open to whoever copies it")
        if not is_new or password == getpass.getpass("the same password again: "):
            return password
    except EOFError as error:
        raise BflError(f"no password was given; type one, or set {PASSWORD_VARIABLE}") from error
    raise BflError("the two passwords differ; nothing was made, type the command again")


def _credential() -> str:
    folder = os.environ.get("CREDENTIALS_DIRECTORY", "")
    path = Path(folder) / CREDENTIAL
    return path.read_text(encoding="utf-8").rstrip("\n") if folder and path.is_file() else ""


@app.command(cls=Command)
def genesis(
    founder: Annotated[str, typer.Option(help="Address of the key that will found the network.")],
    out: Annotated[Path, typer.Option(help="File to make.")] = Path("genesis.json"),
    devices: Annotated[int, typer.Option(min=1, help="Devices, for the gas limit.")] = 10,
    edges: Annotated[int, typer.Option(min=1, help="Edge servers, for the gas limit.")] = 3,
    phi: Annotated[int, typer.Option(min=0, help="Consensus rounds, for the gas limit.")] = 5,
    difficulty: Annotated[int, typer.Option(min=1, help="Hashes a block takes on average.")] = 1_000_000,
    retarget: Annotated[bool, typer.Option("--retarget", help="Adapt the difficulty to --block-s.")] = False,
    block_s: Annotated[int, typer.Option(min=1, help="Seconds between blocks that --retarget aims at.")] = 60,
) -> None:
    """Write the rules of a new network; every node starts from the same file."""
    from chain.protocol.genesis import FIXED, RETARGET, Genesis, block_gas

    if re.fullmatch(r"0x[0-9a-fA-F]{40}", founder) is None:
        raise BflError(f"found --founder {founder!r}, expected an address: 0x and 40 hexadecimal digits")
    calls = 2 * devices + edges * (phi + 4) + 4
    made = Genesis(
        chain_id=secrets.randbelow(2**31) + 2**16,
        founder=founder.lower(),
        timestamp=int(time.time()),
        gas_limit=block_gas(calls),
        difficulty=difficulty,
        difficulty_rule=RETARGET if retarget else FIXED,
        block_s=block_s,
    )
    _write_new(out, made.canonical_json() + "\n")
    print(f"chain id {made.chain_id}, genesis hash 0x{made.header.hash.hex()}, registry 0x{made.registry.hex()}\n{out}")


def _write_new(out: Path, text: str) -> None:
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise BflError(f"{out} exists; a genesis is never overwritten; choose another --out") from error
    except FileNotFoundError as error:
        raise BflError(f"{out.parent} does not exist; make it, or choose another --out") from error
    except OSError as error:
        raise BflError(f"{out} cannot be written ({error.strerror}); choose another --out") from error


def check_node_url(url: str, option: str) -> None:
    """Raise unless it is the address of a node."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, half an IPv6 address
        is_address = False
    if not is_address or re.search(r"\s", url):
        raise BflError(f"found {option} {url!r}, expected http:// or https:// and a host, such as http://other:8545")


def stop_by_exception() -> None:
    """SIGTERM ends this program as Ctrl-C does: what it started ends with it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def stop_by_signal() -> threading.Event:
    """Set by Ctrl-C or SIGTERM, also by one that comes while the program is starting."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
