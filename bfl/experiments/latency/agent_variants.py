"""The agents of the latency figures: trained once, then measured in the same states of every world."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from bfl.experiments.context import Bench
from bfl.experiments.estimate import Estimate, estimated
from policy import agents
from policy.actor.weights import SHIPPED
from policy.agents import OURS
from policy.cache import AgentCache, LearningCurve
from policy.evaluation import evaluate_agent
from policy.parameters import LatencyParams
from policy.rivals.library import LIBRARY_AGENTS, check_library
from policy.training.settings import LearningParams

Scores = list[list[float]]
"""T / N of every training seed in every state"""


@dataclass(frozen=True)
class Contender:
    """An agent that learns in the default world; one of our own perhaps with another rate."""

    label: str
    agent: str
    actor_rate: float | None = None
    critic_rate: float | None = None

    @property
    def key(self) -> str:
        """Its name among the trained agents; a rate that is the agent's own makes it no other agent."""
        if self.agent not in agents.LEARNERS:
            return self.agent
        plain, here = agents.learning_params(self.agent, 0), self.params(0)
        changed = {"actor": here.step.actor_rate, "critic": here.critic_rate}
        known = {"actor": plain.step.actor_rate, "critic": plain.critic_rate}
        return self.agent + "".join(f"-{n}-rate{rate:g}" for n, rate in changed.items() if rate != known[n])

    def params(self, seed: int) -> LearningParams:
        """How it learns, if it is one of our own."""
        plain = agents.learning_params(self.agent, seed)
        step = plain.step if self.actor_rate is None else replace(plain.step, actor_rate=self.actor_rate)
        return replace(plain, step=step, critic_rate=self.critic_rate or plain.critic_rate)


def check_agents(names: list[str]) -> None:
    """Raise `PolicyError` unless each of them is known and can be trained on this machine."""
    for name in names:
        agents.check_name(name)
        if name in LIBRARY_AGENTS:
            check_library()


def check_shipped() -> None:
    """Raise `PolicyError` unless the package has weights of ours that can be read."""
    _fixed(OURS)


def label_of(world: LatencyParams) -> str:
    """How a world differs from the default one."""
    plain = LatencyParams()
    found = [field.name for field in fields(world) if getattr(world, field.name) != getattr(plain, field.name)]
    return ",".join(f"{name}={getattr(world, name):g}" for name in found) or "default"


def learned(
    bench: Bench, contender: Contender, seed: int, world: LatencyParams
) -> tuple[agents.Agent, LearningCurve | None]:
    """The agent after its training in this world, and its learning curve; trained if it is not in FOLDER/agents."""
    folder, effort = bench.folder / "agents", bench.budget.effort
    if world != LatencyParams():
        folder /= label_of(world)
    with bench.watch.part(f"train {contender.key}, seed {seed}, {label_of(world)} world") as told:

        def hear(done: float, per_device_s: float) -> None:
            told(done, f"T/N {per_device_s:.3f} s while learning")

        params = contender.params(seed) if contender.agent in agents.LEARNERS else None
        return AgentCache(folder, world, effort).agent(contender.agent, seed, hear, params)


def scores_after_learning(bench: Bench, contender: Contender, world: LatencyParams, home: LatencyParams) -> Scores:
    """T / N in fresh states of `world`, of every seed, after a training in the world `home`."""
    budget = bench.budget

    def scores_of(seed: int) -> list[float]:
        own = contender.params(seed) if contender.agent in agents.LEARNERS else None
        key = AgentCache(bench.folder, home, budget.effort).key(contender.agent, seed, own)
        return _kept_scores(bench, key, lambda: learned(bench, contender, seed, home)[0], world, budget.states)

    return [scores_of(seed) for seed in range(budget.seeds)]


def scores_in(bench: Bench, name: str, world: LatencyParams) -> Scores:
    """T / N of an agent of a sweep in one of its worlds: ours as shipped, rules and optimum, or trained rivals."""
    if name == OURS:
        digest = hashlib.sha256(SHIPPED.read_bytes()).hexdigest()[:8] if SHIPPED.exists() else "none"
        return [_kept_scores(bench, f"{OURS}-shipped-{digest}", lambda: _fixed(OURS), world, bench.budget.states)]
    if name not in agents.LEARNERS and name not in LIBRARY_AGENTS:
        states = bench.budget.optimum_states if name == agents.OPTIMUM else bench.budget.states
        return [_kept_scores(bench, name, lambda: _fixed(name), world, states)]
    home = world if bench.budget.is_retrained else LatencyParams()
    if name in agents.LEARNERS:  # learns with many numbers of devices, whatever that of the world
        home = replace(home, devices=LatencyParams().devices)
    return scores_after_learning(bench, Contender(name, name), world, home)


def final_estimate(bench: Bench, contender: Contender) -> Estimate:
    """T / N of the decisions of a trained agent in the default world."""
    return estimated(scores_after_learning(bench, contender, LatencyParams(), LatencyParams()))


def _fixed(name: str) -> agents.Agent:
    found = agents.fixed_agent(name)
    if found is None:
        raise ValueError(f"{name} has to be trained")
    return found


def _kept_scores(
    bench: Bench, key: str, agent: Callable[[], agents.Agent], world: LatencyParams, states: int
) -> list[float]:
    def measure() -> list[float]:
        decide = agent()
        with bench.watch.part(f"measure {key}, {label_of(world)} world, {states} states") as told:
            done = 0

            def hear(some: int) -> None:
                nonlocal done
                done += some
                told(done / states, f"{done:,} of {states:,} states")

            return [float(value) for value in evaluate_agent(key, decide, world, states, on_progress=hear).per_state_s]

    return bench.kept(f"{label_of(world)}-{key}-states{states}", states, measure)
