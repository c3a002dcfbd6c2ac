"""Kits: complete, private, of one network; and what is said of one that is not."""

import datetime
import shutil
import socket
import ssl
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from typer.testing import CliRunner

from bfl.cli import app
from bfl.errors import BflError
from bfl.network import certificates, making, own_keys, parts
from bfl.network.certificates import Authority
from bfl.network.kits import DeviceKit, EdgeKit, read_device_kit, read_edge_kit, read_kit
from bfl.network.making import make_kits
from bfl.network.own_keys import OwnKeys
from bfl.network.parts import device_parts, supernode_part, whereabouts
from chain.client.keys import address_of, load_key, save_key
from chain.client.tls import TlsFiles
from chain.node.node import Node
from chain.protocol.genesis import read_genesis
from chain.wire.address import Address
from chain.wire.identity import Identity
from clients.errors import ClientError, WalletError
from clients.joined import OwnChoice, open_device, read_joined
from clients.orders import vector_digest
from edge_servers.founding.parameters import read_founding_parameters
from edge_servers.replay.record import model_in, parameters_in
from tests.bfl.network.described import SMALL, free_ports, write

PASSWORD = "of a test"  # noqa: S105
NOW = 1_800_000_000.0
PORTS = ("node-port", "owner-port", "devices-port", "edge-port", "link-port")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("operator")
    make_kits(write(folder), folder / "kits", PASSWORD, NOW, work=2)
    return folder / "kits"


@pytest.fixture
def kits(made: Path, tmp_path: Path) -> Path:
    """A set of kits of one's own."""
    return Path(shutil.copytree(made, tmp_path / "kits"))


def test_every_machine_has_a_kit_with_its_own_key_and_the_same_founding(made: Path) -> None:
    edges = {name: read_edge_kit(made / name) for name in ("edge-a", "edge-b", "edge-c")}
    devices = {name: read_device_kit(made / name) for name in ("pi-1", "pi-2")}
    found: dict[str, EdgeKit | DeviceKit] = {**edges, **devices}
    keys = {name: address_of(load_key(kit.key_file, PASSWORD)) for name, kit in found.items()}
    assert len(set(keys.values())) == len(keys)
    assert [str(keys[name]) for name in found] == [kit.config.key_address for kit in found.values()]
    assert len({kit.config.founding_block for kit in found.values()}) == 1
    assert len({(kit.folder / "genesis.json").read_text() for kit in found.values()}) == 1
    assert [place.name for place in edges["edge-b"].config.peers] == ["edge-a", "edge-c"]
    assert [place.node_port for place in devices["pi-1"].config.edges] == [8545, 8545, 9545]


def test_home_and_standby_know_a_device_by_its_flower_key_and_it_knows_where_they_are(made: Path) -> None:
    device, others = read_device_kit(made / "pi-1"), ("edge-b", "edge-c")
    assert (device.config.home_place.name, device.config.standby_place and device.config.standby_place.name) == others
    home, standby = (read_edge_kit(made / name).config.devices for name in others)
    assert [(each.name, each.index) for each in home] == [("pi-1", 0), ("pi-2", 1)]
    assert home == standby
    assert read_edge_kit(made / "edge-a").config.devices == ()
    at_home, away = (supernode_part(device, PASSWORD, is_at_home) for is_at_home in (True, False))
    assert (at_home.command[2], at_home.told) == ("edge-b.local:9100", "at edge-b, its home")
    assert (away.command[2], away.told) == ("10.0.0.3:9100", "at edge-c, its standby")
    assert [*at_home.command[:2], *at_home.command[3:]] == [*away.command[:2], *away.command[3:]]


def test_a_kit_without_a_standby_is_watched_by_nobody(kits: Path) -> None:
    config = kits / "pi-1" / "config.toml"
    told = config.read_text()
    config.write_text(told.replace('standby = "edge-c"\n', ""))
    assert whereabouts(read_device_kit(kits / "pi-1")) is None
    config.write_text(told.replace('standby = "edge-c"', 'standby = "edge-x"'))
    with pytest.raises(BflError, match="found standby = 'edge-x', expected the name of one of its edges"):
        whereabouts(read_device_kit(kits / "pi-1"))


def test_what_was_founded_is_what_was_described(made: Path) -> None:
    kit = read_edge_kit(made / "edge-c")
    node = Node.open(kit.database)
    try:
        block = node.block(1)
        assert block is not None
        assert "0x" + block.header.hash.hex() == kit.config.founding_block
        assert node.genesis == read_genesis((kit.folder / "genesis.json").read_text())
        founding = read_founding_parameters(parameters_in(block, node))
    finally:
        node.close()
    assert [(device.home, device.consent.text) for device in founding.network.devices] == [(1, "0,2"), (1, "never")]
    assert [device.standby for device in founding.network.devices] == [2, 2]
    assert str(founding.network.devices[1].address) == read_kit(made / "pi-2").config.key_address
    assert founding.settings.rounds.scheme == "bfl"


def test_nobody_else_reads_a_kit(made: Path) -> None:
    for path in made.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        if path.is_dir() or path.name in ("key.json", "tls.key", "flower.key", "ca.key", "founder.json", "config.toml"):
            assert mode & 0o077 == 0, path
    assert not list(made.rglob("signed.db*")), "a memory of a key is never in a kit (D5)"
    assert not (made / "edge-a" / "ca.key").exists()


def test_certificates_speak_for_their_machines(made: Path) -> None:
    for name, host in (("edge-a", "10.0.0.1"), ("edge-b", "edge-b.local"), ("pi-1", "127.0.0.1")):
        files = TlsFiles(made / name / "tls.crt", made / name / "tls.key", made / name / "ca.crt")
        assert isinstance(files.server_context(), ssl.SSLContext)
        certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = names.get_values_for_type(x509.DNSName) + list(map(str, names.get_values_for_type(x509.IPAddress)))
        assert host in hosts


def test_made_again_nothing_is_done_and_another_network_is_refused(made: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    assert make_kits(write(tmp_path), made, PASSWORD, NOW) == [f"the kits of this network are in {made} already"]
    with pytest.raises(BflError, match="the kits of another description"):
        make_kits(write(tmp_path, SMALL.replace("greenhouse", "other")), made, PASSWORD, NOW)
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*")} == before
    with pytest.raises(BflError, match="does not exist; make it"):
        make_kits(write(tmp_path), tmp_path / "nowhere" / "kits", PASSWORD, NOW)
    (tmp_path / "mine").mkdir()
    with pytest.raises(BflError, match="exists and has no kits"):
        make_kits(write(tmp_path), tmp_path / "mine", PASSWORD, NOW)


def test_half_a_set_of_kits_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Authority, "save", fails)
    with pytest.raises(OSError, match="No space"):
        make_kits(write(tmp_path), tmp_path / "kits", PASSWORD, NOW, work=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["network.toml"]


# --- a kit that is not right


def test_a_kit_of_another_role_a_missing_file_and_a_readable_key_are_told(kits: Path) -> None:
    with pytest.raises(BflError, match="is the kit of device pi-1, expected an edge's"):
        read_edge_kit(kits / "pi-1")
    with pytest.raises(BflError, match="is the kit of edge edge-a, expected a device's"):
        read_device_kit(kits / "edge-a")
    with pytest.raises(BflError, match=r"is no kit: found no config.toml; make kits with: bfl network init"):
        read_kit(kits)
    (kits / "pi-2" / "tls.crt").unlink()
    with pytest.raises(BflError, match=r"found no tls.crt; get that file from the operator again"):
        read_kit(kits / "pi-2")
    (kits / "edge-a" / "key.json").chmod(0o644)
    with pytest.raises(BflError, match=r"can be read by others \(mode 644\); run: chmod 600"):
        read_kit(kits / "edge-a")
    (kits / "edge-c" / "config.toml").write_text('role = "edge"\nname = "edge-c"')
    with pytest.raises(BflError, match="found no network, expected one"):
        read_kit(kits / "edge-c")
    (kits / "edge-b" / "config.toml").write_text("role = [")
    with pytest.raises(BflError, match="is not TOML"):
        read_kit(kits / "edge-b")


def test_another_authority_and_another_machines_certificate_are_told(kits: Path) -> None:
    (kits / "edge-a" / "ca.crt").write_bytes(Authority.create("other").pem)
    with pytest.raises(BflError, match="is not of the authority beside it"):
        read_kit(kits / "edge-a")
    shutil.copy(kits / "edge-c" / "tls.crt", kits / "edge-b" / "tls.crt")
    with pytest.raises(BflError, match="is for another participant"):
        read_kit(kits / "edge-b")
    shutil.copy(kits / "pi-1" / "ca.crt", kits / "pi-1" / "tls.crt")  # of the authority, and for nobody
    with pytest.raises(BflError, match="is for another participant"):
        read_kit(kits / "pi-1")
    (kits / "pi-1" / "tls.crt").write_text("no certificate")
    with pytest.raises(BflError, match="is no certificate"):
        read_kit(kits / "pi-1")


def test_a_kit_has_the_name_it_was_founded_with_and_its_folder_any(kits: Path) -> None:
    (kits / "edge-a").rename(kits / "north")
    config = kits / "north" / "config.toml"
    assert read_edge_kit(kits / "north").config.name == "edge-a"
    config.write_text(config.read_text().replace('name = "edge-a"', 'name = "north"', 1))
    with pytest.raises(BflError, match="found name = 'north', expected edge-a, as it was founded"):
        read_kit(kits / "north")
    device = kits / "pi-1" / "config.toml"
    device.write_text(device.read_text().replace('home = "edge-b"', 'home = "north"'))
    with pytest.raises(BflError, match="found home = 'north', expected the name of one of its edges: edge-a, edge-b"):
        _ = read_device_kit(kits / "pi-1").config.home_place


def test_ports_that_are_taken_are_told_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_PORT_S", 0.0)
    numbers = free_ports(6)
    text = SMALL.replace(
        'address = "10.0.0.1"',
        'address = "127.0.0.1"\n' + "\n".join(f"{key} = {port}" for key, port in zip(PORTS, numbers, strict=False)),
    )
    text = text.replace("hashes-per-s = 500", f"node-port = {numbers[5]}")
    make_kits(write(tmp_path, text), tmp_path / "kits", PASSWORD, NOW, work=2)
    edge, device = read_edge_kit(tmp_path / "kits" / "edge-a"), read_device_kit(tmp_path / "kits" / "pi-2")
    parts.check_ports(edge)
    parts.check_ports(device)
    for number, kit, told in (
        (numbers[0], edge, "the others come to this port"),
        (numbers[4], edge, "or choose another one in .*edge-a/config.toml"),
        (numbers[5], device, "or choose another one in .*pi-2/config.toml"),
    ):
        with (
            socket.create_server(("127.0.0.1", number)),
            pytest.raises(BflError, match=f"port {number} .* is taken.*{told}"),
        ):
            parts.check_ports(kit)


@pytest.mark.parametrize(
    ("days", "told"), [(-1, "ran out on .*, and this machine.s clock says"), (2000, "set the clock")]
)
def test_a_certificate_that_is_not_valid_now_is_told(
    days: int, told: str, kits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = read_kit(kits / "edge-a").config
    authority = Authority.load(kits / "operator")
    if days < 0:
        monkeypatch.setattr(certificates, "MACHINE_DAYS", 0)
        monkeypatch.setattr(certificates, "_EARLIER", datetime.timedelta(days=2))
    else:
        monkeypatch.setattr(certificates, "_EARLIER", datetime.timedelta(days=-1))
    identity, public = Identity(config.chain_id, Address(config.key_address)), OwnKeys.create(is_device=False).public
    (kits / "edge-a" / "tls.crt").write_bytes(authority.certify("edge-a", ["10.0.0.1"], identity, public.tls))
    with pytest.raises(BflError, match=told):
        read_kit(kits / "edge-a")


def test_an_operators_folder_without_its_authority_is_told(kits: Path) -> None:
    assert Authority.load(kits / "operator").pem == (kits / "pi-1" / "ca.crt").read_bytes()
    (kits / "operator" / "ca.key").unlink()
    with pytest.raises(BflError, match="found no authority"):
        Authority.load(kits / "operator")


# --- the command


def test_the_command_makes_kits_and_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BFL_KEY_PASSWORD", PASSWORD)
    for module in (making, own_keys):
        monkeypatch.setattr(module, "save_key", lambda path, account, password, _: save_key(path, account, password, 2))
    words = ["network", "init", str(write(tmp_path)), "--out", str(tmp_path / "kits")]
    ran = CliRunner().invoke(app, words)
    assert ran.exit_code == 0, ran.output
    assert f"5 kits in {tmp_path / 'kits'}" in ran.output
    assert read_kit(tmp_path / "kits" / "edge-a").config.index == 0


def test_what_a_device_is_told_is_what_the_chain_says_of_it(made: Path) -> None:
    joined = read_joined(made / "pi-1" / "founding.json")
    node = Node.open(made / "edge-a" / "chain.db")
    try:
        block = node.block(1)
        assert block is not None
        founding = read_founding_parameters(parameters_in(block, node))
        assert joined.chain.founding_hash == block.header.hash
        assert joined.model_digest == vector_digest(model_in(block, founding, node))
    finally:
        node.close()
    assert joined.genesis == node.genesis
    assert joined.chain.servers == frozenset(founding.network.servers)
    assert (joined.sizes, joined.work) == (founding.sizes, founding.work)


def test_a_founding_file_that_is_damaged_is_told(kits: Path) -> None:
    path = kits / "pi-1" / "founding.json"
    for text, told in (
        ("{}", "found no genesis"),
        ("[", "no JSON"),
        (path.read_text().replace("sizes", "size"), "size"),
    ):
        path.write_text(text)
        with pytest.raises(WalletError, match=told):
            read_joined(path)


def test_a_device_opens_with_its_kit_and_refuses_other_data(kits: Path) -> None:
    kit = read_device_kit(kits / "pi-1")
    account, joined = load_key(kit.key_file, PASSWORD), read_joined(kit.folder / "founding.json")
    device, _ = open_device(joined, kit.config.index, account, OwnChoice(), kit.folder / "device.json")
    assert len(device.share) == joined.work.shares[0]
    fewer = replace(joined, work=replace(joined.work, shares=(7, 7)))
    with pytest.raises(ClientError, match="expected the 7 that this device registered with: is it the right data"):
        open_device(fewer, 0, account, OwnChoice(), kit.folder / "device.json")
    with pytest.raises(ClientError, match="found device 5, expected one of 2"):
        open_device(joined, 5, account, OwnChoice(), kit.folder / "device.json")
    code = replace(joined, settings={**joined.settings, "model": "os:getcwd"})
    with pytest.raises(ClientError, match="code to run on this device; its owner may allow that with allow-plugins"):
        open_device(code, 0, account, OwnChoice(), kit.folder / "device.json")


# --- Flower's stock way (D2)


def test_stock_mode_is_the_owners_choice_and_its_danger_is_told_where_it_is_made(kits: Path) -> None:
    config = kits / "pi-1" / "config.toml"
    text = config.read_text()
    assert read_device_kit(kits / "pi-1").config.flower == "resident"
    assert "whatever program this device's edge sends with an order runs here" in text
    assert "flower" not in (kits / "edge-a" / "config.toml").read_text()
    config.write_text(text.replace('flower = "resident"\n', ""))
    assert read_device_kit(kits / "pi-1").config.flower == "resident", "a kit of before"
    config.write_text(text.replace('flower = "resident"', 'flower = "other"'))
    with pytest.raises(BflError, match="found flower = 'other', expected resident or stock"):
        read_kit(kits / "pi-1")


def test_a_stock_device_has_the_parts_of_its_own_and_no_executor(kits: Path) -> None:
    resident = {part.name: part for part in device_parts(read_device_kit(kits / "pi-1"), PASSWORD)}
    assert list(resident) == ["supernode", "device", "miner"]
    assert PASSWORD not in resident["supernode"].env.values()
    config = kits / "pi-1" / "config.toml"
    config.write_text(config.read_text().replace('flower = "resident"', 'flower = "stock"'))
    stock = {part.name: part for part in device_parts(read_device_kit(kits / "pi-1"), PASSWORD)}
    assert list(stock) == ["supernode", "miner"]
    supernode = stock["supernode"]
    assert (supernode.restarts_with, supernode.needs_child) == ("", "flower-superexec")
    assert not {"--isolation", "--insecure", "--allow-runtime-dependency-installation"} & set(supernode.command)
    assert {"--root-certificates", "--auth-supernode-private-key", "--node-config"} < set(supernode.command)
    assert PASSWORD in supernode.env.values()
    told = CliRunner().invoke(app, ["network", "device-executor", str(kits / "pi-1")])
    assert told.exit_code != 0
    assert "Flower starts a process for each order" in f"{told.output}{told.exception}"
    shown = CliRunner().invoke(app, ["network", "status", str(kits / "pi-1")])
    assert "by a process of Flower's for each" in " ".join(shown.output.split())
