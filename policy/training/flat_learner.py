"""The paper's learner: flat networks, one number of devices, one reward for all, V(s) as critic (Algorithm 2)."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from policy.actor.flat_networks import FlatActor, FlatCritic
from policy.actor.hybrid_action import Sample, draw_sample, entropy
from policy.env.offloading import EdgeOffloadVectorEnv
from policy.parameters import LatencyParams
from policy.training.learner import Learner, UpdateReport, advantage_scale, advantages_of
from policy.training.settings import LearningParams


class FlatLearner(Learner):
    """Learns from episodes of the environment, one reward for all devices against V(s)."""

    actor: FlatActor
    critic: FlatCritic

    def __init__(self, params: LearningParams, world: LatencyParams) -> None:
        world = replace(world, devices=params.devices[0])
        super().__init__(FlatActor(world), FlatCritic(world), params)
        self._world = world

    def update(self, number: int) -> UpdateReport:
        """Play a batch of environments for a few steps; judge by the reward against V(s); step."""
        rng, generator = self.generators(number)
        env = EdgeOffloadVectorEnv(max(4, self.params.rows // self._world.devices), self._world)
        seen, rewards, latencies, samples = self._play(env, int(rng.integers(2**31)), generator)
        sample = Sample(torch.cat([s.choice for s in samples], dim=1), torch.cat([s.raw for s in samples], dim=1))
        if self.params.has_advantage:
            self.fit_critic(lambda: ((self.critic(seen) - rewards) ** 2).mean())
            with torch.no_grad():
                advantage = rewards - self.critic(seen)
        else:
            advantage = rewards
        advantage = (advantage / advantage_scale(advantage))[None, :, None]
        step = self.step_actor(
            number, lambda rows: self.actor(seen[rows]), sample, advantages_of(advantage, advantage, None)
        )
        with torch.no_grad():
            heads = self.actor(seen).at(sample.choice)
        return UpdateReport(
            rounds=len(rewards),
            devices=self._world.devices,
            per_device_s=float(np.mean(latencies)) / self._world.devices,
            reward=float(rewards.mean()),
            entropy=float(entropy(heads)),
            step=step,
        )

    def _play(
        self, env: EdgeOffloadVectorEnv, seed: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, list[float], list[Sample]]:
        """Observations, rewards, latencies and samples of `samples` rounds of every environment."""
        observations, rewards, latencies, samples = [], [], [], []
        observed, _ = env.reset(seed=seed)
        for _ in range(self.params.samples):
            seen = torch.from_numpy(observed)
            with torch.no_grad():
                sample = draw_sample(self.actor(seen), 1, generator)
            action = {"choice": sample.choice[0].numpy(), "params": sample.shares[0].detach().numpy()}
            observed, earned, _, _, info = env.step(action)
            observations.append(seen)
            rewards.append(torch.as_tensor(earned, dtype=torch.float32))
            latencies.append(float(info["T"].mean()))
            samples.append(sample)
        return torch.cat(observations), torch.cat(rewards), latencies, samples
