"""`bfl network edge`, `device` and their parts: one command per machine, and the programs that it starts (D1)."""

import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bfl.commands.network import password_of, stop_by_signal
from bfl.errors import BflError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from eth_account.signers.local import LocalAccount

    from bfl.network.kits import DeviceKit, EdgeKit, Kit
    from bfl.network.supervision import Part, Supervisor

_CARRIED_OUT = {
    "resident": "by the part device, which stays",
    "stock": "by a process of Flower's for each, which the supernode starts",
}
KitFolder = Annotated[Path, typer.Argument(help="The machine's kit.", metavar="KIT")]


def edge(kit: KitFolder) -> None:
    """Run an edge PC: its chain node, its SuperLink and its edge server, watched and started again. The password of
    its key comes from BFL_KEY_PASSWORD, from systemd's credential bfl-password, or from the terminal. Ctrl-C ends all.
    """
    from bfl.network.kits import read_edge_kit
    from bfl.network.parts import edge_parts

    _take_grant(kit)
    found = read_edge_kit(kit)
    _supervise(found, lambda password: edge_parts(found, password))


def device(kit: KitFolder) -> None:
    """Run a device: its SuperNode, what trains and signs, and its miner, watched and started again. The password of
    its key comes from BFL_KEY_PASSWORD, from systemd's credential bfl-password, or from the terminal. Ctrl-C ends all.
    """
    from bfl.network.kits import read_device_kit
    from bfl.network.parts import device_parts, follow_home

    _take_grant(kit)
    found = read_device_kit(kit)
    _supervise(
        found,
        lambda password: device_parts(found, password),
        lambda password, running, stop: follow_home(found, password, running, stop),
    )


def edge_server(kit: KitFolder) -> None:
    """Run the edge server of a kit alone; its node and its SuperLink run already. `bfl network edge` does it all."""
    from bfl.network.edge_server import run_edge_server
    from bfl.network.kits import read_edge_kit

    stop = stop_by_signal()
    found = read_edge_kit(kit)
    _log_to_terminal()
    run_edge_server(found, _key(found), stop, _print)
    _print("stopped")


def device_executor(kit: KitFolder) -> None:
    """Run what trains and signs on a device alone; its SuperNode runs already. `bfl network device` does it all.
    Where the kit has flower = "stock" there is no such process.
    """
    from bfl.network.devices.resident import run_device
    from bfl.network.kits import STOCK, read_device_kit

    stop = stop_by_signal()
    found = read_device_kit(kit)
    if found.config.flower == STOCK:
        raise BflError(
            f'{kit}: found flower = "{STOCK}": Flower starts a process for each order; run bfl network device'
        )
    _log_to_terminal()
    run_device(found, _key(found), stop, _print)
    _print("stopped")


def _supervise(
    kit: "EdgeKit | DeviceKit",
    parts_of: "Callable[[str], Sequence[Part]]",
    beside: "Callable[[str, Supervisor, threading.Event], None] | None" = None,
) -> None:
    """Run the parts of a machine, which are told the password of its key, until it is stopped; `beside` watches what
    the parts do not.
    """
    from bfl.network.parts import check_ports, read_secret
    from bfl.network.status import check_rests, check_room
    from bfl.network.supervision import Supervisor

    check_rests(kit.folder)
    check_room(kit.folder)
    check_ports(kit)
    stop, password = stop_by_signal(), _password(kit)
    read_secret(kit.folder)
    supervisor = Supervisor(parts_of(password), kit.folder, _print)
    if beside is not None:
        threading.Thread(target=beside, args=(password, supervisor, stop), name="beside", daemon=True).start()
    supervisor.run(stop)


def _take_grant(folder: Path) -> None:
    """A machine that joined with a token unpacks what it was given for its request."""
    from bfl.network.enrolment.joining import take_grant

    if take_grant(folder):
        _print(f"{folder} is a kit now")


def _password(kit: "Kit") -> str:
    """Of the kit's key, and the right one: nothing is started with a wrong one."""
    from bfl.network.own_keys import open_key

    password = password_of(f"the key in {kit.folder}")
    open_key(kit.key_file, password)
    return password


def _key(kit: "Kit") -> "LocalAccount":
    from bfl.network.own_keys import open_key

    return open_key(kit.key_file, password_of(f"the key in {kit.folder}"))


def _log_to_terminal() -> None:
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    for name in ("edge_servers", "bfl"):
        logging.getLogger(name).setLevel(logging.INFO)


def _print(line: str) -> None:
    print(line, flush=True)


def status(kit: KitFolder) -> None:
    """How a machine is: its parts, the nodes that it reaches, its clock beside theirs. Exit code 1 if something is
    wrong.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from bfl.network.kits import DeviceKit, read_kit
    from bfl.network.status import MOST_SKEW_S, find_lack_of_room, last_round, mining_told, nodes_of, parts_of

    found = read_kit(kit)
    config, parts, nodes, lack = found.config, parts_of(kit), nodes_of(found), find_lack_of_room(kit)
    table = Table(title=f"{config.name}, {config.role} {config.index} of {config.network}", title_justify="left")
    for column in ("what", "how", "starts"):
        table.add_column(column)
    for part in parts:
        table.add_row(part.name, part.word, str(part.starts))
    if not parts:
        table.add_row("this machine", f"does not run; start it with: bfl network {config.role} {kit}", "")
    if isinstance(found, DeviceKit):
        table.add_row("orders", _CARRIED_OUT[found.config.flower], "")
        table.add_row("miner's limit", mining_told(found), "")
    if told := last_round(kit):
        table.add_row("last round", told, "")
    if lack:
        table.add_row("its disk", lack, "")
    for node in nodes:
        table.add_row(f"node of {node.name}", escape(node.word), "")
    Console().print(table)
    is_bad = not parts or bool(lack) or any(node.trouble or abs(node.skew_s) > MOST_SKEW_S for node in nodes)
    if is_bad or any(part.pid is None and not part.is_done for part in parts):
        raise typer.Exit(1)


def logs(
    kit: KitFolder,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of the last lines.")] = 50,
    part: Annotated[str, typer.Option(help="Only this part, such as node or edge-server.")] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
) -> None:
    """What the parts of a machine have said, the newest last."""
    from bfl.network.status import LOG, is_of, last_lines

    print("\n".join(last_lines(kit, lines, part)), flush=True)
    stop, path = (stop_by_signal() if follow else None), kit / LOG
    read = path.stat().st_size
    while stop is not None and not stop.wait(0.5):
        if path.stat().st_size < read:  # a new file
            read = 0
        with path.open("rb") as file:
            file.seek(read)
            raw = file.read()
        read += len(raw)
        for line in raw.decode(errors="replace").splitlines():
            if is_of(line, part):
                print(line, flush=True)


def stop(
    kit: KitFolder, within_s: Annotated[float, typer.Option(min=1, help="Longest wait, in seconds.")] = 60.0
) -> None:
    """End everything that runs a kit on this machine."""
    from bfl.network.kits import read_kit
    from bfl.network.status import stop_kit

    name = read_kit(kit).config.name
    print(f"{name} has ended" if stop_kit(kit, within_s) else f"{name} does not run")
