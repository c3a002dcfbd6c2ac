"""Who misbehaves, when, and how strongly: the setting `attack` (docs/attacks.md).

A text such as `iterate-noise@20,60:server=1,step=3; sign-flip@all:device=3` becomes a `Conduct` of each server that
it names and a `PoisonedDevice` for each device. Every random number follows from (seed, round, attacker).
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bfl.attacks.devices import DEVICE_KINDS, REQUIRED, PoisonedDevice, inflated, postable
from bfl.errors import ConfigError
from clients.batches import NodeKey
from clients.device import Device
from clients.models import Vector
from clients.parameters import did_you_mean
from edge_servers.learning.aggregation import SCALE_BITS, FixedPoint
from edge_servers.learning.gradients import Close, Gradient
from edge_servers.learning.schemes import SCHEMES
from edge_servers.ledger.board import Slot
from edge_servers.ledger.conduct import WITHHELD, Conduct, Twice, Withheld, honest
from edge_servers.parameters import Settings
from policy.streams import Purpose, stream

LEADER = "leader"
PHASES = ("plan", "close", "model", "seal")
"""What the leader alone does."""
SERVER_KINDS: Mapping[str, Mapping[str, str]] = {
    "iterate-noise": {"server": "0", "step": "3", "strength": "0.08"},
    "lying-aggregate": {"server": "0", "strength": "1"},
    "poisoned-gradient": {"server": "0", "strength": "5"},
    "inflated-weight": {"server": "0", "strength": "10"},
    "wrong-model": {"server": LEADER, "strength": "0.08"},
    "omitted-gradient": {"server": LEADER, "device": "first"},
    "withheld-iterate": {"server": "0", "step": "3"},
    "equivocation": {"server": "0", "step": "3"},
    "silent-leader": {"server": LEADER, "phase": "model"},
}
KINDS = {**SERVER_KINDS, **DEVICE_KINDS}
"""Each kind with the options it takes and their defaults."""
STRONGEST, MAX_STEP = 1e6, 10_000
_INT32 = np.iinfo(np.int32)


@dataclass(frozen=True)
class Attack:
    """One part of the text."""

    kind: str
    rounds: tuple[range, ...] | None
    """None: all of them."""
    strength: float = 1.0
    server: int | None = None
    """Of a server's attack: who; None is whoever leads."""
    devices: frozenset[int] = frozenset()
    """Of a device's attack: who. Of omitted-gradient: the victims; none is the first in the list."""
    step: int = 0
    phase: str = ""
    _leaders: dict[int, int] = field(default_factory=dict, init=False, compare=False, repr=False)

    def is_on(self, round_: int) -> bool:
        """Whether it happens in a round."""
        return self.rounds is None or any(round_ in part for part in self.rounds)

    def is_played_by(self, server: int, round_: int) -> bool:
        """Whether `server`, which is about to post, is the attacker.

        The leader of an attack is the first that comes to lead: if its successors attacked as well, nobody would be
        left to lead the round.
        """
        return server == (self._leaders.setdefault(round_, server) if self.server is None else self.server)


# --- the text


def read_attacks(text: str, edges: int, devices: int) -> tuple[Attack, ...]:
    """The attacks of a text, separated by semicolons; `ConfigError` says what was found and what is expected."""
    return tuple(_read_attack(part.strip(), edges, devices) for part in text.split(";") if part.strip())


def _refusal(where: str, found: str, expected: str) -> ConfigError:
    return ConfigError(f"attack: {where}found {found}, expected {expected}")


def _read_attack(text: str, edges: int, devices: int) -> Attack:
    head, _, tail = text.partition(":")
    kind, at, rounds = (part.strip() for part in head.partition("@"))
    if kind not in KINDS:
        raise _refusal("", f'"{kind}"', f"one of {', '.join(KINDS)}{did_you_mean(kind, KINDS)}")
    if not at:
        raise _refusal("", f'"{text}"', f"{kind}@ROUNDS, for example {kind}@20,60 or {kind}@all")
    options = {**KINDS[kind], **_read_options(kind, tail)}
    if (phase := options.get("phase", "")) not in ("", *PHASES):
        raise _refusal(f"{kind}: ", f"phase={phase}", f"one of {', '.join(PHASES)}{did_you_mean(phase, PHASES)}")
    return Attack(
        kind,
        None if rounds == "all" else tuple(_read_rounds(kind, part) for part in rounds.split(",")),
        _read_strength(kind, options.get("strength", "1")),
        _read_server(kind, options["server"], edges) if "server" in options else None,
        _read_devices(kind, options["device"], devices) if "device" in options else frozenset(),
        _read_number(kind, "step", options.get("step", "0"), MAX_STEP),
        phase,
    )


def _read_options(kind: str, text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in text.split(",") if text.strip() else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if key not in KINDS[kind]:
            raise _refusal(f"{kind}: ", f'"{key}"', f"{', '.join(KINDS[kind])}{did_you_mean(key, KINDS[kind])}")
        if not equals or not value:
            raise _refusal(f"{kind}: ", f'"{part.strip()}"', f"{key}=value")
        if key in options:
            raise _refusal(f"{kind}: ", f"{key} twice", "it once (a list is device=3+7)")
        options[key] = value
    return options


def _read_rounds(kind: str, text: str) -> range:
    first, dash, last = (part.strip() for part in text.partition("-"))
    start, end = _whole(first), _whole(last if dash else first)
    if start is None or end is None or not 1 <= start <= end:
        raise _refusal(f"{kind}: ", f'rounds "{text.strip()}"', "numbers from 1, ranges such as 10-19, or all")
    return range(start, end + 1)


def _read_number(kind: str, key: str, text: str, highest: int, otherwise: str = "") -> int:
    number = _whole(text)
    if number is None or number > highest:
        raise _refusal(f"{kind}: ", f"{key}={text}", f"0 to {highest}{otherwise}")
    return number


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _read_server(kind: str, text: str, edges: int) -> int | None:
    """A number; or the leader, of what only the leader does."""
    may_lead = KINDS[kind]["server"] == LEADER
    if may_lead and text == LEADER:
        return None
    return _read_number(kind, "server", text, edges - 1, f" or {LEADER}" if may_lead else "")


def _read_devices(kind: str, text: str, devices: int) -> frozenset[int]:
    if text == REQUIRED:
        raise _refusal(f"{kind}: ", "no device", "device=n, or a list such as device=3+7")
    if text == KINDS[kind]["device"]:
        return frozenset()
    return frozenset(_read_number(kind, "device", part.strip(), devices - 1) for part in text.split("+"))


def _read_strength(kind: str, text: str) -> float:
    try:
        strength = float(text)
    except ValueError:
        strength = math.nan
    if not 0 < strength <= STRONGEST:
        raise _refusal(f"{kind}: ", f"strength={text}", f"more than 0, at most {STRONGEST:g}")
    return strength


# --- servers


@dataclass(frozen=True)
class Occasion:
    """What an attacking server works with when a post of its is due."""

    attack: Attack
    round: int
    server: int
    settings: Settings
    names: Callable[[str], str]

    @property
    def rng(self) -> np.random.Generator:
        """The attacker's own numbers of this round, from their beginning."""
        return stream(self.settings.data.seed, Purpose.ATTACK, self.round, NodeKey("server", self.server).counter)


def noisy_iterate(x: FixedPoint, occasion: Occasion) -> FixedPoint:
    """The paper's attack:  x - varpi * q,  q ~ N(0, I),  varpi = sigma / (eta * b * M).

    By eq. 12 sigma, the strength, is the standard deviation that the noise has in the model if x is agreed on as it is.
    """
    training, servers = occasion.settings.training, occasion.settings.rounds.edges
    varpi = occasion.attack.strength / (training.learning_rate * training.iterations * servers)
    return _fixed_point(x.astype(np.float64) - varpi * 2**SCALE_BITS * occasion.rng.standard_normal(x.shape))


def noisy_model(model: Vector, occasion: Occasion) -> Vector:
    """w + sigma * q: what `noisy_iterate` would make of the model."""
    q = occasion.rng.standard_normal(model.shape)
    return (model.astype(np.float64) + occasion.attack.strength * q).astype(np.float32)


def lying_aggregate(x: FixedPoint, occasion: Occasion) -> FixedPoint:
    """-strength * x(0), in place of eq. 8."""
    return _fixed_point(x.astype(np.float64) * -occasion.attack.strength)


def poisoned_gradient(gradient: Gradient, occasion: Occasion) -> Gradient:
    """-strength * C_m, of its own training."""
    values = postable(gradient.values.astype(np.float64) * -occasion.attack.strength)
    return dataclasses.replace(gradient, values=values)


def inflated_weight(gradient: Gradient, occasion: Occasion) -> Gradient:
    """Its own gradient with a larger D_m."""
    return dataclasses.replace(gradient, samples=inflated(gradient.samples, occasion.attack.strength))


def shortened_close(close: Close, occasion: Occasion) -> Close:
    """The closed list without its victims, and without a word about them."""
    victims = {f"device {n}" for n in occasion.attack.devices}
    gone = [who for who in close.accepted if occasion.names(who) in victims] if victims else close.accepted[:1]
    return dataclasses.replace(close, accepted=tuple(who for who in close.accepted if who not in gone))


def two_iterates(x: FixedPoint, occasion: Occasion) -> Twice:
    """The right iterate, and one that differs from it in one bit of one value."""
    other = x.copy()
    other[occasion.rng.integers(len(x))] ^= 1
    return Twice(x, other)


def _fixed_point(x: NDArray[np.float64]) -> FixedPoint:
    return np.clip(np.rint(x), _INT32.min, _INT32.max).astype(np.int32)


_ACTS: Mapping[str, tuple[str, Callable[[Any, Occasion], Any]]] = {
    "iterate-noise": ("iterate", noisy_iterate),
    "lying-aggregate": ("iterate", lying_aggregate),
    "poisoned-gradient": ("gradient", poisoned_gradient),
    "inflated-weight": ("gradient", inflated_weight),
    "wrong-model": ("model", noisy_model),
    "omitted-gradient": ("close", shortened_close),
    "withheld-iterate": ("iterate", lambda *_: WITHHELD),
    "equivocation": ("iterate", two_iterates),
    "silent-leader": ("", lambda *_: WITHHELD),
}
"""Which post a kind is about, and what becomes of it; silent-leader has its phase."""


def conduct_of(attacks: Sequence[Attack], server: int, settings: Settings, names: Callable[[str], str]) -> Conduct:
    """How `server` behaves; `names` turns an address into "device 3". Attacks on one post follow in their order."""
    mine = [each for each in attacks if each.kind in SERVER_KINDS and each.server in (server, None)]
    if not mine:
        return honest
    scheme = SCHEMES[settings.rounds.scheme]
    if not scheme.one_model and any(each.phase in ("model", "seal") for each in mine):
        raise _refusal(
            "silent-leader: ", f"scheme {settings.rounds.scheme}", "one in which the leader's model is all's"
        )

    def conduct(slot: Slot, body: Any) -> Any:
        for attack in mine:
            act = _act(attack, slot, scheme.gossips)
            if act is not None and attack.is_played_by(server, slot[0]):
                body = act(body, Occasion(attack, slot[0], server, settings, names))
            if isinstance(body, Withheld | Twice):
                break
        return body

    return conduct


def _act(attack: Attack, slot: Slot, gossips: bool) -> Callable[[Any, Occasion], Any] | None:
    """What an attack does to the post of a slot; None if it leaves it alone."""
    round_, kind, step = slot
    target, act = _ACTS[attack.kind]
    if attack.kind == "iterate-noise" and not gossips:  # the paper poisons the server's model where nobody gossips
        target, act = _ACTS["wrong-model"]
    if not attack.is_on(round_) or kind != (attack.phase or target):
        return None
    is_its_step = step >= attack.step if attack.kind == "withheld-iterate" else step == attack.step
    return act if kind != "iterate" or is_its_step else None


# --- devices


def poison_device(device: Device, attacks: Sequence[Attack], classes: int) -> Device:
    """The device as its attacks have it; itself if there are none."""
    mine = tuple(each for each in attacks if each.kind in DEVICE_KINDS and device.index in each.devices)
    if not mine:
        return device
    own = {each.name: getattr(device, each.name) for each in dataclasses.fields(Device)}
    return PoisonedDevice(**own, attacks=mine, classes=classes)
