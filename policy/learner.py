"""Learners: how experience becomes advantages, for the shared and for the paper's networks (Algorithm 2).

Every draw is a function of the seed and the number of the update, so that a learner which goes on from a checkpoint
does what it would have done.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from policy.a2c import Advantages, StepParams, check_counts, check_positive, gradient_step, trust_region_step
from policy.credit import credit
from policy.errors import PolicyError
from policy.flat_networks import FlatActor, FlatCritic
from policy.hybrid import Sample, drawn, entropy
from policy.latency import latency_of, reward
from policy.networks import HIDDEN, PASSES, SharedActor, SharedCritic, SharedOutputs
from policy.parameters import LatencyParams
from policy.physics import Inputs, inputs_of
from policy.projection import Decision
from policy.trust_region import Step
from policy.weights import Actor
from policy.world import State, new_state

if TYPE_CHECKING:
    from policy.env import EdgeOffloadVectorEnv

CREDIT_BOUND_S = 6.0
"""A credit beyond this (a device that makes others time out) teaches no more than this"""


@dataclass(frozen=True)
class LearningParams:
    """How an agent learns. The defaults are those of the weights in the package."""

    architecture: str = "shared"
    """shared (any N, M, G) or paper (flat networks for one N)"""
    step: StepParams = field(default_factory=StepParams)
    has_advantage: bool = True
    """Without: the actor follows the credit itself, no critic is asked"""
    devices: tuple[int, ...] = (10, 20, 3, 30, 10, 50, 100)
    """Numbers of devices, one after the other, update by update"""
    rows: int = 1440
    """States of an update times devices"""
    samples: int = 8
    """Actions drawn in each state"""
    critic_rate: float = 3e-3
    critic_epochs: int = 4
    hidden: int = HIDDEN
    passes: int = PASSES
    settle_at: int = 400
    """The update from which on the actor takes `settled_passes`, is less noisy in its shares and follows Adam, whose
    memory spans the numbers of devices, within the same trust region"""
    settled_passes: int = 6
    settled_trust_region: float = 0.05
    settling: int = 900
    """Updates over which Adam's rate falls to a tenth from there on"""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.architecture not in ("shared", "paper"):
            raise PolicyError(f"architecture: found {self.architecture!r}, expected shared or paper")
        if not isinstance(self.step, StepParams) or not isinstance(self.devices, tuple):
            raise PolicyError(f"found step {self.step!r} and devices {self.devices!r}, expected StepParams and a tuple")
        if not self.devices or (self.architecture == "paper" and len(self.devices) != 1):
            raise PolicyError(f"devices: found {self.devices!r}, expected some numbers, one for the paper's networks")
        counts = {f"devices[{i}]": n for i, n in enumerate(self.devices)}
        for name in ("rows", "samples", "critic_epochs", "hidden", "passes", "settled_passes", "settling"):
            counts[name] = getattr(self, name)
        check_counts(counts, least=1)
        check_counts({"settle_at": self.settle_at, "seed": self.seed}, least=0)
        check_positive({"critic_rate": self.critic_rate, "settled_trust_region": self.settled_trust_region})


@dataclass(frozen=True)
class Report:
    """One update."""

    rounds: int  # of the environment, played for it
    devices: int
    per_device_s: float  # T / N of the actions that were drawn
    reward: float
    entropy: float
    step: Step


class Learner(Protocol):
    """An actor and a critic that get better."""

    @property
    def actor(self) -> Actor:
        """The policy's network."""

    def update(self, number: int) -> Report:
        """Play, judge, step."""

    def prepare(self, number: int) -> None:
        """Be as in this update."""

    def memory(self) -> dict[str, Any]:
        """Everything a checkpoint needs."""

    def remember(self, memory: dict[str, Any]) -> None:
        """Go on from a checkpoint."""


def new_learner(params: LearningParams, world: LatencyParams) -> Learner:
    """A learner that knows nothing yet."""
    torch.manual_seed(params.seed)
    return SharedLearner(params, world) if params.architecture == "shared" else FlatLearner(params, world)


class _Learner:
    """What both have: networks, optimizers, generators."""

    def __init__(self, actor: nn.Module, critic: nn.Module, params: LearningParams) -> None:
        self.actor, self.critic, self.params = actor, critic, params
        self._critic_optimizer = torch.optim.Adam(critic.parameters(), params.critic_rate)
        self._actor_optimizer = torch.optim.Adam(actor.parameters(), params.step.adam_rate)

    def prepare(self, number: int) -> None:
        """Be as in this update: the same in all of them."""

    def memory(self) -> dict[str, Any]:
        """Everything a checkpoint needs."""
        return {name: getattr(self, name).state_dict() for name in self._parts}

    def remember(self, memory: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        if memory.keys() != set(self._parts):
            raise PolicyError(f"found a checkpoint of {sorted(memory)}, expected {sorted(self._parts)}")
        for name in self._parts:
            getattr(self, name).load_state_dict(memory[name])

    @property
    def _parts(self) -> tuple[str, ...]:
        return ("actor", "critic", "_critic_optimizer", "_actor_optimizer")

    def _generators(self, number: int) -> tuple[np.random.Generator, torch.Generator]:
        rng = np.random.default_rng([self.params.seed, number])
        return rng, torch.Generator().manual_seed(int(rng.integers(2**62)))

    def _moved(self, number: int, look: Any, sample: Sample, advantages: Advantages) -> Step:
        """One step of the actor; late in training along Adam's direction, whatever bounds it."""
        settled, step = number - self.params.settle_at, self.params.step
        is_bounded = step.method == "trust-region"
        if is_bounded and settled < 0:
            return trust_region_step(self.actor, look, sample, advantages, step)
        for group in self._actor_optimizer.param_groups:
            group["lr"] = step.adam_rate * min(1.0, max(0.1, 1 - settled / self.params.settling))
        step = replace(step, trust_region=self.params.settled_trust_region)
        return gradient_step(self.actor, self._actor_optimizer, look, sample, advantages, step, is_bounded)

    def _fit(self, loss: Any) -> None:
        for _ in range(self.params.critic_epochs):
            self._critic_optimizer.zero_grad()
            loss().backward()
            self._critic_optimizer.step()


def repeated(state: State, times: int) -> State:
    """B states, `times` over: (R B, ...)."""
    return State(**{name: np.concatenate([getattr(state, name)] * times) for name in state.__dataclass_fields__})


def decision_from(sample: Sample) -> Decision:
    """R samples in B states as a decision for R B states."""
    return Decision(
        sample.choice.flatten(0, 1).numpy(), sample.shares.detach().flatten(0, 1).numpy().astype(np.float64)
    )


class SharedLearner(_Learner):
    """Learns from fresh states (a contextual bandit, S28) with the difference credit of every device."""

    actor: SharedActor
    critic: SharedCritic

    def __init__(self, params: LearningParams, world: LatencyParams) -> None:
        super().__init__(SharedActor(params.hidden, params.passes), SharedCritic(params.hidden), params)
        self._worlds = [replace(world, devices=devices) for devices in params.devices]

    def prepare(self, number: int) -> None:
        """Be as in this update; late in training the actor settles."""
        if number >= self.params.settle_at:
            self.actor.settle(self.params.settled_passes)

    def update(self, number: int) -> Report:
        """Play B states, R actions each; judge every device by what its action added to T; step."""
        world = self._worlds[number % len(self._worlds)]
        self.prepare(number)
        rng, generator = self._generators(number)
        state = new_state(world, max(4, self.params.rows // world.devices), rng)
        inputs = inputs_of(state, world)
        with torch.no_grad():
            outputs: SharedOutputs = self.actor(inputs)
        sample = drawn(outputs, self.params.samples, generator)
        many, decision = repeated(state, self.params.samples), decision_from(sample)
        latency = latency_of(decision, many, world)
        credits = credit(decision, latency, many, world)
        learning, mining = (
            torch.from_numpy(np.clip(added, -CREDIT_BOUND_S, CREDIT_BOUND_S)).float().view(sample.choice.shape)
            for added in (credits.learning_s, credits.mining_s)
        )
        advantages = self._advantages(inputs, outputs, sample, learning, mining)
        step = self._moved(number, lambda rows: self.actor(inputs[rows]), sample, advantages)
        return Report(
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
            return _advantages(-learning / _spread(learning), -mining / _spread(mining), None)

        def judged() -> tuple[Tensor, Tensor, Tensor]:
            by_choice, by_hash = self.critic(inputs, outputs.features)
            table = by_choice.expand(*sample.choice.shape, -1)
            return by_choice, table.gather(3, sample.choice[..., None])[..., 0], by_hash

        def loss() -> Tensor:
            _, expected, by_hash = judged()
            return ((expected - learning) ** 2).mean() + ((by_hash - mining) ** 2).mean()

        self._fit(loss)
        with torch.no_grad():
            by_choice, expected, by_hash = judged()
            spread = _spread(learning - expected)
            mean = (torch.softmax(outputs.logits, dim=2) * by_choice).sum(dim=2, keepdim=True)
            missed, missed_hash = learning - expected, mining - by_hash
            return _advantages(-missed / spread, -missed_hash / _spread(missed_hash), -(by_choice - mean) / spread)


def _spread(values: Tensor) -> Tensor:
    return values.std() + 1e-6


def _advantages(learning: Tensor, mining: Tensor, by_choice: Tensor | None) -> Advantages:
    """Power, bandwidth and CPU answer for learning, the hash rate for mining."""
    return Advantages(learning, torch.stack([learning, learning, learning, mining], dim=-1), by_choice)


class FlatLearner(_Learner):
    """The paper's: one number of devices, episodes of the environment, one reward for all devices, V(s) as critic."""

    actor: FlatActor
    critic: FlatCritic

    def __init__(self, params: LearningParams, world: LatencyParams) -> None:
        world = replace(world, devices=params.devices[0])
        super().__init__(FlatActor(world), FlatCritic(world), params)
        self._world = world

    def update(self, number: int) -> Report:
        """Play a batch of environments for a few steps; judge by the reward against V(s); step."""
        from policy.env import EdgeOffloadVectorEnv  # gymnasium is in an extra

        rng, generator = self._generators(number)
        env = EdgeOffloadVectorEnv(max(4, self.params.rows // self._world.devices), self._world)
        seen, rewards, latencies, samples = self._played(env, int(rng.integers(2**31)), generator)
        sample = Sample(torch.cat([s.choice for s in samples], dim=1), torch.cat([s.raw for s in samples], dim=1))
        if self.params.has_advantage:
            self._fit(lambda: ((self.critic(seen) - rewards) ** 2).mean())
            with torch.no_grad():
                advantage = rewards - self.critic(seen)
        else:
            advantage = rewards
        advantage = (advantage / _spread(advantage))[None, :, None]
        step = self._moved(number, lambda rows: self.actor(seen[rows]), sample, _advantages(advantage, advantage, None))
        with torch.no_grad():
            heads = self.actor(seen).at(sample.choice)
        return Report(
            rounds=len(rewards),
            devices=self._world.devices,
            per_device_s=float(np.mean(latencies)) / self._world.devices,
            reward=float(rewards.mean()),
            entropy=float(entropy(heads)),
            step=step,
        )

    def _played(
        self, env: "EdgeOffloadVectorEnv", seed: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, list[float], list[Sample]]:
        """`samples` rounds of every environment."""
        observations, rewards, latencies, samples = [], [], [], []
        observed, _ = env.reset(seed=seed)
        for _ in range(self.params.samples):
            seen = torch.from_numpy(observed)
            with torch.no_grad():
                sample = drawn(self.actor(seen), 1, generator)
            action = {"choice": sample.choice[0].numpy(), "params": sample.shares[0].detach().numpy()}
            observed, earned, _, _, info = env.step(action)
            observations.append(seen)
            rewards.append(torch.as_tensor(earned, dtype=torch.float32))
            latencies.append(float(info["T"].mean()))
            samples.append(sample)
        return torch.cat(observations), torch.cat(rewards), latencies, samples
