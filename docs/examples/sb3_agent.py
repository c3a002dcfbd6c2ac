"""An agent of stable-baselines3 on our environment: `python sb3_agent.py` trains it, docs/agents.md scores it."""

import gymnasium
from stable_baselines3 import A2C
from stable_baselines3.common.env_util import make_vec_env

from policy.env.wrappers import MultiDiscreteAction
from policy.parameters import LatencyParams


def train(rounds: int) -> None:
    def env() -> gymnasium.Env:
        return MultiDiscreteAction(gymnasium.make("policy.env:bfl/EdgeOffload-v0", devices=10, servers=3))

    A2C("MlpPolicy", make_vec_env(env, 16), gamma=0.0, seed=0, device="cpu").learn(rounds).save("sb3_agent.zip")


def make(world: LatencyParams) -> A2C:
    return A2C.load("sb3_agent.zip", device="cpu")


if __name__ == "__main__":
    train(rounds=400_000)
