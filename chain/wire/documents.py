"""Payloads that are documents: canonical JSON, so that one content has one digest."""

import functools
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from chain.errors import CodecError

T = TypeVar("T")
_HASH_BYTES = 32
_HASH = re.compile(r"0x[0-9a-f]{64}")
_CLOSE = "close"
_ROLL = "roll"
_ROLL_KEYS = {"kind", "round", "held", "refused"}
_CLOSE_KEYS = {"kind", "round", "accepted", "refused", "unavailable", "rolls"}


@dataclass(frozen=True)
class ClosedList:
    """The leader's close (P4): accepted gradient transactions in order; refused training nodes with a reason."""

    round: int
    accepted: tuple[bytes, ...]
    refused: tuple[tuple[str, str], ...] = ()
    """(who, reason code)."""
    unavailable: tuple[bytes, ...] = ()
    """Gradient transactions whose payloads the leader does not hold: they are not kept with the block (B3)."""
    rolls: tuple[bytes, ...] = ()
    """Transactions of the rolls that the leader received: it answers for what is in them (D3.6)."""

    def __post_init__(self) -> None:
        named = [*self.accepted, *self.unavailable, *self.rolls]
        if any(len(each) != _HASH_BYTES for each in named):
            raise CodecError(f"closed list: expected transaction hashes of {_HASH_BYTES} bytes")
        if len(set(named)) != len(named):  # it would weigh twice in every sum
            raise CodecError("closed list: found a gradient that is named twice")

    def encode(self) -> bytes:
        """The list as canonical JSON: what is hashed, and beside the post."""
        return canonical_json(
            {
                "kind": _CLOSE,
                "round": self.round,
                "accepted": ["0x" + each.hex() for each in self.accepted],
                "refused": [list(each) for each in self.refused],
                "unavailable": ["0x" + each.hex() for each in self.unavailable],
                "rolls": ["0x" + each.hex() for each in self.rolls],
            }
        )

    @classmethod
    def decode(cls, payload: bytes) -> "ClosedList":
        """The reverse of `encode`; `CodecError` unless the payload is in canonical form."""
        content = read_canonical_json(payload)
        if not isinstance(content, dict) or content.keys() != _CLOSE_KEYS or content["kind"] != _CLOSE:
            raise CodecError(f"found no closed list: expected the keys {', '.join(sorted(_CLOSE_KEYS))}")
        if type(content["round"]) is not int:
            raise CodecError("closed list: expected round to be a whole number")
        accepted, unavailable, rolls = (_hashes_in(content, name) for name in ("accepted", "unavailable", "rolls"))
        return cls(content["round"], accepted, _refusals_in(content), unavailable, rolls)


@dataclass(frozen=True)
class Roll:
    """What a home server has of its cluster when the time of training is over (D3.6). What the close answers for: a
    gradient outside a roll that it cites is late, and nobody's fault.
    """

    round: int
    held: tuple[bytes, ...]
    """Gradient transactions, those of the server itself among them."""
    refused: tuple[tuple[str, str], ...] = ()
    """(who, reason code)."""

    def encode(self) -> bytes:
        """The roll as canonical JSON: what is hashed, and beside the post."""
        held, refused = ["0x" + each.hex() for each in self.held], [list(each) for each in self.refused]
        return canonical_json({"kind": _ROLL, "round": self.round, "held": held, "refused": refused})

    @classmethod
    def decode(cls, payload: bytes) -> "Roll":
        """The reverse of `encode`; `CodecError` unless the payload is in canonical form."""
        content = read_canonical_json(payload)
        if not isinstance(content, dict) or content.keys() != _ROLL_KEYS or content["kind"] != _ROLL:
            raise CodecError(f"found no roll: expected the keys {', '.join(sorted(_ROLL_KEYS))}")
        if type(content["round"]) is not int:
            raise CodecError("roll: expected round to be a whole number")
        return cls(content["round"], _hashes_in(content, "held"), _refusals_in(content))


def _hashes_in(content: dict[str, Any], name: str) -> tuple[bytes, ...]:
    """The transaction hashes in a field of a document."""
    found = content[name]
    if not isinstance(found, list) or not all(_is_hash(each) for each in found):
        raise CodecError(f"{content['kind']}: expected {name} to be a list of transaction hashes")
    return tuple(bytes.fromhex(each[2:]) for each in found)


def _refusals_in(content: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Who is refused in a document, and why."""
    refused = content["refused"]
    if not isinstance(refused, list) or not all(_is_refusal(each) for each in refused):
        raise CodecError(f"{content['kind']}: expected refused to be a list of [who, reason]")
    return tuple((who, why) for who, why in refused)


def _is_hash(found: Any) -> bool:
    return isinstance(found, str) and _HASH.fullmatch(found) is not None


def _is_refusal(found: Any) -> bool:
    return isinstance(found, list) and len(found) == 2 and all(isinstance(each, str) for each in found)


def canonical_json(content: Any) -> bytes:
    """Sorted keys, no spaces, no NaN, UTF-8."""
    try:
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise CodecError(f"found content that has no canonical JSON: {error}") from error


def canonical_digest(content: Any) -> str:
    """sha256 of canonical JSON."""
    return hashlib.sha256(canonical_json(content)).hexdigest()


def read_canonical_json(payload: bytes) -> Any:
    """Content of canonical JSON; `CodecError` if it is another form of the same content, or none."""
    try:
        content = json.loads(payload)
        is_canonical = canonical_json(content) == payload
    except (ValueError, RecursionError, TypeError) as error:
        raise CodecError(f"found no JSON: {error}") from error
    if not is_canonical:
        raise CodecError("found JSON that is not in canonical form: expected sorted keys and no spaces")
    return content


def read_record(kind: Callable[..., T], payload: bytes | str) -> T:
    """A frozen dataclass from a JSON object with exactly its fields, in their types; `CodecError` says what was found.

    Fields with a default may be left out. Nothing is converted but whole numbers to floats: "3" and true are none.
    """
    try:
        found: T = _adapter(kind).validate_json(payload, strict=True)
        return found
    except ValidationError as error:
        raise CodecError(_misfit(kind, payload, error)) from error


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _misfit(kind: Any, payload: bytes | str, error: ValidationError) -> str:
    """What was found and expected, by field and not by pydantic's error."""
    known, problems = get_type_hints(kind), error.errors(include_url=False, include_context=False)
    try:
        content = json.loads(payload)
    except (ValueError, TypeError, RecursionError) as no_json:
        return f"found no JSON: {no_json}"
    if not isinstance(content, dict):
        return f"found {content!r:.80}, expected an object with the keys {', '.join(known)}"
    if not problems[0]["loc"]:  # JSON to Python alone: lists too deep, half of a surrogate
        return f"found no JSON: {problems[0]['msg']}"
    missing = ", ".join(str(each["loc"][0]) for each in problems if each["type"] == "missing")
    unknown = ", ".join(repr(key) for key in content if key not in known)
    if missing or unknown:
        found = [f"no {missing}"] * bool(missing) + [f"unknown keys {unknown:.200}"] * bool(unknown)
        return f"found {' and '.join(found)}" + (f", expected only {', '.join(known)}" if unknown else "")
    name = str(problems[0]["loc"][0])
    expected = known[name].__name__ if isinstance(known[name], type) else str(known[name])
    return f"found {name} = {content[name]!r:.80}, expected {expected}"
