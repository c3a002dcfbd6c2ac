"""Learners: how experience becomes advantages (Algorithm 2); here the one of the shared networks.

Every draw is a function of the seed and the number of the update, so that a learner which goes on from a checkpoint
does what it would have done.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from policy.actor.hybrid_action import Sample, draw_sample, entropy
from policy.actor.networks import SharedActor, SharedCritic, SharedOutputs
from policy.actor.physics import Inputs, inputs_of
from policy.actor.weights import Actor
from policy.errors import PolicyError
from policy.parameters import LatencyParams
from policy.training.a2c import ActorForward, Advantages, gradient_step, trust_region_step
from policy.training.credit import credit
from policy.training.settings import LearningParams
from policy.training.trust_region import Step
from policy.world.latency import latency_of, reward
from policy.world.projection import Decision
from policy.world.state import State, new_state

PARTS = ("actor", "critic", "_critic_optimizer", "_actor_optimizer")
"""Of a learner, in a checkpoint"""
CREDIT_BOUND_S = 6.0
"""A credit beyond this (a device that makes others time out) teaches no more than this"""


@dataclass(frozen=True)
class UpdateReport:
    """What one update played and how far the actor moved."""

    rounds: int  # of the environment, played for it
    devices: int
    per_device_s: float  # T / N of the actions that were drawn
    reward: float
    entropy: float
    step: Step


class Learner(ABC):
    """An actor and a critic that get better, update by update."""

    actor: Actor
    critic: nn.Module

    def __init__(self, actor: Actor, critic: nn.Module, params: LearningParams) -> None:
        self.actor, self.critic, self.params = actor, critic, params
        self._critic_optimizer = torch.optim.Adam(critic.parameters(), params.critic_rate)
        self._actor_optimizer = torch.optim.Adam(actor.parameters(), params.step.adam_rate)

    @abstractmethod
    def update(self, number: int) -> UpdateReport:
        """Play rounds, compute advantages, move the actor by one step."""

    def is_settled(self, number: int) -> bool:
        """Whether this update is late in training."""
        return False

    def prepare(self, number: int) -> None:  # noqa: B027 - most have nothing to prepare
        """Put the learner into the phase that belongs to this update, also after a checkpoint."""

    def state_dict(self) -> dict[str, Any]:
        """Networks and optimisers, for a checkpoint."""
        return {name: getattr(self, name).state_dict() for name in PARTS}

    def load_state_dict(self, parts: dict[str, Any]) -> None:
        """Take networks and optimisers from a checkpoint."""
        if parts.keys() != set(PARTS):
            raise PolicyError(f"found a checkpoint of {sorted(parts)}, expected {sorted(PARTS)}")
        for name in PARTS:
            getattr(self, name).load_state_dict(parts[name])

    def generators(self, number: int) -> tuple[np.random.Generator, torch.Generator]:
        """The draws of an update: a function of the seed and its number."""
        rng = np.random.default_rng([self.params.seed, number])
        return rng, torch.Generator().manual_seed(int(rng.integers(2**62)))

    def step_actor(self, number: int, forward: ActorForward, sample: Sample, advantages: Advantages) -> Step:
        """One step of the actor; late in training along Adam's direction, whatever bounds it."""
        step, is_settled = self.params.step, self.is_settled(number)
        is_bounded = step.method == "trust-region"
        if is_bounded and not is_settled:
            return trust_region_step(self.actor, forward, sample, advantages, step)
        fallen = (number - self.params.settle_at) / self.params.settling if is_settled else 0.0
        for group in self._actor_optimizer.param_groups:
            group["lr"] = step.adam_rate * max(0.1, 1 - fallen)
        return gradient_step(self.actor, self._actor_optimizer, forward, sample, advantages, step, is_bounded)

    def fit_critic(self, loss: Callable[[], Tensor]) -> None:
        """Fit the critic to a loss for `critic_epochs` steps of Adam."""
        for _ in range(self.params.critic_epochs):
            self._critic_optimizer.zero_grad()
            loss().backward()  # type: ignore[no-untyped-call]
            self._critic_optimizer.step()


def repeat_states(state: State, times: int) -> State:
    """B states, `times` over: (R B, ...)."""
    return State(**{name: np.concatenate([getattr(state, name)] * times) for name in state.__dataclass_fields__})


def decision_from(sample: Sample) -> Decision:
    """R samples in B states as a decision for R B states."""
    return Decision(
        sample.choice.flatten(0, 1).numpy(), sample.shares.detach().flatten(0, 1).numpy().astype(np.float64)
    )


class SharedLearner(Learner):
    """Learns from fresh states (a contextual bandit, S28) with the difference credit of every device."""

    actor: SharedActor
    critic: SharedCritic

    def __init__(self, params: LearningParams, world: LatencyParams) -> None:
        super().__init__(SharedActor(params.hidden, params.passes), SharedCritic(params.hidden), params)
        self._worlds = [replace(world, devices=devices) for devices in params.devices]

    def is_settled(self, number: int) -> bool:
        """Whether this update is late in training."""
        return number >= self.params.settle_at

    def prepare(self, number: int) -> None:
        """Put the learner into the phase that belongs to this update: late in training the actor settles."""
        if self.is_settled(number):
            self.actor.settle(self.params.settled_passes)

    def update(self, number: int) -> UpdateReport:
        """Play B states, R actions each; judge every device by what its action added to T; step."""
        world = self._worlds[number % len(self._worlds)]
        self.prepare(number)
        rng, generator = self.generators(number)
        state = new_state(world, max(4, self.params.rows // world.devices), rng)
        inputs = inputs_of(state, world)
        with torch.no_grad():
            outputs: SharedOutputs = self.actor(inputs)
        sample = draw_sample(outputs, self.params.samples, generator)
        many, decision = repeat_states(state, self.params.samples), decision_from(sample)
        latency = latency_of(decision, many, world)
        credits = credit(decision, latency, many, world)
        learning, mining = (
            torch.from_numpy(np.clip(added, -CREDIT_BOUND_S, CREDIT_BOUND_S)).float().view(sample.choice.shape)
            for added in (credits.learning_s, credits.mining_s)
        )
        advantages = self._advantages(inputs, outputs, sample, learning, mining)
        step = self.step_actor(number, lambda rows: self.actor(inputs[rows]), sample, advantages)
        return UpdateReport(
            rounds=state.shape[0] * self.params.samples,
            devices=world.devices,
            per_device_s=float(latency.per_device_s.mean()),
            reward=float(reward(latency.total_s, world.devices, world).mean()),
            entropy=float(entropy(outputs.at(sample.choice))),
            step=step,
        )

    def _advantages(
        self, inputs: Inputs, outputs: SharedOutputs, sample: Sample, learning: Tensor, mining: Tensor
    ) -> Advantages:
        """What was added to T against what the critic expected, over its spread; less is better."""
        if not self.params.has_advantage:
            return advantages_of(-learning / advantage_scale(learning), -mining / advantage_scale(mining), None)

        def critic_values() -> tuple[Tensor, Tensor, Tensor]:
            by_choice, by_hash = self.critic(inputs, outputs.features)
            table = by_choice.expand(*sample.choice.shape, -1)
            return by_choice, table.gather(3, sample.choice[..., None])[..., 0], by_hash

        def loss() -> Tensor:
            _, expected, by_hash = critic_values()
            return ((expected - learning) ** 2).mean() + ((by_hash - mining) ** 2).mean()

        self.fit_critic(loss)
        with torch.no_grad():
            by_choice, expected, by_hash = critic_values()
            mean = (torch.softmax(outputs.logits, dim=2) * by_choice).sum(dim=2, keepdim=True)
            missed, missed_hash = learning - expected, mining - by_hash
            scale = advantage_scale(missed)
            return advantages_of(
                -missed / scale, -missed_hash / advantage_scale(missed_hash), -(by_choice - mean) / scale
            )


def advantage_scale(values: Tensor) -> Tensor:
    """Standard deviation, never 0: what advantages are divided by."""
    return values.std() + 1e-6


def advantages_of(learning: Tensor, mining: Tensor, by_choice: Tensor | None) -> Advantages:
    """Power, bandwidth and CPU answer for learning, the hash rate for mining."""
    return Advantages(learning, torch.stack([learning, learning, learning, mining], dim=-1), by_choice)
