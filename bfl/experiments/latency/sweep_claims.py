"""What the paper says of each sweep ("Evaluation of System Latency Performance")."""

from collections.abc import Sequence
from dataclasses import dataclass

from bfl.experiments.claims import Series, as_far_below, averaged, falls, knee, lowest, rises, steepest
from bfl.experiments.estimate import Estimate
from bfl.experiments.figure import ClaimVerdict
from policy.agents import OPTIMUM, OURS

RANDOM = "random"
RIVALS = {"ddpg": "DDPG", "a2c-vanilla": "A2C", "actor-critic": "actor-critic", "dqn": "deep Q-network"}
"""The paper's, by our names, in its order"""
AT_100_DEVICES = (11.0, 13.0, 25.0, 38.0)
WITH_BANDWIDTH = (7.0, 8.0, 17.0, 60.0)
"""Per cent by which ours is said to be below each of them"""


@dataclass(frozen=True)
class Swept:
    """T/N of every agent along an axis."""

    xs: list[float]
    devices: list[int]
    series: Series

    @property
    def methods(self) -> Series:
        """The schemes that the paper compares."""
        return {name: self.series[name] for name in (OURS, *RIVALS)}

    @property
    def totals(self) -> Series:
        """T of every agent."""
        return {
            name: [point.times(devices) for point, devices in zip(line, self.devices, strict=True)]
            for name, line in self.series.items()
        }


def device_claims(swept: Swept) -> list[ClaimVerdict]:
    """Fig. (a): number of devices."""
    totals = {name: swept.totals[name] for name in swept.methods}
    at = {name: line[-1] for name, line in swept.series.items()}
    return [
        rises("T of every method rises with N", totals, OURS),
        lowest("ours is the lowest at every N", swept.series, OURS, list(RIVALS)),
        *_savings(at, AT_100_DEVICES, f"at N = {swept.devices[-1]}"),
    ]


def consensus_claims(swept: Swept) -> list[ClaimVerdict]:
    """Fig. (b): rounds of consensus."""
    return [
        rises("latency rises with the rounds of consensus", swept.methods, OURS),
        lowest("ours is the lowest at every number of rounds", swept.series, OURS, list(RIVALS)),
    ]


def power_claims(swept: Swept) -> list[ClaimVerdict]:
    """Fig. (a): transmit power."""
    return [
        falls("latency of every method falls with P_max", swept.methods, OURS),
        knee("it falls more slowly above 20 dBm", swept.xs, swept.series[OURS], 20, "dBm"),
        steepest("ours has the largest fall", swept.series, OURS, list(RIVALS)),
        lowest("ours is the lowest at every P_max", swept.series, OURS, list(RIVALS)),
    ]


def bandwidth_claims(swept: Swept) -> list[ClaimVerdict]:
    """Fig. (b): bandwidth. The paper does not say at which W its percentages hold: the mean over the axis is taken."""
    return [
        falls("latency of every method falls with W", swept.methods, OURS),
        knee("bandwidth matters more below 25 MHz", swept.xs, swept.series[OURS], 25, "MHz"),
        *_savings({name: averaged(line) for name, line in swept.series.items()}, WITH_BANDWIDTH, "mean over W"),
    ]


def hash_claims(swept: Swept) -> list[ClaimVerdict]:
    """Fig. (c): hash power."""
    return [
        falls("latency of every method falls with Ψ_max", swept.methods, OURS),
        lowest("ours is the lowest at every Ψ_max", swept.series, OURS, list(RIVALS)),
    ]


def _savings(at: dict[str, Estimate], claimed: Sequence[float], where: str) -> list[ClaimVerdict]:
    room = (at[OPTIMUM], at[RANDOM])
    return [
        as_far_below(f"ours is {percent:g} % below {shown} ({where})", at[OURS], at[name], percent, room)
        for (name, shown), percent in zip(RIVALS.items(), claimed, strict=True)
    ]
