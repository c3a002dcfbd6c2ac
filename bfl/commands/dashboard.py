"""`bfl dashboard`: a page that shows a run, a kit or a node, live and afterwards."""

import os
import secrets
import signal
import threading
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bfl.errors import BflError

if TYPE_CHECKING:
    from bfl.dashboard.index.sources import Source

RUNS = Path("runs")
PORT = 8765
_MOST_TOKEN_BYTES = 1024
_NICE = 10


def dashboard(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN|SWEEP]...",
            help="Run folders, and folders of sweeps; default: the newest under runs/.",
            show_default=False,
        ),
    ] = None,
    rpc: Annotated[
        str, typer.Option(help="JSON-RPC address of a node instead; its token is in BFL_RPC_TOKEN.", show_default=False)
    ] = "",
    kit: Annotated[Path | None, typer.Option(help="Kit of a machine of a network instead.", show_default=False)] = None,
    host: Annotated[str, typer.Option(help="Address to listen at; other machines need the token in the URL.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0: any that is free.")] = PORT,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with the token that visitors need (at least 16 characters); default: a new one."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open it in this machine's browser.")] = False,
    beside: Annotated[int, typer.Option(hidden=True, help="End with this parent process, and stay behind it.")] = 0,
) -> None:
    """Show a run, a kit or a node as a page in the browser: live, explorer, audit. Ctrl-C ends it."""
    from bfl.dashboard.web.security import TOKEN_BYTES, WebParams, is_loopback
    from bfl.dashboard.web.serving import listening

    if beside:
        _stay_behind(beside)
    token = _read_token(token_file) if token_file is not None else ""
    if not token and not is_loopback(host):
        token = secrets.token_urlsafe(TOKEN_BYTES)
    sources = _sources(runs or [], rpc, kit)
    at = listening(host, port)
    params = WebParams(host, at.getsockname()[1], token, _names_of_machine(host))

    def told() -> None:
        print(f"page: {params.url}", flush=True)
        if open_:
            webbrowser.open(params.url)

    from bfl.dashboard.index.dashboard import Dashboard, together
    from bfl.dashboard.web.serving import serve

    serve(together([Dashboard(each) for each in sources]), params, at, told)


def _sources(runs: list[Path], rpc: str, kit: Path | None) -> "list[Source]":
    """What is shown; of runs, rpc and kit one."""
    from bfl.dashboard.index import opening

    given = [name for name, value in {"RUN": runs, "--rpc": rpc, "--kit": kit}.items() if value]
    if len(given) > 1:
        raise BflError(f"found {' and '.join(given)}, expected one of them")
    if rpc:
        from bfl.config import TOKEN_VARIABLE

        return [opening.node_source(rpc, os.environ.get(TOKEN_VARIABLE, ""))]
    if kit is not None:
        return [opening.kit_source(kit)]
    from bfl.sweeps.folder import runs_in

    found = [each for given in runs for each in runs_in(given)]
    return opening.run_sources(found or [opening.newest_run(RUNS)])


def _stay_behind(parent: int) -> None:
    """The run comes first; and nobody else ends this process where a run is killed."""
    os.nice(_NICE)

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        signal.raise_signal(signal.SIGTERM)

    threading.Thread(target=look, name="parent", daemon=True).start()


def _read_token(path: Path) -> str:
    from policy.files import read_bounded_text

    try:
        found = read_bounded_text(path, _MOST_TOKEN_BYTES).strip()
    except (OSError, ValueError) as error:
        raise BflError(f"{path} cannot be read: {error}") from error
    if len(found) < 16 or not found.isascii() or not found.isprintable():
        raise BflError(f"{path}: found {len(found)} characters, expected a token of at least 16 ASCII characters")
    return found


def _names_of_machine(host: str) -> frozenset[str]:
    """By which other machines may call this one."""
    import socket

    from bfl.dashboard.web.security import is_loopback

    return frozenset() if is_loopback(host) else frozenset({socket.gethostname().lower(), socket.getfqdn().lower()})
