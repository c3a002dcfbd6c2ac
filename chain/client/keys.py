"""Keys of participants: keystore v3 files on real machines, derived from the seed in simulation (P3)."""

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_keys import keys
from eth_keys.exceptions import BadSignature, ValidationError

from chain import limit_recursion
from chain.errors import KeyFileError
from chain.wire.address import Address

limit_recursion()
_SECP256K1_N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_OTHERS = 0o077
_MOST_BYTES = 1 << 16
_MOST_WORK = 2**23  # scrypt's n * r * p, four times the default: a damaged number must not take all memory


def new_account() -> LocalAccount:
    """An account with a new key from the operating system's randomness."""
    return _account(secrets.token_bytes(32))


def simulated_account(network: bytes, name: str) -> LocalAccount:
    """The key of `name` in a simulation; `network` is a digest of seed and parameters, so that networks share no key.

    Anybody can derive it: never use one on a real network.
    """
    digest = hashlib.sha256(b"bfl simulated key\x00" + network + b"\x00" + name.encode()).digest()
    return _account((int.from_bytes(digest, "big") % (_SECP256K1_N - 1) + 1).to_bytes(32, "big"))


def _account(secret: bytes) -> LocalAccount:
    account: LocalAccount = Account.from_key(secret)
    return account


def address_of(account: LocalAccount) -> Address:
    """The address that its key signs for."""
    return Address(account.address)


def public_key_of(account: LocalAccount) -> bytes:
    """Compressed: what data are sealed to."""
    return bytes(keys.PrivateKey(bytes(account.key)).public_key.to_compressed_bytes())


def address_of_key(public_key: bytes) -> Address:
    """The address of a compressed public key; `KeyFileError` where it is none."""
    try:
        return Address(keys.PublicKey.from_compressed_bytes(public_key).to_canonical_address())
    except (ValueError, BadSignature, ValidationError) as error:
        raise KeyFileError(f"found {len(public_key)} bytes that are no public key: {error}") from error


def save_key(path: Path, account: LocalAccount, password: str, work: int | None = None) -> None:
    """Write a keystore v3 file that only its owner can read; `work` is scrypt's n (default 2**18)."""
    if not password:
        raise KeyFileError("the password is empty; a key file without one is open to whoever copies it")
    content = json.dumps(Account.encrypt(account.key, password, iterations=work))
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise KeyFileError(f"{path} exists; a key file is never overwritten") from error
    except OSError as error:
        raise KeyFileError(f"{path} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink()  # half a key file would only be in the way
        raise KeyFileError(f"{path} cannot be written: {error.strerror}") from error


def load_key(path: Path, password: str) -> LocalAccount:
    """The key in a keystore v3 file."""
    _check_private(path)
    try:
        with path.open("rb") as file:
            content: Any = json.loads(file.read(_MOST_BYTES))  # what is longer is cut, so no JSON
    except (OSError, ValueError, RecursionError) as error:
        raise KeyFileError(f"{path} is no keystore: {error}") from error
    if not isinstance(content, dict) or content.get("version") != 3:
        raise KeyFileError(f"{path} is no keystore of version 3")
    try:
        _check_work(content["crypto"]["kdfparams"], path)
        account = _account(bytes(Account.decrypt(content, password)))
    except ValueError as error:
        raise KeyFileError(f"{path}: {error}; wrong password, or a damaged file") from error
    except (KeyError, TypeError, AttributeError, ArithmeticError, NotImplementedError) as error:
        raise KeyFileError(f"{path} is a damaged keystore: {error!r}") from error
    _check_address(account, content.get("address"), path)
    return account


def _check_work(params: Any, path: Path) -> None:
    work = params["n"] * params["r"] * params["p"] if "n" in params else params["c"]
    if not 0 < work <= _MOST_WORK or params["dklen"] != 32:
        raise KeyFileError(f"{path} is a damaged keystore: found the work {params}, expected at most {_MOST_WORK}")


def _check_address(account: LocalAccount, named: object, path: Path) -> None:
    """The format's checksum leaves out the initial vector: with another one the file decrypts to another key."""
    if named is not None and str(named).lower().removeprefix("0x") != address_of(account).hex():
        raise KeyFileError(f"{path} is damaged: it holds the key of {account.address}, expected that of {named}")


def _check_private(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from error
    if os.name == "posix" and mode & _OTHERS:
        raise KeyFileError(f"{path} can be read by others (mode {mode & 0o777:o}); run: chmod 600 {path}")
