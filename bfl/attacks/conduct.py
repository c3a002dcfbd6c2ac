"""How an attacking server behaves: what becomes of each post on its way to the board (`dishonest.py` wraps it).

Every random number follows from (seed, round, attacker).
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bfl.attacks.devices import inflated, postable
from bfl.attacks.kinds import Attack
from bfl.attacks.own import Scene, attacked
from bfl.attacks.text import refusal
from chain.wire.address import Address
from clients.batches import NodeKey
from clients.models import Vector
from edge_servers.learning.aggregation import SCALE_BITS, FixedPoint
from edge_servers.learning.gradients import Close, Gradient
from edge_servers.learning.schemes import scheme_of
from edge_servers.ledger.board import RoundSlot
from edge_servers.parameters import Settings
from policy.streams import Purpose, stream

_INT32, _FLOAT32 = np.iinfo(np.int32), np.finfo(np.float32)


class Withheld:
    """What a server keeps to itself."""


WITHHELD = Withheld()


class Late:
    """What a server says when its time is over."""


LATE = Late()


@dataclass(frozen=True)
class Twice:
    """Two different posts for one slot."""

    first: Any
    second: Any


Conduct = Callable[[RoundSlot, Any], Any]
"""What becomes of a post on its way out: itself, another, `WITHHELD`, or `Twice`."""


def honest(slot: RoundSlot, body: Any) -> Any:  # noqa: ARG001
    """Post what was computed."""
    return body


@dataclass(frozen=True)
class AttackContext:
    """What an attacking server works with when a post of its is due."""

    attack: Attack
    round: int
    server: int
    settings: Settings
    names: Callable[[Address], str]

    @property
    def rng(self) -> np.random.Generator:
        """The attacker's own numbers of this round, from their beginning."""
        return stream(self.settings.data.seed, Purpose.ATTACK, self.round, NodeKey("server", self.server).counter)


def noisy_iterate(x: FixedPoint, context: AttackContext) -> FixedPoint:
    """The paper's attack:  x - varpi * q,  q ~ N(0, I),  varpi = sigma / (eta * b * M).

    By eq. 12 sigma, the strength, is the standard deviation that the noise has in the model if x is agreed on as it is.
    """
    training, servers = context.settings.training, context.settings.rounds.edges
    varpi = context.attack.strength / (training.learning_rate * training.iterations * servers)
    return _fixed_point(x.astype(np.float64) - varpi * 2**SCALE_BITS * context.rng.standard_normal(x.shape))


def noisy_model(model: Vector, context: AttackContext) -> Vector:
    """w + sigma * q: what `noisy_iterate` would make of the model."""
    q = context.rng.standard_normal(model.shape)
    return (model.astype(np.float64) + context.attack.strength * q).astype(np.float32)


def lying_aggregate(x: FixedPoint, context: AttackContext) -> FixedPoint:
    """-strength * x(0), in place of eq. 8."""
    return _fixed_point(x.astype(np.float64) * -context.attack.strength)


def poisoned_gradient(gradient: Gradient, context: AttackContext) -> Gradient:
    """-strength * C_m, of its own training."""
    values = postable(gradient.values.astype(np.float64) * -context.attack.strength)
    return dataclasses.replace(gradient, values=values)


def inflated_weight(gradient: Gradient, context: AttackContext) -> Gradient:
    """Its own gradient with a larger D_m."""
    return dataclasses.replace(gradient, samples=inflated(gradient.samples, context.attack.strength))


def shortened_close(close: Close, context: AttackContext) -> Close:
    """The closed list without its victims, and without a word about them."""
    victims = {f"device {n}" for n in context.attack.devices}
    gone = [who for who in close.accepted if context.names(who) in victims] if victims else close.accepted[:1]
    return dataclasses.replace(close, accepted=tuple(who for who in close.accepted if who not in gone))


def two_iterates(x: FixedPoint, context: AttackContext) -> Twice:
    """The right iterate, and one that differs from it in one bit of one value."""
    other = x.copy()
    other[context.rng.integers(len(x))] ^= 1
    return Twice(x, other)


def foreign_act(body: Any, context: AttackContext) -> Any:
    """What somebody else's function makes of a gradient, an iterate or a model."""
    attack = context.attack
    scene = Scene(f"server {context.server}", context.round, attack.post, attack.strength, context.rng)
    if attack.post == "gradient":
        return dataclasses.replace(body, values=postable(attacked(attack.kind, body.values, scene)))
    if attack.post == "model":
        return np.clip(attacked(attack.kind, body, scene), -_FLOAT32.max, _FLOAT32.max).astype(np.float32)
    return _fixed_point(attacked(attack.kind, body / 2.0**SCALE_BITS, scene) * 2.0**SCALE_BITS)


def _fixed_point(x: NDArray[np.float64]) -> FixedPoint:
    return np.clip(np.rint(x), _INT32.min, _INT32.max).astype(np.int32)


_ACTS: Mapping[str, tuple[str, Callable[[Any, AttackContext], Any]]] = {
    "iterate-noise": ("iterate", noisy_iterate),
    "lying-aggregate": ("iterate", lying_aggregate),
    "poisoned-gradient": ("gradient", poisoned_gradient),
    "inflated-weight": ("gradient", inflated_weight),
    "withheld-gradient": ("gradient", lambda *_: WITHHELD),
    "wrong-model": ("model", noisy_model),
    "omitted-gradient": ("close", shortened_close),
    "withheld-iterate": ("iterate", lambda *_: WITHHELD),
    "equivocation": ("iterate", two_iterates),
    "silent-leader": ("", lambda *_: WITHHELD),
    "slow-leader": ("seal", lambda *_: LATE),
    "double-signing": ("endorsement", lambda *_: Twice(None, "block")),
    "broken-pass": ("endorsement", lambda *_: Twice(None, "pass")),
}
"""Which post a kind is about, and what becomes of it; silent-leader has its phase."""


def conduct_of(attacks: Sequence[Attack], server: int, settings: Settings, names: Callable[[Address], str]) -> Conduct:
    """How `server` behaves; `names` turns an address into "device 3". Attacks on one post follow in their order."""
    mine = [each for each in attacks if not each.is_of_device and each.server in (server, None)]
    if not mine:
        return honest
    scheme = scheme_of(settings.rounds.scheme)
    if not scheme.one_model and any(each.phase in ("model", "seal") for each in mine):
        raise refusal("silent-leader: ", f"scheme {settings.rounds.scheme}", "one in which the leader's model is all's")

    def conduct(slot: RoundSlot, body: Any) -> Any:
        for attack in mine:
            act = _act(attack, slot, scheme.gossips)
            if act is not None and attack.is_played_by(server, slot[0]):
                body = act(body, AttackContext(attack, slot[0], server, settings, names))
            if isinstance(body, Withheld | Twice | Late):
                break
        return body

    return conduct


def _act(attack: Attack, slot: RoundSlot, gossips: bool) -> Callable[[Any, AttackContext], Any] | None:
    """What an attack does to the post of a slot; None if it leaves it alone."""
    round_, kind, step, _ = slot
    target, act = (attack.post, foreign_act) if attack.is_foreign else _ACTS[attack.kind]
    if attack.kind == "iterate-noise" and not gossips:  # the paper poisons the server's model where nobody gossips
        target, act = _ACTS["wrong-model"]
    if not attack.is_on(round_) or kind != (attack.phase or target):
        return None
    is_its_step = step >= attack.step if attack.kind == "withheld-iterate" else step == attack.step
    return act if kind != "iterate" or is_its_step else None


# --- devices
