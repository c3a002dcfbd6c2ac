"""The trained policy at work: a state in, a decision out, in milliseconds."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from policy.actor.hybrid_action import Outputs, draw_sample, shares
from policy.actor.matching import solve_matching
from policy.actor.networks import SharedActor
from policy.actor.physics import inputs_of
from policy.actor.weights import SHIPPED, Actor, actor_of, read_weights
from policy.env.observation import LastAllocation, observation
from policy.errors import PolicyError
from policy.parameters import LatencyParams
from policy.world.latency import latency_of
from policy.world.projection import Decision
from policy.world.state import State, check_state


@dataclass(frozen=True)
class Policy:
    """Decides for one world, or with `params` of another one if its networks are shared."""

    actor: Actor
    params: LatencyParams
    is_matched: bool = True
    """Matching as the projection; without it every device takes its likeliest choice and S9 decides"""
    tries: int = 0
    """Search at decision time: the best of so many drawn decisions and the matched one"""

    @classmethod
    def trained(cls, params: LatencyParams, path: Path = SHIPPED) -> "Policy":
        """The policy of a file of weights, the package's own by default."""
        return cls(actor_of(read_weights(path), params), params)

    def decide(self, state: State, rng: np.random.Generator | None = None) -> Decision:
        """What to do in each of B states; `rng` is needed for `tries` only."""
        check_state(state, self.params)
        if self.tries < 0:
            raise PolicyError(f"tries: found {self.tries}, expected at least 0")
        with torch.no_grad():
            outputs: Outputs = self.actor(actor_input(self.actor, state, self.params))
            decision = likeliest_decision(outputs, self.is_matched)
            if not self.tries:
                return decision
            if rng is None:
                raise PolicyError("trying several decisions needs random numbers: found no rng")
            return self._best_of_samples(outputs, decision, state, rng)

    def _best_of_samples(
        self, outputs: Outputs, decision: Decision, state: State, rng: np.random.Generator
    ) -> Decision:
        sample = draw_sample(outputs, self.tries, torch.Generator().manual_seed(int(rng.integers(2**62))))
        least = latency_of(decision, state, self.params).total_s
        for choice, share in zip(sample.choice.numpy(), sample.shares.numpy().astype(np.float64), strict=True):
            tried = Decision(choice, share)
            found = latency_of(tried, state, self.params).total_s
            better = found < least
            decision = Decision(
                np.where(better[:, None], tried.choice, decision.choice),
                np.where(better[:, None, None], tried.shares, decision.shares),
            )
            least = np.minimum(found, least)
        return decision


def actor_input(actor: Actor, state: State, params: LatencyParams, last: LastAllocation | None = None) -> object:
    """States in the form that this actor reads: physical quantities, or the flat observation of S27."""
    if isinstance(actor, SharedActor):
        return inputs_of(state, params)
    return torch.from_numpy(observation(state, last or LastAllocation.none(state.shape[0], params), params))


def likeliest_decision(outputs: Outputs, is_matched: bool) -> Decision:
    """The matched choices, or each device's likeliest, with the means of their parameters."""
    logits: Tensor = outputs.logits
    if is_matched:
        choice = solve_matching((logits[..., 1:] - logits[..., :1]).numpy().astype(np.float64))
    else:
        choice = logits.argmax(dim=2).numpy()
    means = outputs.at(torch.from_numpy(choice)[None]).means[0]
    return Decision(choice, shares(means).numpy().astype(np.float64))
