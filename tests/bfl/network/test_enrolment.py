"""Machines that join with tokens: keys stay where they were made, and nobody takes another's place."""

import json
import shutil
import signal
import stat
import subprocess
import sys
import zipfile
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bfl.cli import app
from bfl.errors import BflError
from bfl.network.certificates import write_private
from bfl.network.checkup import examine_kit
from bfl.network.enrolment import joining as joining_module
from bfl.network.enrolment import office as office_module
from bfl.network.enrolment.joining import join, take_grant
from bfl.network.enrolment.office import admit, found, open_office
from bfl.network.enrolment.tokens import Token, read_token
from bfl.network.kits import JOINED, DeviceKit, EdgeKit, read_device_kit, read_edge_kit, read_kit
from chain.client.keys import address_of, load_key, save_key
from chain.wire.documents import canonical_json
from clients.joined import read_joined
from tests.bfl.network.described import write

PASSWORD = "of a test"  # noqa: S105
NAMES = ("edge-a", "edge-b", "edge-c", "pi-1", "pi-2")


def tokens_of(folder: Path) -> dict[str, Token]:
    told = open_office(write(folder), folder / "office", PASSWORD, 2, False)
    return {line.split("\n")[0]: read_token(line.split()[-1]) for line in told}


def joined(folder: Path, tokens: dict[str, Token]) -> dict[str, Path]:
    """Every machine has joined, in a place of its own; their requests."""
    requests = {}
    for name, token in tokens.items():
        place = folder / "machines" / name
        place.mkdir(parents=True)
        requests[name] = join(token, place / name, PASSWORD, offload="edge-b" if name == "pi-1" else "any", work=2)
    return requests


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("enrolment")
    requests = joined(folder, tokens_of(folder))
    for request in requests.values():
        admit(folder / "office", request)
    found(folder / "office", PASSWORD, 1_800_000_000.0)
    for name in requests:
        shutil.copy(folder / "office" / "grants" / f"{name}.grant", folder / "machines" / name / name)
        assert take_grant(folder / "machines" / name / name)
        assert not take_grant(folder / "machines" / name / name), "once"
    return folder


def test_every_machine_has_a_whole_kit_whose_keys_it_made_itself(whole: Path) -> None:
    edges = [read_edge_kit(whole / "machines" / name / name) for name in NAMES[:3]]
    devices = [read_device_kit(whole / "machines" / name / name) for name in NAMES[3:]]
    kits: list[EdgeKit | DeviceKit] = [*edges, *devices]
    for kit in kits:
        assert str(address_of(load_key(kit.key_file, PASSWORD))) == kit.config.key_address
        assert kit.tls.client_context() is not None, "its certificate is of its own key"
    assert len({kit.config.founding_block for kit in kits}) == 1
    assert devices[0].config.offload == "1", "what its owner said, not the operator"
    assert read_joined(devices[0].folder / "founding.json").chain.server_keys


def test_the_operator_has_no_key_of_a_machine(whole: Path) -> None:
    names = {path.name for path in (whole / "office").rglob("*") if path.is_file()}
    assert not {"key.json", "tls.key", "flower.key"} & names
    for path in (whole / "office" / "grants").iterdir():
        with zipfile.ZipFile(path) as archive:
            assert not {"key.json", "tls.key", "flower.key"} & set(archive.namelist())
    for path in (whole / "machines").rglob("*.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((whole / "office" / "operator" / "tokens.json").stat().st_mode) == 0o600


def test_done_again_nothing_new_happens(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "again")
    folder = tmp_path / "again"
    request = folder / "machines" / "pi-1" / "pi-1.request"
    assert admit(folder / "office", request) == "pi-1 is admitted already"
    assert found(folder / "office", PASSWORD, 0.0)[0].startswith("founded already")
    assert tokens_of(folder) == tokens_of(folder)


def test_who_has_not_asked_is_named_and_nothing_is_founded(tmp_path: Path) -> None:
    requests = joined(tmp_path, tokens_of(tmp_path))
    admit(tmp_path / "office", requests["edge-a"])
    with pytest.raises(BflError, match="found no request of edge-b, edge-c, pi-1, pi-2; admit them first"):
        found(tmp_path / "office", PASSWORD, 0.0)
    assert not (tmp_path / "office" / "grants").exists()
    with pytest.raises(BflError, match=r"has joined and waits: copy edge-a.grant"):
        take_grant(tmp_path / "machines" / "edge-a" / "edge-a")


def test_wrong_tokens_and_changed_requests_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = tokens_of(tmp_path)
    (tmp_path / "other").mkdir()
    others = tokens_of(tmp_path / "other")
    place = tmp_path / "stranger"
    request = join(others["pi-1"], place, PASSWORD, work=2)
    office = tmp_path / "office"
    with pytest.raises(BflError, match="another secret than that of pi-1's token: a wrong token"):
        admit(office, request)
    own = join(tokens["pi-1"], tmp_path / "pi-1", PASSWORD, work=2)
    said = json.loads(own.read_text())
    for key, value, told in (
        ("samples", 10_000, "not signed with its own keys: it was changed"),
        ("address", "0x" + "00" * 20, "not signed with its own keys"),
        ("software", "0.0.1", "made with bfl 0.0.1"),
        ("name", "pi-9", "no machine of"),
        ("role", "edge", "another network's"),
        ("signature", "zz", "damaged"),
        ("extra", 1, "no request of"),
    ):
        changed = tmp_path / "changed.request"
        changed.write_text(json.dumps({**said, key: value}))
        with pytest.raises(BflError, match=told):
            admit(office, changed)
    admit(office, own)
    again = join(tokens["pi-1"], tmp_path / "second", PASSWORD, work=2)
    with pytest.raises(BflError, match="pi-1 is admitted with other keys already"):
        admit(office, again)
    for text in ("", "bfl1.x", "hello", "bfl1." + "A" * 40):
        with pytest.raises(BflError, match="expected a token"):
            read_token(text)


def test_a_grant_of_another_network_is_refused(whole: Path, tmp_path: Path) -> None:
    tokens = tokens_of(tmp_path)
    join(tokens["pi-1"], tmp_path / "pi-1", PASSWORD, work=2)
    shutil.copy(whole / "office" / "grants" / "pi-1.grant", tmp_path / "pi-1")
    with pytest.raises(BflError, match="of another network than this machine's token"):
        take_grant(tmp_path / "pi-1")
    shutil.copytree(whole / "machines" / "pi-1" / "pi-1", tmp_path / "again")
    (tmp_path / "again" / "config.toml").unlink()
    shutil.copy(whole / "office" / "grants" / "pi-2.grant", tmp_path / "again")
    with pytest.raises(BflError, match="is the grant of pi-2, this is pi-1"):
        take_grant(tmp_path / "again")
    with zipfile.ZipFile(tmp_path / "pi-1" / "pi-1.grant", "w") as archive:
        archive.writestr("../evil", "x")
    with pytest.raises(BflError, match="other files than a grant"):
        take_grant(tmp_path / "pi-1")
    (tmp_path / "pi-1" / "pi-1.grant").write_text("no zip")
    with pytest.raises(BflError, match="is no grant"):
        take_grant(tmp_path / "pi-1")


def test_a_grant_that_was_changed_on_its_way_is_refused_and_one_half_unpacked_is_unpacked_again(
    whole: Path, tmp_path: Path
) -> None:
    kit = Path(shutil.copytree(whole / "machines" / "pi-1" / "pi-1", tmp_path / "pi-1"))
    (kit / "config.toml").unlink()
    grant = kit / "pi-1.grant"
    with zipfile.ZipFile(whole / "office" / "grants" / "pi-1.grant") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    for name, content in (
        ("config.toml", files["config.toml"].replace(b"allow-plugins = false", b"allow-plugins = true")),
        ("founding.json", files["founding.json"].replace(b'"server_keys": [', b'"server_keys": [], "x": [')),
    ):
        assert content != files[name]
        with zipfile.ZipFile(grant, "w") as archive:
            for each, own in {**files, name: content}.items():
                archive.writestr(each, own)
        with pytest.raises(BflError, match="no signature of the network's authority"):
            take_grant(kit)
    shutil.copy(whole / "office" / "grants" / "pi-1.grant", grant)
    assert take_grant(kit), "the files of the killed start are replaced"
    assert read_device_kit(kit).config.allow_plugins is False


def test_doctor_unpacks_a_grant_and_the_data_folder_of_an_edge_is_its_owners(whole: Path, tmp_path: Path) -> None:
    kit = Path(shutil.copytree(whole / "machines" / "edge-a" / "edge-a", tmp_path / "edge-a"))
    (kit / "config.toml").unlink()
    (kit / "data-dir").write_text(str(tmp_path))
    shutil.copy(whole / "office" / "grants" / "edge-a.grant", kit)
    assert examine_kit(kit)[0].status == "ok"
    assert read_edge_kit(kit).config.data_dir == str(tmp_path)


def test_a_network_goes_on_only_when_it_is_founded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BFL_KEY_PASSWORD", PASSWORD)
    ran = CliRunner().invoke(app, ["network", "init", str(write(tmp_path)), "--tokens", "--continue", "chain.db"])
    assert "give it to `bfl network found`" in str(ran.exception)


def test_a_request_shows_no_secret(tmp_path: Path) -> None:
    token = tokens_of(tmp_path)["pi-1"]
    request = join(token, tmp_path / "pi-1", PASSWORD, work=2)
    assert token.secret not in request.read_text()
    assert stat.S_IMODE(request.stat().st_mode) == 0o600


def test_an_office_is_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in ("save_key", "write_private"):
        with monkeypatch.context() as patched:
            patched.setattr(office_module, step, full_disk)
            with pytest.raises(OSError, match="the disk is full"):
                tokens_of(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["network.toml"]
    assert set(tokens_of(tmp_path)) == set(NAMES)


def test_an_office_whose_making_was_killed_is_made_again(tmp_path: Path) -> None:
    write(tmp_path)
    code = (
        "import os, signal; from pathlib import Path; from bfl.network.enrolment import office\n"
        "office.write_private = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "office.open_office(Path('network.toml'), Path('office'), 'of a test', 2, False)"
    )
    killed = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "office").exists()
    assert set(tokens_of(tmp_path)) == set(NAMES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["network.toml", "office"], "nothing else stays"


def test_a_machine_that_joins_has_all_its_keys_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tokens_of(tmp_path)["pi-1"]
    with monkeypatch.context() as patched:
        patched.setattr(joining_module, "write_private", full_disk)
        with pytest.raises(OSError, match="the disk is full"):
            join(token, tmp_path / "pi-1", PASSWORD, work=2)
    assert not (tmp_path / "pi-1").exists()
    assert join(token, tmp_path / "pi-1", PASSWORD, work=2).is_file()
    with pytest.raises(BflError, match=r"has joined and waits: copy NAME\.grant"):
        read_kit(tmp_path / "pi-1")


def full_disk(*_: object) -> None:
    raise OSError("the disk is full")


def test_an_office_of_another_description_is_not_touched(tmp_path: Path) -> None:
    tokens_of(tmp_path)
    (tmp_path / "office" / "network.toml").write_text("name = 'x'")
    with pytest.raises(BflError, match="not the office of this description"):
        tokens_of(tmp_path)
    with pytest.raises(BflError, match="is no office"):
        admit(tmp_path / "nowhere", join(Token("n", "edge", "e", "", "", "synthetic", 0), tmp_path / "e", "p", work=2))


def test_the_commands_say_what_comes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BFL_KEY_PASSWORD", PASSWORD)
    monkeypatch.chdir(tmp_path)
    save = save_key
    monkeypatch.setattr(office_module, "save_key", lambda path, account, password, _: save(path, account, password, 2))
    ran = CliRunner().invoke(app, ["network", "init", str(write(tmp_path)), "--tokens"])
    assert ran.exit_code == 0, ran.output
    assert "pi-1\n  bfl network join bfl1." in ran.output
    assert "bfl network admit *.request, and bfl network found" in ran.output
    told = ran.output.split("\n")
    token = told[told.index("pi-1") + 1].split()[-1]
    ran = CliRunner().invoke(app, ["network", "join", token, "--offload", "never"])
    assert ran.exit_code == 0, ran.output
    assert "send pi-1.request to the operator" in ran.output
    ran = CliRunner().invoke(app, ["network", "admit", "pi-1.request"])
    assert "pi-1 is admitted: device" in ran.output
    ran = CliRunner().invoke(app, ["network", "found"])
    assert "found no request of edge-a" in str(ran.exception)


@pytest.mark.parametrize("method", [None, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_a_grant_of_nonsense_is_none(tmp_path: Path, method: int | None) -> None:
    """Nothing in it has been signed yet when it is opened."""
    token = tokens_of(tmp_path)["pi-1"]
    (tmp_path / "pi-1").mkdir(mode=0o700)
    write_private(tmp_path / "pi-1" / JOINED, canonical_json(asdict(token)))
    path = tmp_path / "pi-1" / "pi-1.grant"
    with zipfile.ZipFile(path, "w", method or zipfile.ZIP_DEFLATED) as archive:
        for name in ("ca.crt", "tls.crt", "config.toml", "genesis.json", "grant.sig"):
            archive.writestr(name, b"junk" * 1000)
    if method is None:  # damaged
        raw = path.read_bytes()
        path.write_bytes(raw[:40] + b"\xff" * 20 + raw[60:])
    with pytest.raises(BflError, match=r"is no grant|other files than a grant"):
        take_grant(tmp_path / "pi-1")


def test_the_operator_is_told_what_a_device_says_of_itself(tmp_path: Path) -> None:
    """Its gradients will weigh as many samples as it says."""
    requests = joined(tmp_path, tokens_of(tmp_path))
    told = admit(tmp_path / "office", requests["pi-1"])
    assert told.endswith("with its part of the data set, offloads to 'edge-b'")
    assert "samples" not in admit(tmp_path / "office", requests["edge-a"])
