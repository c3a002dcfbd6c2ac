"""Keys: golden addresses in simulation, keystore files that only their owner opens, and every damage named."""

import copy
import errno
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from hypothesis import given
from hypothesis import strategies as st

from chain.client.keys import address_of, load_key, new_account, save_key, simulated_account
from chain.errors import KeyFileError
from tests.chain.network import account

REPOSITORY = Path(__file__).parents[3]
ALICE = account("alice")
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
QUICK = 2  # scrypt's n; tests have no secrets


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_key(tmp_path / "key.json", ALICE, "secret", QUICK)
    return tmp_path / "key.json"


# --- in simulation


def test_a_simulated_key_is_the_digest_of_network_and_name() -> None:
    digest = hashlib.sha256(b"bfl simulated key\x00" + b"net" + b"\x00" + b"server 0").digest()
    secret = int.from_bytes(digest, "big") % (ORDER - 1) + 1
    found = simulated_account(b"net", "server 0")
    assert int.from_bytes(found.key, "big") == secret
    assert found.address == Account.from_key(secret.to_bytes(32, "big")).address


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32), st.text(), st.text())
def test_networks_and_names_share_no_key(network: bytes, other: bytes, name: str, another: str) -> None:
    keys = {bytes(simulated_account(n, who).key) for n in (network, other) for who in (name, another)}
    assert len(keys) == len({(n, who) for n in (network, other) for who in (name, another)})


def test_new_keys_are_all_different() -> None:
    assert len({new_account().address for _ in range(20)}) == 20


def test_an_address_has_the_bytes_of_its_hex() -> None:
    assert str(address_of(ALICE)) == ALICE.address.lower()


# --- files


def test_a_saved_key_is_loaded_and_only_its_owner_can_read_it(path: Path) -> None:
    assert load_key(path, "secret") == ALICE
    assert path.stat().st_mode & 0o777 == 0o600
    assert ALICE.key.hex().removeprefix("0x") not in path.read_text()


def test_the_default_work_is_that_of_ethereum_wallets(tmp_path: Path) -> None:
    save_key(tmp_path / "key", ALICE, "secret")
    assert json.loads((tmp_path / "key").read_text())["crypto"]["kdfparams"]["n"] == 2**18
    assert load_key(tmp_path / "key", "secret") == ALICE


def test_a_key_file_is_never_overwritten(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(KeyFileError, match=r"key\.json exists; a key file is never overwritten"):
        save_key(path, account("bob"), "other", QUICK)
    assert path.read_bytes() == before


def test_an_empty_password_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="the password is empty"):
        save_key(tmp_path / "key", ALICE, "", QUICK)
    assert not (tmp_path / "key").exists()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="missing/key cannot be written: No such file"):
        save_key(tmp_path / "missing" / "key", ALICE, "secret", QUICK)


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KeyFileError, match="cannot be written: No space left on device"):
        save_key(tmp_path / "key", ALICE, "secret", QUICK)
    assert not (tmp_path / "key").exists()
    monkeypatch.undo()
    save_key(tmp_path / "key", ALICE, "secret", QUICK)


def test_another_password_is_refused(path: Path) -> None:
    for password in ("Secret", "", "secret "):
        with pytest.raises(KeyFileError, match="wrong password, or a damaged file"):
            load_key(path, password)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o700 | 0o001])
def test_a_file_that_others_can_touch_is_refused_with_the_remedy(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=rf"read by others \(mode {mode:o}\); run: chmod 600 "):
        load_key(path, "secret")
    path.chmod(0o600)
    assert load_key(path, "secret") == ALICE


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="nowhere cannot be read: No such file"):
        load_key(tmp_path / "nowhere", "secret")


def test_a_directory_is_no_keystore(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(mode=0o700)
    with pytest.raises(KeyFileError, match="is no keystore"):
        load_key(tmp_path / "folder", "secret")


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{", "\x00", "1" * 5000, "[" * 99_000, '{"version": 1}', '{"version": 3}',
             '{"version": 3, "crypto": []}', '{"version": 3, "crypto": {"kdfparams": "n"}}'],
)  # fmt: skip
def test_text_that_is_no_keystore_is_refused(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(KeyFileError, match=r"is no keystore|is a damaged keystore"):
        load_key(path, "secret")


def test_bytes_that_are_no_text_are_refused(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(KeyFileError, match="is no keystore"):
        load_key(path, "secret")


def places(content: dict[str, Any], before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, value in content.items():
        found += [(*before, name), *(places(value, (*before, name)) if isinstance(value, dict) else [])]
    return found


@pytest.mark.parametrize("damage", [None, "", "00", "zz", 0, -1, 1.5, True, 2**40, 2**70, [], {}, "scrypt", "pbkdf2"])
def test_a_damaged_field_is_refused_or_does_not_matter(path: Path, damage: Any) -> None:
    """Never another key, never a traceback, never a scrypt that takes all memory."""
    honest = json.loads(path.read_text())
    for place in places(honest):
        content = copy.deepcopy(honest)
        part = content
        for name in place[:-1]:
            part = part[name]
        part[place[-1]] = damage
        path.write_text(json.dumps(content))
        try:
            found = load_key(path, "secret")
        except KeyFileError:
            continue
        assert found == ALICE, f"{place} = {damage!r} gave another key"


def test_another_initial_vector_does_not_give_another_key(path: Path) -> None:
    """The format's checksum does not cover it."""
    content = json.loads(path.read_text())
    content["crypto"]["cipherparams"]["iv"] = "00" * 16
    path.write_text(json.dumps(content))
    with pytest.raises(KeyFileError, match=f"holds the key of 0x.*, expected that of {ALICE.address[2:]}"):
        load_key(path, "secret")


def test_keys_of_other_wallets_are_read(path: Path) -> None:
    content = Account.encrypt(ALICE.key, "secret", kdf="pbkdf2", iterations=10)
    for address in (ALICE.address, ALICE.address.lower()[2:], None):
        written = {name: value for name, value in content.items() if name != "address"}
        path.write_text(json.dumps(written | ({"address": address} if address else {})))
        assert load_key(path, "secret") == ALICE


def test_keys_need_neither_py_evm_nor_web3() -> None:
    code = "import sys; sys.modules['eth'] = sys.modules['web3'] = None; import chain.client.keys"
    shown = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0, shown.stderr


def test_a_key_file_of_megabytes_is_no_keystore(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_text("[" + "0," * (1 << 16) + "0]")
    path.chmod(0o600)
    with pytest.raises(KeyFileError, match="is no keystore"):
        load_key(path, "secret")
