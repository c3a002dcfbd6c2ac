"""Mistakes of operators, made one by one with real kits and the commands they would type; what they see as a table.

    flock LOCK python -m benchmarks.mistakes [--only disk] [--verbose] [--write docs/deploy.md]

Needs root: an operator, an edge PC, a device and a second computer are network namespaces with small disks. Exit code 1
where a sentence that the table promises was not said.
"""

import argparse
import datetime
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from benchmarks.typed import Desk, Session, carry, open_desks, short, write_block
from bfl.network.certificates import Authority, write_private
from policy.clock import CLOCK_OFFSET
from tests.clients.idx_files import write_mnist

COMMAND = "python -m benchmarks.mistakes"
_DISK_MB, _COLUMNS = 256, 220
_UP_S, _SAYS_S, _FULL_S = 150.0, 60.0, 15.0
_TOML = """name = "greenhouse"
[settings]
dataset = "fashion-mnist"
data-dir = "data"
hidden = "8"
[chain]
difficulty = 8000
block-s = 2
[[edges]]
name = "edge-a"
address = "{address}"
[[devices]]
name = "pi-1"
home = "edge-a"
hashes-per-s = 2000
"""


@dataclass(frozen=True)
class Row:
    """What was done, what was typed, what the person saw."""

    mistake: str
    line: str
    seen: str
    is_well: bool


@dataclass
class Network:
    """One edge PC, one device, a second computer, and who runs them."""

    desks: dict[str, Desk]
    is_verbose: bool = False
    rows: list[Row] = field(default_factory=list)

    @property
    def operator(self) -> Desk:
        """Who has the office."""
        return self.desks["operator"]

    @property
    def edge(self) -> Desk:
        """The edge PC."""
        return self.desks["edge-a"]

    @property
    def pi(self) -> Desk:
        """The device."""
        return self.desks["pi-1"]

    @property
    def laptop(self) -> Desk:
        """A computer that belongs to no network."""
        return self.desks["laptop"]

    def tried(self, mistake: str, session: Session, expected: str, most_s: float = _SAYS_S) -> Session:
        """Note the line with `expected` (a regular expression), for which a person waits so long at most."""
        pattern = re.compile(expected)
        began = session.text
        session.wait_for(expected, most_s)
        lines = [_told(line) for line in session.text.splitlines() if pattern.search(line)]
        seen = lines[0] if lines else f"({session.last_line})"
        is_told = bool(lines) and "Traceback" not in session.text
        self.rows.append(Row(mistake, session.line, short(seen), is_told))
        print(f"-- {mistake}: {'' if is_told else 'NOT SAID: '}{short(seen)}", file=sys.stderr, flush=True)
        if self.is_verbose or not is_told:
            print(f"{session.desk.name}$ {session.line}\n{short(session.text or began)}", file=sys.stderr, flush=True)
        return session

    def typed(self, mistake: str, desk: Desk, line: str, expected: str) -> None:
        """A command that ends by itself."""
        self.tried(mistake, desk.run(line, _UP_S), expected, 0.1)

    @contextmanager
    def running(self, desk: Desk, line: str, word: str) -> Iterator[Session]:
        """A command that goes on until the end of the block, once it has said something."""
        session = desk.begin(line)
        try:
            if word and not session.wait_for(word, _UP_S):
                raise SystemExit(f"{desk.name}$ {line}: found no {word!r} in\n{session.text}")
            yield session
        finally:
            session.end()

    @contextmanager
    def spoiled(self, kit: Path) -> Iterator[Path]:
        """A kit that is as it was, afterwards."""
        kept = self.operator.folder / f"{kit.name}.kept"
        shutil.copytree(kit, kept)
        try:
            yield kit
        finally:
            shutil.rmtree(kit)
            shutil.copytree(kept, kit)
            shutil.rmtree(kept)


def _told(line: str) -> str:
    """Without the time of a log and the bars of a table."""
    cells = [cell.strip() for cell in line.split("│") if cell.strip()]
    return re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +", "", ": ".join(cells))


def edit(path: Path, old: str, new: str) -> None:
    """As with an editor."""
    text = path.read_text(encoding="utf-8")
    if old not in text:
        raise SystemExit(f"{path}: found no {old!r}")
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


# --- until the network is founded


def older_version(desk: Desk) -> dict[str, str]:
    """An environment in which another version of bfl is installed, as its metadata say."""
    folder = desk.folder / "older-version"
    (folder / "bfl-0.8.1.dist-info").mkdir(parents=True, exist_ok=True)
    (folder / "bfl-0.8.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: bfl\nVersion: 0.8.1\n")
    return {"PYTHONPATH": f"{folder}{os.pathsep}{desk.environment['PYTHONPATH']}"}


def enrol(net: Network) -> None:
    """Tokens, requests, grants: with the mistakes that can be made on the way."""
    write_mnist(net.operator.folder / "data", 300, 60)
    write_mnist(net.edge.folder / "data", 300, 60)
    write_mnist(net.pi.folder / "data", 300, 60)
    write_mnist(net.pi.folder / "other-data", 200, 60)
    (net.operator.folder / "network.toml").write_text(_TOML.format(address=net.edge.address), encoding="utf-8")
    tokens, older = (
        dict(re.findall(r"^([a-z0-9-]+)\n.* (bfl1\.\S+)", net.operator.run(line).text, re.MULTILINE))
        for line in ("bfl network init network.toml --tokens", "bfl network init network.toml --tokens --out older")
    )
    net.typed("a token with letters missing", net.pi, f"bfl network join {tokens['pi-1'][:-7]}", "error:")
    net.laptop.run(f"bfl network join {older['pi-1']}")
    carry(net.laptop.folder / "pi-1.request", net.operator.folder / "older.request")
    net.typed("wrong token: that of another office", net.operator, "bfl network admit older.request", "error:")
    net.laptop.extra = older_version(net.laptop)
    net.laptop.run(f"bfl network join {tokens['pi-1']} --out new")
    net.laptop.extra = {}
    carry(net.laptop.folder / "pi-1.request", net.operator.folder / "version.request")
    net.typed("other version, of a machine that joins", net.operator, "bfl network admit version.request", "error:")
    net.edge.run(f"bfl network join {tokens['edge-a']} --data data")
    net.pi.run(f"bfl network join {tokens['pi-1']} --data data")
    for desk in (net.edge, net.pi):
        carry(desk.folder / f"{desk.name}.request", net.operator.folder)
    net.typed("founded before all have asked", net.operator, "bfl network found", "error:")
    net.operator.run("bfl network admit edge-a.request pi-1.request")
    net.laptop.run(f"bfl network join {tokens['pi-1']} --out second")
    carry(net.laptop.folder / "pi-1.request", net.operator.folder / "second.request")
    net.typed("two machines join with one token", net.operator, "bfl network admit second.request", "error:")
    net.typed("started before its grant is there", net.pi, "bfl network device pi-1", "error:")
    net.operator.run("bfl network found")
    for desk in (net.edge, net.pi):
        carry(net.operator.folder / "office" / "grants" / f"{desk.name}.grant", desk.folder / desk.name)
    shutil.move(net.laptop.folder / "pi-1", net.laptop.folder / "older")
    carry(net.operator.folder / "office" / "grants" / "pi-1.grant", net.laptop.folder / "older")
    net.typed("a grant of another network", net.laptop, "bfl network device older", "error:")
    for desk in (net.edge, net.pi):
        desk.run(f"bfl doctor --device {desk.name}")


# --- with kits, before anything runs


def dated(net: Network, kit: Path, begins_days: float, ends_days: float) -> None:
    """The machine's certificate again, of the same authority, for another time."""
    authority = Authority.load(net.operator.folder / "office" / "operator")
    old = x509.load_pem_x509_certificate((kit / "tls.crt").read_bytes())
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder().subject_name(old.subject).issuer_name(old.issuer).public_key(old.public_key())
    made = made.serial_number(x509.random_serial_number())
    for each in old.extensions:
        made = made.add_extension(each.value, each.critical)
    made = made.not_valid_before(now + datetime.timedelta(days=begins_days))
    made = made.not_valid_after(now + datetime.timedelta(days=ends_days))
    (kit / "tls.crt").unlink()
    write_private(kit / "tls.crt", made.sign(authority.key, hashes.SHA256()).public_bytes(Encoding.PEM))


def foreign_authority(net: Network) -> None:
    """The ca.crt of another network in a kit."""
    with net.spoiled(net.pi.folder / "pi-1") as kit:
        (kit / "ca.crt").write_bytes((net.operator.folder / "older" / "operator" / "ca.crt").read_bytes())
        net.typed("foreign CA: ca.crt of another network", net.pi, "bfl network device pi-1", "error:")


def expired(net: Network) -> None:
    """A certificate that ran out, or is not valid yet."""
    with net.spoiled(net.edge.folder / "edge-a") as kit:
        dated(net, kit, -900, -75)
        net.typed("expired certificate", net.edge, "bfl network edge edge-a", "error:")


def clock(net: Network) -> None:
    """A clock that is days behind; one that is an hour ahead, on a running network."""
    net.pi.extra = {CLOCK_OFFSET: f"{-5 * 86400}"}
    net.typed("clock off: five days behind", net.pi, "bfl network device pi-1", "error:")
    net.pi.extra = {}


def password(net: Network) -> None:
    """A wrong one; and a key that others can read."""
    right, net.pi.password = net.pi.password, "forgotten"
    net.typed("lost password: another one is typed", net.pi, "bfl network device pi-1", "error:")
    net.pi.password = right
    with net.spoiled(net.pi.folder / "pi-1") as kit:
        (kit / "key.json").chmod(0o644)
        net.typed("key file that others can read", net.pi, "bfl network device pi-1", "error:")


def renamed(net: Network) -> None:
    """An edge with another name than it was founded with."""
    with net.spoiled(net.edge.folder / "edge-a") as kit:
        edit(kit / "config.toml", 'name = "edge-a"', 'name = "edge-north"')
        net.typed("edge renamed, in its config.toml", net.edge, "bfl network edge edge-a", "error:")
    with net.spoiled(net.pi.folder / "pi-1") as kit:
        edit(kit / "config.toml", 'home = "edge-a"', 'home = "edge-north"')
        net.typed("edge renamed, in a device's config.toml", net.pi, "bfl network device pi-1", "error:")
    with net.spoiled(net.edge.folder / "edge-a") as kit:
        edit(kit / "config.toml", f'address = "{net.edge.address}"', 'address = "10.77.0.99"')
        session = net.edge.begin("bfl network edge edge-a")
        net.tried("edge with another address than it was founded with", session, "address").end()


def ports(net: Network) -> None:
    """Each port of an edge, and a device's, taken by something else."""
    hold = (
        "import socket, time; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1);"
        "s.bind(('{host}', {port})); s.listen(); print('held', flush=True); time.sleep(600)"
    )
    rows = [(net.edge, "edge", net.edge.address, port) for port in (8545, 9100, 9101)]
    rows += [(net.edge, "edge", "127.0.0.1", port) for port in (8546, 9102)]
    rows += [(net.pi, "device", "127.0.0.1", 9094)]
    for desk, role, host, port in rows:
        code = hold.format(host=host, port=port)
        with net.running(desk, f'{sys.executable} -c "{code}"', "held"):
            session = desk.begin(f"bfl network {role} {desk.name}")
            net.tried(f"port taken: {port}", session, rf"port {port} .*taken").end()


def data_folder(net: Network) -> None:
    """A folder with other data, and one that is not there."""
    for what, name, word in (("of another device", "other-data", "registered"), ("not there", "no-data", "no-data")):
        with net.spoiled(net.pi.folder / "pi-1") as kit:
            edit(kit / "config.toml", "/data", f"/{name}")
            session = net.pi.begin("bfl network device pi-1")
            net.tried(f"wrong data folder: {what}", session, word).end()
            net.typed("the same, asked", net.pi, "bfl doctor --device pi-1", "data .*fail")


def full_disk(net: Network) -> None:
    """No room left: for keys, for a start, and for an edge that runs."""
    token = re.findall(r"bfl1\.\S+", net.operator.run("bfl network init network.toml --tokens").text)[1]
    with full(net.laptop):
        net.typed("disk full, when a machine joins", net.laptop, f"bfl network join {token} --out full", "error:")
    with full(net.edge):
        session = net.edge.begin("bfl network edge edge-a")
        net.tried("disk full, when an edge starts", session, "error:").end()


@contextmanager
def full(desk: Desk) -> Iterator[None]:
    """A disk without room."""
    ballast = desk.folder / ".ballast"
    try:
        with ballast.open("ab") as file:
            block = 1 << 20
            while block:
                try:
                    os.write(file.fileno(), bytes(block))
                except OSError:
                    block //= 2
        yield
    finally:
        ballast.unlink()


# --- beside a network that runs


def away(net: Network) -> None:
    """A device whose edge is off."""
    session = net.pi.begin("bfl network device pi-1")
    net.tried("SuperLink away: the device runs, its edge does not", session, "edge-a does not answer at")
    net.typed("the same, asked", net.pi, "bfl network status pi-1", "does not answer")
    session.end()


def beside(net: Network) -> None:
    """What is done to a network in the middle of its rounds."""
    with net.running(net.edge, "bfl network edge edge-a", "devices come to"):
        net.pi.extra = older_version(net.pi)
        session = net.pi.begin("bfl network device pi-1")
        net.tried("other version, on a device", session, "refused: ", _UP_S).end()
        net.pi.extra = {}
        with net.running(net.pi, "bfl network device pi-1", "answered"):
            net.typed("started twice", net.pi, "bfl network device pi-1", "error:")
            copied(net)
            net.pi.extra = {CLOCK_OFFSET: "3600"}
            net.typed("clock off: an hour ahead", net.pi, "bfl network status pi-1", "clock")
            net.typed("the same, asked", net.pi, "bfl doctor --device pi-1", "clock +│ fail")
            net.pi.extra = {}
            with full(net.edge):
                time.sleep(_FULL_S)
                net.typed("disk full, while an edge runs", net.edge, "bfl network status edge-a", "MB free")


def copied(net: Network) -> None:
    """The kits of two machines that run, on a third one."""
    for name, desk in (("pi-1", net.pi), ("edge-a", net.edge)):
        shutil.copytree(desk.folder / name, net.laptop.folder / name, ignore=shutil.ignore_patterns(".lock", "*.db-*"))
    net.laptop.password = net.pi.password
    copy = net.laptop.begin("bfl network device pi-1")
    net.tried("two machines with one kit: a device's copy", copy, "has this device running already").end()
    line = "bfl network logs edge-a --part superlink"
    net.typed("the same, at its edge; the first machine goes on", net.edge, line, "came a second time")
    net.typed("two machines with one kit: an edge's copy", net.laptop, "bfl network edge edge-a", "error:")


MISTAKES: dict[str, Callable[[Network], None]] = {
    "foreign": foreign_authority,
    "expired": expired,
    "clock": clock,
    "password": password,
    "renamed": renamed,
    "ports": ports,
    "data": data_folder,
    "away": away,
    "disk": full_disk,
    "beside": beside,
}


def table(rows: list[Row]) -> str:
    """As a page has it."""
    lines = ["| mistake | command | what the person sees |", "|---|---|---|"]
    for row in rows:
        seen = row.seen.replace("|", "/")
        lines.append(f"| {row.mistake} | `{short(row.line)}` | {seen if row.is_well else 'NOT SAID: ' + seen} |")
    return "\n".join(lines)


def main() -> None:
    """Make them, and print the table or write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=MISTAKES, help="these alone, beside those of enrolment")
    parser.add_argument("--verbose", action="store_true", help="all that the terminals showed")
    parser.add_argument("--write", type=Path, help="the page that has the table")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what it started ends with it
    with open_desks(["operator", "edge-a", "pi-1", "laptop"], _DISK_MB) as desks:
        for desk in desks.values():
            desk.columns = _COLUMNS
        net = Network(desks, options.verbose)
        enrol(net)
        for name, make in MISTAKES.items():
            if options.only is None or name in options.only:
                make(net)
    if options.write is None:
        print(table(net.rows))
    else:
        write_block(options.write, COMMAND, table(net.rows))
    sys.exit(0 if all(row.is_well for row in net.rows) else 1)


if __name__ == "__main__":
    main()
