"""The operator's side: an office with a token for each machine, who is admitted, and what each is given.

    office/network.toml    as it was described
    office/operator/       ca.key, ca.crt, founder.json, tokens.json: for whoever runs the network
    office/members/        what machines have told of themselves
    office/grants/         what they are given: nothing in it is secret

A token names the network by its authority's certificate, so that nobody can give a machine another one, and has a
secret that is used once, so that nobody else can take its place.
"""

import hashlib
import hmac
import json
import secrets
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding

from bfl import __version__
from bfl.errors import BflError
from bfl.network.certificates import Authority, write_private
from bfl.network.description import RESERVED, Description, DeviceMachine, read_description
from bfl.network.enrolment.tokens import MOST_REQUEST, SHARED, SIGNATURE, Request, Token, manifest_of, read_token
from bfl.network.founding import samples_described
from bfl.network.kits import DEVICE, EDGE
from bfl.network.making import DESCRIPTION, founded_plan, machines_of
from chain.client.keys import load_key, new_account, save_key
from chain.errors import CodecError
from chain.wire.documents import read_record
from policy.files import making, read_bounded, replacing

_TOKENS, _MEMBERS, _GRANTS = "tokens.json", "members", "grants"
_MOST_TOKENS = 1 << 24


def open_office(description_file: Path, out: Path, password: str, work: int | None, allow_plugins: bool) -> list[str]:
    """Make an office, and a token for each machine; what to tell. Made already, the tokens are told again."""
    description, text = read_description(description_file, allow_plugins), description_file.read_bytes()
    if not out.exists():
        if not out.absolute().parent.is_dir():
            raise BflError(f"{out.parent} does not exist; make it, or choose another --out")
        with making(out) as made:  # half an office is none
            _furnish(made, description, password, work)
            (made / DESCRIPTION).write_bytes(text)
    elif not (out / DESCRIPTION).is_file() or (out / DESCRIPTION).read_bytes() != text:
        raise BflError(f"{out} exists and is not the office of this description; choose another --out")
    return [f"{name}\n  bfl network join {token}" for name, token in _tokens(out).items()]


def _furnish(office: Path, description: Description, password: str, work: int | None) -> None:
    """The authority, the founder's key, and a token for each machine."""
    operator = office / RESERVED
    operator.mkdir(mode=0o700)
    authority = Authority.create(description.name)
    authority.save(operator)
    save_key(operator / "founder.json", new_account(), password, work)
    data, name = description.settings.data, hashlib.sha256(authority.certificate.public_bytes(Encoding.DER))
    tokens = {
        each.name: Token(
            description.name, DEVICE if isinstance(each, DeviceMachine) else EDGE, each.name, name.hexdigest(),
            secrets.token_urlsafe(24), data.dataset, data.seed,
        ).encode()
        for each in machines_of(description)
    }  # fmt: skip
    write_private(operator / _TOKENS, json.dumps(tokens, indent=1).encode())


def _tokens(office: Path) -> dict[str, str]:
    path = office / RESERVED / _TOKENS
    try:
        found: dict[str, str] = json.loads(read_bounded(path, _MOST_TOKENS))
    except (OSError, ValueError) as error:
        raise BflError(f"{office} is no office: {path} cannot be read; make one: bfl network init --tokens") from error
    return found


def admit(office: Path, request_file: Path) -> str:
    """Take a machine's request; what to tell. The same one again changes nothing."""
    request = _read_request(request_file)
    tokens = _tokens(office)
    if request.name not in tokens:
        raise BflError(f"{request_file}: found {request.name!r:.40}, which is no machine of {office / DESCRIPTION}")
    token = read_token(tokens[request.name])
    if (request.network, request.role) != (token.network, token.role):
        of = f"{request.role!r:.20} {request.name} of {request.network!r:.60}"
        raise BflError(f"{request_file} is of {of}: another network's")
    if request.software != __version__:
        made_with = request.software[:20] if request.software.isprintable() else "of another version"
        raise BflError(f"{request_file} was made with bfl {made_with}, this is {__version__}: install the same")
    request.keys()
    if not hmac.compare_digest(request.proof, request.proof_with(token.secret)):
        raise BflError(f"{request_file}: found another secret than that of {request.name}'s token: a wrong token?")
    kept = office / _MEMBERS / f"{request.name}.request"
    kept.parent.mkdir(mode=0o700, exist_ok=True)
    if kept.exists():
        if kept.read_bytes() == request_file.read_bytes():
            return f"{request.name} is admitted already"
        raise BflError(f"{request.name} is admitted with other keys already; if it joins anew, remove {kept}")
    with replacing(kept) as part:
        write_private(part, request_file.read_bytes())
    return f"{request.name} is admitted: {request.role}, address {request.address}{_told_of(request)}"


def _told_of(request: Request) -> str:
    """What the operator should look at: its gradients weigh as many samples as a device says it has."""
    if request.role != DEVICE:
        return ""
    samples = "its part of the data set" if request.samples == SHARED else f"{request.samples:,} samples of its own"
    return f", with {samples}, offloads to {request.offload!r:.60}"


def _read_request(path: Path) -> Request:
    try:
        return read_record(Request, read_bounded(path, MOST_REQUEST))
    except (OSError, CodecError) as error:
        raise BflError(f"{path} is no request of `bfl network join`: {error}") from error


def found(
    office: Path, password: str, now_s: float, allow_plugins: bool = False, before: Path | None = None
) -> list[str]:
    """Found the network with the machines that are admitted, all of them; what each is given. `before`: the chain that
    it goes on from.
    """
    description = read_description(office / DESCRIPTION, allow_plugins)
    machines = machines_of(description)
    grants = office / _GRANTS
    if grants.exists():
        return [f"founded already: {grants}"]
    requests = {each.name: office / _MEMBERS / f"{each.name}.request" for each in machines}
    missing = [name for name, path in requests.items() if not path.is_file()]
    if missing:
        raise BflError(f"found no request of {', '.join(missing)}; admit them first: bfl network admit NAME.request")
    told = {name: _read_request(path) for name, path in requests.items()}
    keys = {name: each.keys() for name, each in told.items()}
    known = [key for each in keys.values() for key in (str(each.address), each.flower) if key]
    if len(set(known)) != len(known):
        raise BflError("two machines have the same key: one of them joins anew")
    founder = load_key(office / RESERVED / "founder.json", password)
    plan = founded_plan(
        _as_told(description, told), keys, _samples(description, told), Authority.load(office / RESERVED), founder,
        now_s, allow_plugins, before,
    )  # fmt: skip
    with making(grants) as made:
        for machine in machines_of(plan.description):
            _write_grant(made / f"{machine.name}.grant", plan.files_of(machine), plan.authority)
    return [
        *plan.founded.beginning,
        f"founded: copy {grants}/NAME.grant into the kit of each machine, and start it there: "
        "bfl network edge KIT, or device KIT",
        *description.warnings,
    ]


def _as_told(description: Description, told: Mapping[str, Request]) -> Description:
    """With what the owners of devices allow, which is theirs to say."""
    names = [edge.name for edge in description.edges]

    def allowed(device: DeviceMachine) -> str:
        offload = told[device.name].offload
        if offload in ("any", "never"):
            return offload
        unknown = [each for each in offload.split(",") if each not in names]
        if unknown:
            raise BflError(
                f"{device.name} offloads to {unknown[0]!r:.40}, which is no edge: expected {', '.join(names)}"
            )
        return offload

    devices = tuple(replace(each, offload=allowed(each), data="") for each in description.devices)
    return replace(description, devices=devices)


def _samples(description: Description, told: Mapping[str, Request]) -> dict[str, int]:
    own = {each.name: told[each.name].samples for each in description.devices}
    shared = samples_described(description) if SHARED in own.values() else {}
    return {name: shared[name] if count == SHARED else count for name, count in own.items()}


def _write_grant(path: Path, files: Mapping[str, bytes], authority: Authority) -> None:
    manifest = manifest_of(files)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {**files, SIGNATURE: authority.sign(manifest)}.items():
            archive.writestr(name, content)
