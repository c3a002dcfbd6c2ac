"""The machine's side: it makes its keys, asks to join, and takes what it is given."""

import hashlib
import json
import re
import tomllib
import zipfile
import zlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key, load_ssh_private_key
from eth_account.signers.local import LocalAccount

from bfl import __version__
from bfl.errors import BflError
from bfl.network.certificates import check_signed, write_private
from bfl.network.enrolment.tokens import SHARED, SIGNATURE, Request, Token, manifest_of
from bfl.network.kits import (
    AUTHORITY,
    CERTIFICATE,
    CONFIG,
    DATABASE,
    DEVICE,
    FOUNDING,
    GENESIS,
    JOINED,
    UNUSED,
    write_given,
)
from bfl.network.own_keys import FLOWER_KEY, KEY, TLS_KEY, OwnKeys, flower_text
from bfl.network.units import CONTAINER, UNIT
from chain.client.keys import address_of, load_key, public_key_of
from chain.wire.documents import canonical_json, read_record
from chain.wire.signatures import sign
from policy.files import making

_OWN_DATA = "data-dir"
_MOST_GRANT = 1 << 30
_PACKED, _ENCRYPTED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED), 1
_GIVEN = {AUTHORITY, CERTIFICATE, CONFIG, CONTAINER, DATABASE, FOUNDING, GENESIS, SIGNATURE, UNIT, UNUSED}


def join(
    token: Token, folder: Path, password: str, data_dir: str = "", offload: str = "any", work: int | None = None
) -> Path:
    """Make the keys of this machine, and its request; where that is. Joined already, the request is made again."""
    is_device = token.role == DEVICE
    if folder.exists() and not (folder / JOINED).is_file():
        raise BflError(f"{folder} exists and is no kit that joins; choose another --out")
    if not folder.exists():
        with making(folder) as made:  # half of its keys are none
            OwnKeys.create(is_device).save(made, password, work)
            write_private(made / JOINED, canonical_json(asdict(token)))
    elif (folder / JOINED).read_bytes() != canonical_json(asdict(token)):
        raise BflError(f"{folder} joins with another token; choose another --out")
    account = load_key(folder / KEY, password)
    samples, data_dir = SHARED, str(Path(data_dir).expanduser().resolve()) if data_dir else ""
    if is_device and data_dir:
        from clients.data import load_dataset  # torch; a supervisor, which lives as long as its machine, needs none

        samples = len(load_dataset(token.dataset, data_dir, token.seed).train)
    if offload not in ("any", "never") and re.fullmatch(r"[a-z0-9-]+(,[a-z0-9-]+)*", offload) is None:
        raise BflError(f"found --offload {offload!r}, expected any, never, or names of edges such as edge-a,edge-c")
    request = _request(token, folder, account, samples, offload)
    path = folder.with_name(f"{token.name}.request")
    path.unlink(missing_ok=True)
    write_private(path, (json.dumps(asdict(request), indent=1) + "\n").encode())
    (folder / _OWN_DATA).write_text(data_dir, encoding="utf-8")
    return path


def _request(token: Token, folder: Path, account: LocalAccount, samples: int, offload: str) -> Request:
    tls = load_pem_private_key((folder / TLS_KEY).read_bytes(), None)
    if not isinstance(tls, ec.EllipticCurvePrivateKey):
        raise BflError(f"{folder / TLS_KEY} is no key of ours; join anew")
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, token.name)])
    asked = x509.CertificateSigningRequestBuilder().subject_name(name).sign(tls, hashes.SHA256())
    flower = ""
    if token.role == DEVICE:
        key: Any = load_ssh_private_key((folder / FLOWER_KEY).read_bytes(), None)
        flower = flower_text(key.public_key())
    request = Request(
        token.network, token.role, token.name, __version__, str(address_of(account)),
        public_key_of(account).hex(), flower, asked.public_bytes(Encoding.PEM).decode(), samples, offload,
    )  # fmt: skip
    signature = bytes(sign(account, request.digest).to_bytes()).hex()
    return replace(request, proof=request.proof_with(token.secret), signature=signature)


def take_grant(folder: Path) -> bool:
    """Unpack what a joining machine was given, where it is there; whether it was. `BflError` where it is another's."""
    grants = sorted(folder.glob("*.grant"))
    if (folder / CONFIG).exists() or not (folder / JOINED).is_file():
        return False
    token = read_record(Token, (folder / JOINED).read_bytes())
    if len(grants) != 1:
        raise BflError(f"{folder} has joined and waits: copy {token.name}.grant of the operator into it")
    files = _read_grant(grants[0])
    try:
        authority = x509.load_pem_x509_certificate(files[AUTHORITY])
    except ValueError as error:
        raise BflError(f"{grants[0]} is no grant: its {AUTHORITY} is no certificate ({error})") from error
    name = hashlib.sha256(authority.public_bytes(Encoding.DER)).hexdigest()
    if name != token.authority:
        raise BflError(f"{grants[0]} is of another network than this machine's token: ask who gave you each of them")
    check_signed(authority, manifest_of(files), files[SIGNATURE])
    told = tomllib.loads(files[CONFIG].decode(errors="replace"))
    if told.get("name") != token.name:
        raise BflError(f"{grants[0]} is the grant of {told.get('name')!s:.40}, this is {token.name}: copy its own")
    own = str(json.loads((folder / KEY).read_bytes()).get("address")).lower().removeprefix("0x")
    if str(told.get("key-address", "")).removeprefix("0x") != own:
        raise BflError(f"{grants[0]} is for other keys of {token.name}: it was admitted with another request")
    given = {each: content for each, content in files.items() if each not in (CONFIG, SIGNATURE)}
    for each in (*given, f"{CONFIG}.part"):  # of a start that was killed here
        (folder / each).unlink(missing_ok=True)
    write_given(folder, given)
    write_private(folder / f"{CONFIG}.part", _with_own_choice(files[CONFIG], folder))
    (folder / f"{CONFIG}.part").rename(folder / CONFIG)  # last: with it the kit is whole
    grants[0].unlink()
    return True


def _with_own_choice(config: bytes, folder: Path) -> bytes:
    """Its owner's data folder, whatever the operator's is; and no code of others, unless its owner writes that."""
    config = config.replace(b"\nallow-plugins = true\n", b"\nallow-plugins = false\n")
    data_dir = (folder / _OWN_DATA).read_text(encoding="utf-8") if (folder / _OWN_DATA).exists() else ""
    own = json.dumps(data_dir).encode()
    return re.sub(rb'\n(data|data-dir) = ".*"\n', lambda line: b"\n" + line[1] + b" = " + own + b"\n", config, count=1)


def _read_grant(path: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            is_plain = all(each.compress_type in _PACKED and not each.flag_bits & _ENCRYPTED for each in entries)
            size = sum(each.file_size for each in entries)
            if {each.filename for each in entries} - _GIVEN or size > _MOST_GRANT or not is_plain:
                raise BflError(f"{path} has other files than a grant")
            files = {each.filename: archive.read(each) for each in entries}
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise BflError(f"{path} is no grant: {error}") from error
    if not {AUTHORITY, CERTIFICATE, CONFIG, GENESIS, SIGNATURE} <= files.keys():
        raise BflError(f"{path} is half a grant; copy it again")
    return files
