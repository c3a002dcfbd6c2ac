"""`bfl doctor`: what this machine has, what it lacks, and what to do about it."""

import importlib
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from clients.errors import ClientError
from clients.sources import import_torchvision
from policy.extras import install_command

_FREE_GB = 2


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: ok, warn (something is missing that you may not need) or fail."""

    name: str
    status: str
    found: str
    do: str = ""


def examine() -> list[Check]:
    """Everything that `./run.sh` needs, in the order in which it needs it."""
    steps: list[Callable[[], Check]] = [
        _python,
        lambda: _package("torch", "fail", "install bfl again: ./run.sh does it"),
        lambda: _package("flwr", "fail", "install bfl again: ./run.sh does it"),
        _torchvision,
        lambda: _package("flwr_datasets", "warn", f"partitions need it: {install_command('simulation')}"),
        lambda: _package("matplotlib", "warn", f"for plots: {install_command('simulation')}"),
        lambda: _package("web3", "warn", f"for the ledger (keys, mining, proofs): {install_command('chain')}"),
        lambda: _package("eth", "warn", f"to run a chain node (a device needs none): {install_command('node')}"),
        lambda: _package("ray", "warn", f"only for `flwr run .`: {install_command('ray')}"),
        _cores,
        _memory,
        _disk,
        _data,
    ]
    return [step() for step in steps]


def report(checks: list[Check], console: Console) -> None:
    """The checks as a table."""
    table = Table(title="bfl doctor", title_justify="left")
    for column in ("check", "", "found", "what to do"):
        table.add_column(column, overflow="fold")
    colour = {"ok": "green", "warn": "yellow", "fail": "red"}
    for check in checks:
        status = f"[{colour[check.status]}]{check.status}[/]"
        table.add_row(check.name, status, escape(check.found), escape(check.do))
    console.print(table)


def _python() -> Check:
    ok = sys.version_info >= (3, 11)
    return Check(
        "Python",
        "ok" if ok else "fail",
        platform.python_version(),
        "" if ok else "install Python 3.11 or newer",
    )


def _package(name: str, if_missing: str, do: str) -> Check:
    try:
        importlib.import_module(name)
        found = version({"eth": "py-evm"}.get(name, name.replace("_", "-")))
    except (ImportError, PackageNotFoundError, RuntimeError, OSError) as error:
        return Check(name, if_missing, f"cannot be imported: {error}", do)
    pinned = _pinned().get(name.replace("_", "-"))
    if pinned and found.split("+")[0] != pinned:
        return Check(name, "warn", f"{found}, tested with {pinned}", f"install {name}=={pinned}")
    return Check(name, "ok", found)


def _torchvision() -> Check:
    """As a plug-in would meet it: `import torchvision`, which fails for a CUDA build beside a CPU build of torch.
    Plug-ins and our own data sets get it there all the same; a program of your own does not.
    """
    get_it = f"for downloads, SVHN and plug-ins that import it: {install_command('simulation')}"
    check = _package("torchvision", "warn", get_it)
    if check.status != "warn" or "torchvision::" not in check.found:
        return check
    try:
        import_torchvision()
    except (ImportError, RuntimeError, OSError):
        return check
    found = f"works in bfl and its plug-ins; elsewhere `import torchvision` fails ({check.found.partition(': ')[2]})"
    do = "for programs of your own: torch and torchvision from the same index (docs/deploy.md)"
    return Check("torchvision", "warn", found, do)


def _pinned() -> dict[str, str]:
    """The exact versions that bfl's own metadata asks for."""
    try:
        requirements = requires("bfl") or []
    except PackageNotFoundError:  # run from a folder that was never installed
        requirements = []
    wanted = [re.match(r"([\w-]+)==([\w.]+)", requirement) for requirement in requirements]
    return {match[1]: match[2] for match in wanted if match}


def _cores() -> Check:
    return Check("cores", "ok", f"{os.cpu_count()}")


def _memory() -> Check:
    try:
        gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (ValueError, OSError, AttributeError):
        return Check("memory", "warn", "unknown", "2 GB are enough for 1,000 devices")
    enough = gb >= 1.5
    return Check("memory", "ok" if enough else "warn", f"{gb:.1f} GB", "" if enough else "use fewer devices")


def _disk() -> Check:
    try:
        free = shutil.disk_usage(Path.cwd()).free / 2**30
        writable = os.access(Path.cwd(), os.W_OK)
    except OSError as error:
        return Check("folder", "fail", str(error), "change to a folder that exists")
    if not writable:
        return Check("folder", "fail", f"{Path.cwd()} is not writable", "change to another folder, or use --out")
    enough = free >= _FREE_GB
    return Check("disk", "ok" if enough else "warn", f"{free:.1f} GB free", "" if enough else "make room")


def _data() -> Check:
    from clients.sources import find_fashion_mnist

    try:
        return Check("Fashion-MNIST", "ok", find_fashion_mnist(None, fetch=False).source)
    except ClientError as error:
        return Check(
            "Fashion-MNIST",
            "warn",
            str(error).splitlines()[0],
            "bfl simulate tries to fetch it; or --dataset synthetic",
        )
