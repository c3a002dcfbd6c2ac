"""The settings of a run: those of its network, and who misbehaves in the simulation."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clients.parameters import key_of, read_params, setting
from edge_servers.parameters import Settings


@dataclass(frozen=True)
class AttackParams:
    """Who misbehaves; no setting of a network, whose honest part knows nothing of it."""

    attack: str = setting(
        "", "who misbehaves when, for example iterate-noise@20,60:server=1,step=3 (see docs/attacks.md)"
    )


@dataclass(frozen=True)
class RunSettings(Settings):
    """What `bfl simulate` is told."""

    attacks: AttackParams = AttackParams()

    def flat(self) -> dict[str, Any]:
        """Every setting by its key: what `config.toml` holds."""
        own = dataclasses.asdict(self.attacks)
        return super().flat() | {key_of(name): value for name, value in own.items()}

    @classmethod
    def read(cls, flat: Mapping[str, object]) -> "RunSettings":
        """The reverse of `flat`; settings that are not in it have their defaults."""
        network = Settings.read(flat)
        return cls(network.rounds, network.data, network.training, read_params(AttackParams, flat))
