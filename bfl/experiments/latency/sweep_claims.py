"""What the paper says of each sweep ("Evaluation of System Latency Performance")."""

from collections.abc import Sequence
from dataclasses import dataclass

from bfl.experiments.claims import (
    Series,
    axis_mean,
    judge_falls,
    judge_far_below,
    judge_knee,
    judge_lowest,
    judge_rises,
    judge_steepest,
)
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
class SweepResult:
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


def device_claims(sweep: SweepResult) -> list[ClaimVerdict]:
    """Fig. (a): number of devices."""
    totals = {name: sweep.totals[name] for name in sweep.methods}
    at = {name: line[-1] for name, line in sweep.series.items()}
    return [
        judge_rises("T of every method rises with N", totals, OURS),
        judge_lowest("ours is the lowest at every N", sweep.series, OURS, list(RIVALS)),
        *_judge_savings(at, AT_100_DEVICES, f"at N = {sweep.devices[-1]}"),
    ]


def consensus_claims(sweep: SweepResult) -> list[ClaimVerdict]:
    """Fig. (b): rounds of consensus."""
    return [
        judge_rises("latency rises with the rounds of consensus", sweep.methods, OURS),
        judge_lowest("ours is the lowest at every number of rounds", sweep.series, OURS, list(RIVALS)),
    ]


def power_claims(sweep: SweepResult) -> list[ClaimVerdict]:
    """Fig. (a): transmit power."""
    return [
        judge_falls("latency of every method falls with P_max", sweep.methods, OURS),
        judge_knee("it falls more slowly above 20 dBm", sweep.xs, sweep.series[OURS], 20, "dBm"),
        judge_steepest("ours has the largest fall", sweep.series, OURS, list(RIVALS)),
        judge_lowest("ours is the lowest at every P_max", sweep.series, OURS, list(RIVALS)),
    ]


def bandwidth_claims(sweep: SweepResult) -> list[ClaimVerdict]:
    """Fig. (b): bandwidth. The paper does not say at which W its percentages hold: the mean over the axis is taken."""
    return [
        judge_falls("latency of every method falls with W", sweep.methods, OURS),
        judge_knee("bandwidth matters more below 25 MHz", sweep.xs, sweep.series[OURS], 25, "MHz"),
        *_judge_savings({name: axis_mean(line) for name, line in sweep.series.items()}, WITH_BANDWIDTH, "mean over W"),
    ]


def hash_claims(sweep: SweepResult) -> list[ClaimVerdict]:
    """Fig. (c): hash power."""
    return [
        judge_falls("latency of every method falls with Ψ_max", sweep.methods, OURS),
        judge_lowest("ours is the lowest at every Ψ_max", sweep.series, OURS, list(RIVALS)),
    ]


def _judge_savings(at: dict[str, Estimate], claimed: Sequence[float], where: str) -> list[ClaimVerdict]:
    room = (at[OPTIMUM], at[RANDOM])
    return [
        judge_far_below(f"ours is {percent:g} % below {shown} ({where})", at[OURS], at[name], percent, room)
        for (name, shown), percent in zip(RIVALS.items(), claimed, strict=True)
    ]
