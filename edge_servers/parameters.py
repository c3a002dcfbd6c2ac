"""Every setting of the rounds, with its default: the one place they live."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from clients.errors import ParameterError
from clients.parameters import DataParams, TrainingParams, key_of, read_params, setting
from clients.plugins import OFF_CHAIN
from clients.root_set import held_back
from policy.errors import PolicyError
from policy.world.traces import read_speeds, read_trace

if TYPE_CHECKING:
    from policy.world.conditions import Conditions

MOST_STEPS, MOST_SERVERS = 100, 64
"""Of a registry (chain/protocol/registry.vy)"""
ON_CHAIN = ("bfl", "bfl-no-consensus")
SCHEMES = (*ON_CHAIN, "consensus-no-chain", "no-consensus-no-chain", "traditional", "fedavg")


@dataclass(frozen=True)
class RoundParams:
    """The network of edge servers and one round of theirs."""

    rounds: int = setting(100, "K, the number of rounds", minimum=1)
    edges: int = setting(3, "M, the number of edge servers", minimum=1)
    scheme: str = setting(
        "bfl",
        "how models are agreed on: bfl (gossip on the chain), bfl-no-consensus (the leader's cluster, on the chain), "
        "consensus-no-chain (gossip), no-consensus-no-chain, traditional (M separate models), fedavg (one exact mean)",
        choices=SCHEMES,
        is_open=True,
    )
    graph: str = setting("line", "who talks to whom: line, ring, star, complete, or edges such as 0-1,1-2,0-2")
    weights: str = setting(
        "optimal",
        "consensus weight d: optimal = 2/(mu_2 + mu_M), or paper (the largest 0 < d < 1/M the grid of 1/4096 has)",
        choices=("optimal", "paper"),
    )
    phi: str = setting("5", "consensus steps per round: a number, or auto (Corollary 1); auto:7 starts with 7")
    xi: float = setting(1.0, "the constant xi of Corollary 1, for phi auto: smaller means more steps", minimum=1e-12)
    max_phi: int = setting(50, "most consensus steps that auto may ask for", minimum=1)
    planner: str = setting(
        "a2c",
        "who offloads where: a2c (trained policy), near-optimum, threshold, greedy-channel, all-offload, all-local, "
        "random:0.3 (probability), random-action, fixed (devices 0, 4, 5 of every ten, to their home), fixed:1,3",
    )
    codec: str = setting(
        "fp16", "how gradients are written on the chain: fp16, fp32 or int8", choices=("fp16", "fp32", "int8")
    )
    filter: str = setting(
        "direction+harm+norm-clip:2+loss",
        "what is done to outlying gradients, left to right: direction, harm and loss judge by the root set; norm-clip, "
        "krum, trimmed-mean, median, nnm, centred-clip; none; your own as module:function",
    )
    root_set: int = setting(
        10,
        "images per label that no device holds, public from the founding on: direction, harm and loss judge by them",
        minimum=1,
        maximum=1000,
    )
    deadline_s: float = setting(
        600.0, "longest wait for the devices of a round, in seconds (simulated: of the latency model)", minimum=1e-3
    )
    gradient_bound: float = setting(
        100.0, "largest |value| of a gradient per iteration; larger ones are refused", minimum=1e-6
    )
    norm_bound: float = setting(
        1000.0, "largest norm of a gradient per iteration; larger ones are refused", minimum=1e-6
    )
    term_cap: int = setting(3, "rounds in a row that one server may lead", minimum=1)
    plan_s: float = setting(10.0, "seconds of an attempt until its plan is due", minimum=1e-3)
    close_s: float = setting(10.0, "seconds from the devices' deadline until the closed list is due", minimum=1e-3)
    gossip_s: float = setting(3.0, "seconds of each consensus step", minimum=1e-3)
    verify_s: float = setting(5.0, "seconds in which servers accuse whoever lied", minimum=1e-3)
    model_s: float = setting(5.0, "seconds until the model is due", minimum=1e-3)
    seal_s: float = setting(30.0, "seconds in which devices mine the block: ten times what it takes", minimum=1e-3)
    sign_s: float = setting(5.0, "seconds in which servers sign the sealed block", minimum=1e-3)
    flag_window: int = setting(3, "rounds that an accusation counts", minimum=1)
    exclusion_rounds: int = setting(10, "rounds that an exclusion lasts", minimum=1)
    reputation: int = setting(
        0,
        "times that the filter takes a device's gradient out until it is set aside for a while (0: never)",
        minimum=0,
        maximum=1000,
        only_if_set=True,
    )
    reputation_window: int = setting(
        20, "rounds in which it takes them out so often", minimum=1, maximum=10**6, only_if_set=True
    )
    reputation_rounds: int = setting(
        10,
        "rounds that a device is set aside, doubled up to 8 times as long",
        minimum=1,
        maximum=10**6,
        only_if_set=True,
    )
    difficulty: int = setting(2000, "hashes that sealing a simulated block takes on average", minimum=1)
    keep_payloads: str = setting("all", "rounds whose gradients and models a node keeps: all, or a number")
    nodes: int = setting(1, "chain nodes of a simulation: 1 shared by all servers, or one per server", minimum=1)
    evaluate_every: int = setting(1, "rounds between evaluations on the test set (0: only at the end)", minimum=0)

    def __post_init__(self) -> None:
        _ = self.first_phi
        if self.is_on_chain:
            self._check_chain()
        _ = self.kept_rounds
        self._check_reputation()
        if self.nodes not in (1, self.edges):
            raise ParameterError(
                f"nodes: found {self.nodes}, expected 1 (shared) or {self.edges} (one per edge server)"
            )
        if self.gradient_bound >= 128:
            raise ParameterError(
                f"gradient-bound: found {self.gradient_bound}, expected less than 128: "
                "larger values could overflow the fixed point of P8"
            )

    def _check_chain(self) -> None:
        steps = self.max_phi if self.is_auto_phi else self.first_phi
        if max(steps, self.first_phi) > MOST_STEPS:
            raise ParameterError(f"phi: found up to {max(steps, self.first_phi)} steps, expected at most {MOST_STEPS}")
        if self.edges > MOST_SERVERS:
            raise ParameterError(f"edges: found {self.edges}, a registry takes at most {MOST_SERVERS}")

    def _check_reputation(self) -> None:
        if self.reputation > self.reputation_window:
            raise ParameterError(
                f"reputation: found {self.reputation} times in reputation-window {self.reputation_window}, expected at "
                "most one a round: nobody could ever be set aside"
            )
        if self.reputation == 1 and self.edges > 1:
            raise ParameterError(
                "reputation: found 1, expected 0 or at least 2: one round of one leader would set a device aside"
            )

    @property
    def is_on_chain(self) -> bool:
        """Whether rounds run on the ledger (P21); told from the text alone, which may come from a chain."""
        return self.scheme in ON_CHAIN or (self.scheme not in SCHEMES and not self.scheme.startswith(OFF_CHAIN))

    @property
    def kept_rounds(self) -> int | None:
        """Of how many rounds a node keeps gradients and models; None for all (B6)."""
        if self.keep_payloads == "all":
            return None
        if not self.keep_payloads.isdecimal() or not int(self.keep_payloads):
            raise ParameterError(f"keep-payloads: found {self.keep_payloads!r}, expected all, or a number from 1 on")
        return int(self.keep_payloads)

    @property
    def is_auto_phi(self) -> bool:
        """Whether phi follows the divergence measured in the round before (L16)."""
        return self.phi.partition(":")[0] == "auto"

    @property
    def first_phi(self) -> int:
        """phi of round 1, and of every round where it is not auto."""
        default = str(RoundParams.__dataclass_fields__["phi"].default)
        number = (self.phi.partition(":")[2] or default) if self.is_auto_phi else self.phi
        if not number.isdecimal():
            raise ParameterError(f'phi: found "{self.phi}", expected a whole number or auto')
        return int(number)


@dataclass(frozen=True)
class ConditionParams:
    """What simulated devices are like; real ones are what they are (docs/devices.md)."""

    device_speeds: str = setting(
        "",
        "factors on the CPU of simulated devices, dealt in turn, such as 1,1,0.1; or lognormal:SIGMA (default: all 1)",
        only_if_set=True,
    )
    dropout: float = setting(
        0.0, "probability that a simulated device is away in a round", minimum=0.0, maximum=1.0, only_if_set=True
    )
    availability: str = setting(
        "",
        "when simulated devices are there: a CSV file of device,from,to[,every], or its text such as 0:1-10;3:5-8/20",
        only_if_set=True,
    )

    def __post_init__(self) -> None:
        for key, read, text in (
            ("device-speeds", read_speeds, self.device_speeds),
            ("availability", read_trace, self.availability),
        ):
            try:
                read(text)
            except PolicyError as error:
                raise ParameterError(f"{key}: {error}") from error


CONDITION_KEYS = tuple(key_of(field.name) for field in dataclasses.fields(ConditionParams))


@dataclass(frozen=True)
class Settings:
    """What every server of a network computes with."""

    rounds: RoundParams = RoundParams()
    data: DataParams = DataParams()
    training: TrainingParams = TrainingParams()
    conditions: ConditionParams = dataclasses.field(default=ConditionParams(), kw_only=True)

    def __post_init__(self) -> None:
        strangers = [n for n in read_trace(self.conditions.availability) if n >= self.data.devices]
        if strangers:
            raise ParameterError(
                f"availability: found device {strangers[0]}, expected devices of 0 to {self.data.devices - 1}"
            )

    @cached_property
    def devices(self) -> "Conditions":
        """What the devices are like, round by round."""
        from policy.world.conditions import Conditions  # numpy: not for a help text

        said = self.conditions
        return Conditions(said.device_speeds, said.dropout, said.availability, seed=self.data.seed)

    @property
    def times_devices(self) -> bool:
        """Whether simulated devices answer when the latency model says so, which may be too late for the deadline."""
        return self.conditions != ConditionParams() or self.rounds.deadline_s < RoundParams().deadline_s

    @property
    def root_set(self) -> int:
        """Images per label of the root set; none where no filter judges by them."""
        return held_back(self.flat())

    def flat(self) -> dict[str, Any]:
        """Every setting by its key: what `config.toml`, Flower's run configuration and the chain hold."""
        parts = (self.rounds, self.data, self.training, self.conditions)
        return {key_of(name): value for part in parts for name, value in dataclasses.asdict(part).items()}

    @classmethod
    def read(cls, flat: Mapping[str, object]) -> "Settings":
        """The reverse of `flat`; settings that are not in it have their defaults."""
        return cls(
            read_params(RoundParams, flat), read_params(DataParams, flat), read_params(TrainingParams, flat),
            conditions=read_params(ConditionParams, flat),
        )  # fmt: skip
