"""Speed of the policy: environment, training against sb3-contrib's TRPO, decisions, the near-optimum solver.

    python -m benchmarks.policy [--seconds 5] [--states 20]

One process, one thread; CPU-seconds of the process, so that other work on the machine changes little. The peer trains
on the same environment flattened to a Box, with the paper's layer sizes, gamma 0 and, as our flat networks, 1,024
rounds between updates; its other settings are its own (15 iterations of the conjugate gradient on all states; ours 8 on
an eighth of them). The shared networks are asked four (settled: six) times for every state.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from policy.agents import LEARNERS, policy_agent
from policy.env.offloading import EdgeOffloadEnv, EdgeOffloadVectorEnv
from policy.env.wrappers import FlatAction, MultiDiscreteAction
from policy.parameters import LatencyParams
from policy.rivals.optimum import near_optimum
from policy.training.settings import LearningParams
from policy.training.train import new_learner
from policy.world.state import new_state

PEER_ROUNDS = 1024
"""Rounds between two updates, of the peer and of the paper's networks"""


def per_cpu_second(work: Callable[[], int], seconds: float) -> float:
    """How much `work` does in a CPU-second; the first call, which warms up, does not count."""
    work()
    done, began = 0, time.process_time()
    while time.process_time() - began < seconds:
        done += work()
    return done / (time.process_time() - began)


def env_steps(devices: int, batch: int) -> Callable[[], int]:
    """Steps of the environment, actions drawn beforehand."""
    env = EdgeOffloadVectorEnv(batch, LatencyParams(devices=devices))
    env.reset(seed=0)
    action = env.action_space.sample()

    def work() -> int:
        for _ in range(10):
            env.step(action)
        return 10 * batch

    return work


def one_env_steps(wrap: Callable[[EdgeOffloadEnv], gym.Env[Any, Any]], devices: int) -> Callable[[], int]:
    """Steps of one environment, its action in one form or another, drawn beforehand."""
    env = wrap(EdgeOffloadEnv(LatencyParams(devices=devices)))
    env.reset(seed=0)
    env.action_space.seed(0)
    action = env.action_space.sample()

    def work() -> int:
        for _ in range(10):
            env.step(action)
        return 10

    return work


def peer_training(devices: int) -> Callable[[], int]:
    """Rounds that sb3-contrib's TRPO learns from."""
    from sb3_contrib import TRPO

    env = FlatAction(EdgeOffloadEnv(LatencyParams(devices=devices)))
    layers = {"pi": [128, 64], "vf": [200, 100]}
    model = TRPO(
        "MlpPolicy", env, n_steps=PEER_ROUNDS, gamma=0.0, policy_kwargs={"net_arch": layers}, seed=0, device="cpu"
    )

    def work() -> int:
        model.learn(PEER_ROUNDS, reset_num_timesteps=False)
        return PEER_ROUNDS

    return work


def own_training(params: LearningParams, first: int = 0) -> Callable[[], int]:
    """Rounds that our learner plays and learns from."""
    learner, number = new_learner(params, LatencyParams()), first

    def work() -> int:
        nonlocal number
        number += 1
        return learner.update(number).rounds

    return work


def milliseconds(work: Callable[[], int], seconds: float) -> float:
    """CPU-milliseconds of one piece."""
    return 1e3 / per_cpu_second(work, seconds)


def show_env(seconds: float) -> None:
    """Table of the environment."""
    print("| N | env steps per CPU-s, B = 1 | B = 16 | B = 128 |\n|---|---|---|---|")
    for devices in (10, 30, 100):
        row = [f"{per_cpu_second(env_steps(devices, batch), seconds):,.0f}" for batch in (1, 16, 128)]
        print(f"| {devices} | {' | '.join(row)} |", flush=True)


def show_forms(seconds: float) -> None:
    """Table of the forms of an action, at N = 30."""
    print("\n| action at N = 30, B = 1 | env steps per CPU-s | x the dict |\n|---|---|---|")
    forms = {"dict": lambda env: env, "FlatAction": FlatAction, "MultiDiscreteAction": MultiDiscreteAction}
    speeds = {name: per_cpu_second(one_env_steps(wrap, 30), seconds) for name, wrap in forms.items()}
    for name, speed in speeds.items():
        print(f"| {name} | {speed:,.0f} | {speed / speeds['dict']:.2f} |", flush=True)


def show_training(seconds: float) -> None:
    """Table of training speeds at N = 30."""
    print("\n| training at N = 30 | rounds per CPU-s | x the peer |\n|---|---|---|")
    paper = replace(LEARNERS["a2c-paper"], rows=30 * PEER_ROUNDS // 8, samples=8)
    shared = replace(LEARNERS["a2c"], devices=(30,))
    rows = {
        "sb3-contrib TRPO, flat networks, Box": peer_training(30),
        "a2c-paper: flat networks": own_training(paper),
        "a2c: shared networks, eight actions in each state, at first": own_training(shared),
        "a2c: the same, settled": own_training(shared, shared.settle_at),
    }
    peer = None
    for name, work in rows.items():
        speed = per_cpu_second(work, seconds)
        peer = peer or speed
        print(f"| {name} | {speed:,.0f} | {speed / peer:.1f} |", flush=True)


def show_decisions(seconds: float, states: int) -> None:
    """Table of decisions: the policy on one state at a time, and the solver."""
    print("\n| N | policy, ms per state | near-optimum, ms per state |\n|---|---|---|")
    agent, rng = policy_agent(), np.random.default_rng(0)
    for devices in (10, 20, 30, 50, 100):
        params = LatencyParams(devices=devices)
        single, several = new_state(params, 1, rng), new_state(params, states, rng)
        policy = milliseconds(lambda: len(agent(single, params, rng).choice), seconds)  # noqa: B023
        began = time.process_time()
        near_optimum(several, params)
        solver = 1e3 * (time.process_time() - began) / states
        print(f"| {devices} | {policy:.1f} | {solver:.0f} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="CPU-seconds of each measurement")
    parser.add_argument("--states", type=int, default=20, help="States given to the solver")
    options = parser.parse_args()
    torch.set_num_threads(1)
    show_env(options.seconds)
    show_forms(options.seconds)
    show_training(options.seconds)
    show_decisions(options.seconds, options.states)


if __name__ == "__main__":
    main()
