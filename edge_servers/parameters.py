"""Every setting of the rounds, with its default: the one place they live."""

from dataclasses import dataclass

from clients.errors import ParameterError
from clients.parameters import DataParams, TrainingParams, setting

SCHEMES = ("consensus-no-chain", "no-consensus-no-chain", "traditional", "fedavg")
_NEEDS_CHAIN = "runs on the chain, which this version does not have yet"


@dataclass(frozen=True)
class RoundParams:
    """The network of edge servers and one round of theirs."""

    rounds: int = setting(100, "K, the number of rounds", minimum=1)
    edges: int = setting(3, "M, the number of edge servers", minimum=1)
    scheme: str = setting(
        "consensus-no-chain",
        "how models are agreed on: consensus-no-chain (gossip), no-consensus-no-chain (the leader's cluster alone), "
        "traditional (M separate models), fedavg (one exact mean)",
        choices=SCHEMES,
        not_yet={"bfl": _NEEDS_CHAIN, "bfl-no-consensus": _NEEDS_CHAIN},
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
        "fixed",
        "who offloads: fixed (devices 0, 4, 5 of every ten, to their home server), fixed:1,3 (those devices), "
        "fixed:none, random, random:0.3 (probability of offloading)",
    )
    deadline_s: float = setting(600.0, "longest wait for the devices of a round, in seconds", minimum=1e-3)
    gradient_bound: float = setting(
        100.0, "largest |value| of a gradient per iteration; larger ones are refused", minimum=1e-6
    )
    norm_bound: float = setting(
        1000.0, "largest norm of a gradient per iteration; larger ones are refused", minimum=1e-6
    )
    term_cap: int = setting(3, "rounds in a row that one server may lead", minimum=1)
    evaluate_every: int = setting(1, "rounds between evaluations on the test set (0: only at the end)", minimum=0)

    def __post_init__(self) -> None:
        _ = self.first_phi
        if self.gradient_bound >= 128:
            raise ParameterError(
                f"gradient-bound: found {self.gradient_bound}, expected less than 128: "
                "larger values could overflow the fixed point of P8"
            )

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
class Settings:
    """What every server of a network computes with."""

    rounds: RoundParams = RoundParams()
    data: DataParams = DataParams()
    training: TrainingParams = TrainingParams()
