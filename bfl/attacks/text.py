"""The setting `attack` as a text: `KIND@ROUNDS[:key=value,...]`, separated by semicolons (docs/attacks.md)."""

import math
from collections.abc import Iterable, Mapping

from bfl.attacks.kinds import CHAIN_ONLY, KINDS, LEADER, PHASES, REQUIRED, STEPPED, Attack
from bfl.attacks.own import OPTIONS, POSTS
from bfl.errors import ConfigError
from clients.parameters import did_you_mean
from clients.plugins import is_named
from edge_servers.learning.schemes import scheme_of
from edge_servers.parameters import ON_CHAIN, RoundParams

STRONGEST, MAX_STEP = 1e6, 10_000


def read_attacks(text: str, edges: int, devices: int) -> tuple[Attack, ...]:
    """The attacks of a text, separated by semicolons; `ConfigError` says what was found and what is expected."""
    return tuple(_read_attack(part.strip(), edges, devices) for part in text.split(";") if part.strip())


def check_possible(attacks: Iterable[Attack], rounds: RoundParams) -> None:
    """Raise `ConfigError` for an attack that never comes: it would be missed without a word."""
    gossips = scheme_of(rounds.scheme).gossips
    most = 0 if not gossips else rounds.max_phi if rounds.is_auto_phi else rounds.first_phi
    for attack in attacks:
        first = min((part.start for part in attack.rounds), default=1) if attack.rounds is not None else 1
        if first > rounds.rounds:
            raise refusal(f"{attack.kind}: ", f"round {first} as its first", f"1 to {rounds.rounds}; see --rounds")
        of_a_step = attack.kind in STEPPED or (attack.kind == "iterate-noise" and gossips)
        if of_a_step and attack.step > most:
            raise refusal(f"{attack.kind}: ", f"step={attack.step}", f"0 to {most}, the consensus steps of a round")
        if attack.kind in CHAIN_ONLY and not rounds.is_on_chain:
            raise refusal(f"{attack.kind}: ", f"scheme {rounds.scheme}", f"one on a chain: {', '.join(ON_CHAIN)}")


def refusal(where: str, found: str, expected: str) -> ConfigError:
    """The error about a text that is no attack, or none that can happen."""
    return ConfigError(f"attack: {where}found {found}, expected {expected}")


def _read_attack(text: str, edges: int, devices: int) -> Attack:
    kind, at, rest = (part.strip() for part in text.partition("@"))
    rounds, _, tail = rest.partition(":")
    if at and kind not in KINDS and is_named("attack", kind):
        return _read_own(kind, rounds.strip(), tail, edges, devices)
    kind = kind.partition(":")[0].strip()  # options all the same, before or without rounds
    if kind not in KINDS:
        raise refusal(
            "", f'"{kind}"', f"one of {', '.join(KINDS)}, or your own as module:function{did_you_mean(kind, KINDS)}"
        )
    if not at:
        raise refusal("", f'"{text}"', f"{kind}@ROUNDS, for example {kind}@20,60 or {kind}@all")
    options = {**KINDS[kind], **_read_options(kind, tail, KINDS[kind])}
    if (phase := options.get("phase", "")) not in ("", *PHASES):
        raise refusal(f"{kind}: ", f"phase={phase}", f"one of {', '.join(PHASES)}{did_you_mean(phase, PHASES)}")
    return Attack(
        kind,
        _read_when(kind, rounds),
        _read_strength(kind, options.get("strength", "1")),
        _read_server(kind, options["server"], edges) if "server" in options else None,
        _read_devices(kind, options["device"], devices, KINDS[kind]["device"]) if "device" in options else frozenset(),
        _read_number(kind, "step", options.get("step", "0"), MAX_STEP),
        phase,
    )


def _read_own(kind: str, rounds: str, tail: str, edges: int, devices: int) -> Attack:
    """An attack that somebody else wrote."""
    options = {**OPTIONS, **_read_options(kind, tail, OPTIONS)}
    if bool(options["device"]) == bool(options["server"]):
        raise refusal(f"{kind}: ", "device and server" if options["device"] else "neither", "device=n or server=m")
    if options["post"] not in POSTS:
        raise refusal(f"{kind}: ", f"post={options['post']}", f"one of {', '.join(POSTS)}")
    return Attack(
        kind,
        _read_when(kind, rounds),
        _read_strength(kind, options["strength"]),
        _read_number(kind, "server", options["server"], edges - 1) if options["server"] else None,
        _read_devices(kind, options["device"], devices, "") if options["device"] else frozenset(),
        _read_number(kind, "step", options["step"], MAX_STEP),
        post=options["post"] if options["server"] else "",
    )


def _read_when(kind: str, rounds: str) -> tuple[range, ...] | None:
    return None if rounds.strip() == "all" else tuple(_read_rounds(kind, part) for part in rounds.split(","))


def _read_options(kind: str, text: str, known: Mapping[str, str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in text.split(",") if text.strip() else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if key not in known:
            raise refusal(f"{kind}: ", f'"{key}"', f"{', '.join(known)}{did_you_mean(key, known)}")
        if not equals or not value:
            raise refusal(f"{kind}: ", f'"{part.strip()}"', f"{key}=value")
        if key in options:
            raise refusal(f"{kind}: ", f"{key} twice", "it once (a list is device=3+7)")
        options[key] = value
    return options


def _read_rounds(kind: str, text: str) -> range:
    first, dash, last = (part.strip() for part in text.partition("-"))
    start, end = _whole(first), _whole(last if dash else first)
    if start is None or end is None or not 1 <= start <= end:
        raise refusal(f"{kind}: ", f'rounds "{text.strip()}"', "numbers from 1, ranges such as 10-19, or all")
    return range(start, end + 1)


def _read_number(kind: str, key: str, text: str, highest: int, otherwise: str = "") -> int:
    number = _whole(text)
    if number is None or number > highest:
        raise refusal(f"{kind}: ", f"{key}={text}", f"0 to {highest}{otherwise}")
    return number


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _read_server(kind: str, text: str, edges: int) -> int | None:
    """A number; or the leader, of what only the leader does."""
    may_lead = KINDS[kind]["server"] == LEADER
    if may_lead and text == LEADER:
        return None
    return _read_number(kind, "server", text, edges - 1, f" or {LEADER}" if may_lead else "")


def _read_devices(kind: str, text: str, devices: int, otherwise: str) -> frozenset[int]:
    if text == REQUIRED:
        raise refusal(f"{kind}: ", "no device", "device=n, or a list such as device=3+7")
    if text == otherwise:
        return frozenset()
    return frozenset(_read_number(kind, "device", part.strip(), devices - 1) for part in text.split("+"))


def _read_strength(kind: str, text: str) -> float:
    try:
        strength = float(text)
    except ValueError:
        strength = math.nan
    if not 0 < strength <= STRONGEST:
        raise refusal(f"{kind}: ", f"strength={text}", f"more than 0, at most {STRONGEST:g}")
    return strength
