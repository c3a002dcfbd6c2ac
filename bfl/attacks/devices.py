"""A device that misbehaves in the rounds its attacks name, and is honest in all others (`--attack`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
from flwr.app import Message
from numpy.typing import NDArray

from bfl.attacks.collusion import COLLUDING, Conspiracy
from bfl.attacks.kinds import Attack
from bfl.attacks.own import Scene, attacked
from clients.batches import NodeKey
from clients.device import Device
from clients.errors import ClientError
from clients.models import Vector
from clients.orders import Order
from clients.replies import FAILED, error_message
from clients.training import LocalUpdate, TrainingNode
from policy.streams import Purpose, stream

LARGEST_VALUE = 65_504.0
"""What every codec can write: a gradient that cannot be posted poisons nothing."""


def postable(values: NDArray[np.float64]) -> Vector:
    """A poisoned gradient in the form of an honest one, cut to what can be posted."""
    return np.clip(values, -LARGEST_VALUE, LARGEST_VALUE).astype(np.float32)


def inflated(samples: int, strength: float) -> int:
    """The number of samples that a liar claims."""
    return max(1, round(samples * strength))


def sign_flip(update: LocalUpdate, strength: float, _: np.random.Generator) -> LocalUpdate:
    """-strength * C_n: back up the hill."""
    return replace(update, values=postable(update.values.astype(np.float64) * -strength))


def noise(update: LocalUpdate, strength: float, rng: np.random.Generator) -> LocalUpdate:
    """C_n + N(0, (strength * rms)^2), rms that of C_n itself."""
    honest = update.values.astype(np.float64)
    deviation = strength * float(np.sqrt(np.square(honest).mean()))
    return replace(update, values=postable(honest + deviation * rng.standard_normal(len(honest))))


def inflated_samples(update: LocalUpdate, strength: float, _: np.random.Generator) -> LocalUpdate:
    """The same gradient with a larger D_n."""
    return replace(update, samples=inflated(update.samples, strength))


def scaled(update: LocalUpdate, strength: float, _: np.random.Generator) -> LocalUpdate:
    """strength * C_n: with as much as devices per attacker, the next model is the attacker's own (Bagdasaryan 2020)."""
    return replace(update, values=postable(update.values.astype(np.float64) * strength))


UPDATE_ATTACKS: dict[str, Callable[[LocalUpdate, float, np.random.Generator], LocalUpdate]] = {
    "sign-flip": sign_flip,
    "noise": noise,
    "inflated-samples": inflated_samples,
    "model-replacement": scaled,
}
_FLIPPING = ("label-flip", "model-replacement")
"""Whoever does these has other labels than the honest"""


@dataclass(frozen=True)
class PoisonedDevice(Device):
    """A device with attacks. What it is ordered to do, it does honestly first."""

    attacks: tuple[Attack, ...] = ()
    classes: int = 0
    conspiracy: Conspiracy = field(default_factory=lambda: Conspiracy(()))
    """What the colluders know."""

    def training_node(self, order: Order) -> TrainingNode:
        """With flipped labels, if it flips them."""
        return Device.training_node(self._with_its_labels(order), order)

    def hand_over(self, order: Order, message: Message) -> Message:
        """With flipped labels, if it flips them; nothing, if it stays away."""
        if self._does("absent", order):
            return _nothing(message)
        return Device.hand_over(self._with_its_labels(order), order, message)

    def report(self, order: Order, update: LocalUpdate, message: Message) -> Message:
        """Not quite what was trained."""
        if self._does("absent", order):
            return _nothing(message)
        for attack in self._attacks_of(order):
            if attack.kind in UPDATE_ATTACKS:
                rng = stream(order.seed, Purpose.ATTACK, order.round, NodeKey("device", self.index).counter)
                update = UPDATE_ATTACKS[attack.kind](update, attack.strength, rng)
            elif attack.kind in COLLUDING:
                update = self.conspiracy.crafted(attack.kind, update, attack.strength, order.round)
            elif attack.is_foreign:
                rng = stream(order.seed, Purpose.ATTACK, order.round, NodeKey("device", self.index).counter)
                scene = Scene(f"device {self.index}", order.round, "gradient", attack.strength, rng)
                update = replace(update, values=postable(attacked(attack.kind, update.values, scene)))
        return Device.report(self._with_its_key(order), order, update, message)

    def _attacks_of(self, order: Order) -> list[Attack]:
        return [attack for attack in self.attacks if attack.is_on(order.round)]

    def _does(self, kind: str, order: Order) -> bool:
        return any(attack.kind == kind for attack in self._attacks_of(order))

    def _with_its_labels(self, order: Order) -> "PoisonedDevice":
        """Label c becomes classes - 1 - c; the images are shared, the table of the others stays as it is."""
        if not any(self._does(kind, order) for kind in _FLIPPING):
            return self
        return replace(self, table=replace(self.table, labels=self.classes - 1 - self.table.labels))

    def _with_its_key(self, order: Order) -> "PoisonedDevice":
        """A forger signs with a key that is not the registered one; without a chain nobody signs."""
        if self.wallet is None or not self._does("forged", order):
            return self
        from chain.client.keys import simulated_account  # an extra
        from clients.wallet import Wallet

        key = simulated_account(b"forger", str(self.index))
        return replace(self, wallet=Wallet(key, self.wallet.chain, self.wallet.known))


def _nothing(message: Message) -> Message:
    """The answer of a device that stays away: what an attack costs is measured against that."""
    return error_message(ClientError("found nobody: this device stays away"), message, FAILED)


def conspiracy_of(attacks: Sequence[Attack]) -> Conspiracy:
    """What the devices of these attacks know together; whoever else lies is no honest example either."""
    devices = {NodeKey("device", n) for each in attacks if each.is_of_device for n in each.devices}
    servers = {NodeKey("server", each.server) for each in attacks if not each.is_of_device and each.server is not None}
    return Conspiracy(devices | servers)


def poison_device(
    device: Device, attacks: Sequence[Attack], classes: int, conspiracy: Conspiracy | None = None
) -> Device:
    """The device as its attacks have it; itself if there are none."""
    mine = tuple(each for each in attacks if each.is_of_device and device.index in each.devices)
    if not mine:
        return device
    own = {each.name: getattr(device, each.name) for each in fields(Device)}
    return PoisonedDevice(**own, attacks=mine, classes=classes, conspiracy=conspiracy or conspiracy_of(mine))
