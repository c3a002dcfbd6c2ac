"""PPO in one file, with torch alone, on the hybrid action as it is: `python cleanrl_agent.py`, then docs/agents.md.

A choice and four shares for each device: categorical and normal heads of one network, no wrapper. A round's reward
depends on that round only, so there is no bootstrapping: the advantage is the reward less the value.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Normal

from policy.env.observation import observation_size
from policy.parameters import LatencyParams

WEIGHTS = Path("cleanrl_agent.pt")


@dataclass(frozen=True)
class Args:
    """What one would tune."""

    devices: int = 10
    servers: int = 3
    seed: int = 1
    envs: int = 128
    updates: int = 1500
    steps: int = 4
    epochs: int = 4
    minibatches: int = 4
    learning_rate: float = 1e-3
    clip: float = 0.2
    entropy: float = 1e-3
    first_std: float = 0.3


class Agent(nn.Module):
    """Actor and critic."""

    def __init__(self, world: LatencyParams, first_std: float = 0.3) -> None:
        super().__init__()
        seen, self.devices, self.choices = observation_size(world), world.devices, world.slots + 1
        self.critic = nn.Sequential(nn.Linear(seen, 200), nn.Tanh(), nn.Linear(200, 100), nn.Tanh(), nn.Linear(100, 1))
        self.trunk = nn.Sequential(nn.Linear(seen, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh())
        self.head = nn.Linear(256, self.devices * (self.choices + 4))
        nn.init.orthogonal_(self.head.weight, 0.01)
        self.log_std = nn.Parameter(torch.full((4,), float(np.log(first_std))))

    def heads(self, seen: Tensor) -> tuple[Categorical, Normal]:
        """Distributions of every device's choice and shares."""
        rows = self.head(self.trunk(seen)).unflatten(-1, (self.devices, self.choices + 4))
        return Categorical(logits=rows[..., :-4]), Normal(torch.sigmoid(rows[..., -4:]), self.log_std.exp())

    def log_prob(self, seen: Tensor, choice: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
        """Of an action of all devices together, and the entropy of the choices."""
        choices, normal = self.heads(seen)
        each = choices.log_prob(choice) + normal.log_prob(shares).sum(-1)
        return each.sum(-1), choices.entropy().mean()

    @torch.no_grad()
    def decide_batch(self, seen: np.ndarray) -> dict[str, np.ndarray]:
        """The likeliest actions in B states: with this and `decide` it can be scored."""
        choices, normal = self.heads(torch.as_tensor(seen))
        return {"choice": choices.logits.argmax(-1).numpy(), "params": normal.mean.numpy()}

    def decide(self, seen: np.ndarray) -> dict[str, np.ndarray]:
        """The same in one state."""
        return {name: values[0] for name, values in self.decide_batch(seen[None]).items()}


def train(args: Args) -> Agent:
    """PPO; prints the mean reward now and then."""
    torch.manual_seed(args.seed)
    world = LatencyParams(devices=args.devices, servers=args.servers)
    envs = gymnasium.make_vec("policy.env:bfl/EdgeOffload-v0", num_envs=args.envs, params=world)
    agent = Agent(world, args.first_std)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate)
    seen, _ = envs.reset(seed=args.seed)
    for update in range(1, args.updates + 1):
        optimizer.param_groups[0]["lr"] = args.learning_rate * (1 - (update - 1) / args.updates)
        rows, rewards = [], []
        for _ in range(args.steps):
            now = torch.as_tensor(seen)
            with torch.no_grad():
                choices, normal = agent.heads(now)
                choice, shares = choices.sample(), normal.sample()
                logs, _ = agent.log_prob(now, choice, shares)
            seen, reward, *_ = envs.step({"choice": choice.numpy(), "params": shares.clamp(0, 1).numpy()})
            rows.append((now, choice, shares, logs))
            rewards.append(torch.as_tensor(reward, dtype=torch.float32))
        learn(agent, optimizer, [torch.cat(part) for part in zip(*rows, strict=True)], torch.cat(rewards), args)
        if update % max(1, args.updates // 20) == 0:
            print(f"update {update}: reward {torch.cat(rewards).mean():.3f}", flush=True)
    torch.save(agent.state_dict(), WEIGHTS)
    return agent


def learn(agent: Agent, optimizer: torch.optim.Optimizer, rows: list[Tensor], rewards: Tensor, args: Args) -> None:
    """Some epochs of the clipped objective."""
    with torch.no_grad():
        advantages = rewards - agent.critic(rows[0])[:, 0]
    for _ in range(args.epochs):
        for part in torch.randperm(len(rewards)).chunk(args.minibatches):
            seen, choice, shares, old = (row[part] for row in rows)
            logs, entropy = agent.log_prob(seen, choice, shares)
            normed = (advantages[part] - advantages[part].mean()) / (advantages[part].std() + 1e-8)
            ratio = (logs - old).exp()
            gain = torch.min(ratio * normed, ratio.clamp(1 - args.clip, 1 + args.clip) * normed).mean()
            value_loss = ((agent.critic(seen)[:, 0] - rewards[part]) ** 2).mean()
            optimizer.zero_grad()
            (value_loss - gain - args.entropy * entropy).backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


def make(world: LatencyParams) -> Agent | None:
    """The trained agent: `bfl policy evaluate --agents cleanrl_agent:make`. It serves the world it was trained in."""
    if (world.devices, world.servers, world.channels) != (Args.devices, Args.servers, LatencyParams.channels):
        return None
    agent = Agent(world)
    agent.load_state_dict(torch.load(WEIGHTS, weights_only=True))
    return agent


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=Args.updates)
    parser.add_argument("--seed", type=int, default=Args.seed)
    train(Args(**vars(parser.parse_args())))
