"""The agents of the latency figures: trained once, then measured in the same states of every world."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from bfl.experiments.context import ExperimentContext
from bfl.experiments.estimate import Estimate, estimate_mean
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
class AgentVariant:
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
    _untrained_agent(OURS)


def world_label(world: LatencyParams) -> str:
    """What a world has that the default one has not, as in "devices=20"; part of file names."""
    plain = LatencyParams()
    found = [field.name for field in fields(world) if getattr(world, field.name) != getattr(plain, field.name)]
    return ",".join(f"{name}={getattr(world, name):g}" for name in found) or "default"


def train_or_load(
    context: ExperimentContext, variant: AgentVariant, seed: int, world: LatencyParams
) -> tuple[agents.Agent, LearningCurve | None]:
    """The agent after its training in this world, and its learning curve; trained if it is not in FOLDER/agents."""
    folder, effort = context.folder / "agents", context.budget.effort
    if world != LatencyParams():
        folder /= world_label(world)
    with context.display.task(f"train {variant.key}, seed {seed}, {world_label(world)} world") as show_progress:

        def on_progress(done: float, per_device_s: float) -> None:
            show_progress(done, f"T/N {per_device_s:.3f} s while learning")

        params = variant.params(seed) if variant.agent in agents.LEARNERS else None
        return AgentCache(folder, world, effort).agent(variant.agent, seed, on_progress, params)


def scores_after_learning(
    context: ExperimentContext, variant: AgentVariant, world: LatencyParams, home: LatencyParams
) -> Scores:
    """T / N in fresh states of `world`, of every seed, after a training in the world `home`."""
    budget = context.budget

    def scores_of(seed: int) -> list[float]:
        own = variant.params(seed) if variant.agent in agents.LEARNERS else None
        key = AgentCache(context.folder, home, budget.effort).key(variant.agent, seed, own)
        return _cached_scores(
            context, key, lambda: train_or_load(context, variant, seed, home)[0], world, budget.states
        )

    return [scores_of(seed) for seed in range(budget.seeds)]


def scores_in(context: ExperimentContext, name: str, world: LatencyParams) -> Scores:
    """T / N of an agent of a sweep in one of its worlds: ours as shipped, rules and optimum, or trained rivals."""
    if name == OURS:
        digest = hashlib.sha256(SHIPPED.read_bytes()).hexdigest()[:8] if SHIPPED.exists() else "none"
        return [
            _cached_scores(
                context, f"{OURS}-shipped-{digest}", lambda: _untrained_agent(OURS), world, context.budget.states
            )
        ]
    if name not in agents.LEARNERS and name not in LIBRARY_AGENTS:
        states = context.budget.optimum_states if name == agents.OPTIMUM else context.budget.states
        return [_cached_scores(context, name, lambda: _untrained_agent(name), world, states)]
    home = world if context.budget.is_retrained else LatencyParams()
    if name in agents.LEARNERS:  # learns with many numbers of devices, whatever that of the world
        home = replace(home, devices=LatencyParams().devices)
    return scores_after_learning(context, AgentVariant(name, name), world, home)


def final_estimate(context: ExperimentContext, variant: AgentVariant) -> Estimate:
    """T / N of the decisions of a trained agent in the default world."""
    return estimate_mean(scores_after_learning(context, variant, LatencyParams(), LatencyParams()))


def _untrained_agent(name: str) -> agents.Agent:
    found = agents.fixed_agent(name)
    if found is None:
        raise ValueError(f"{name} has to be trained")
    return found


def _cached_scores(
    context: ExperimentContext, key: str, agent: Callable[[], agents.Agent], world: LatencyParams, states: int
) -> list[float]:
    def measure() -> list[float]:
        decide = agent()
        with context.display.task(f"measure {key}, {world_label(world)} world, {states} states") as show_progress:
            done = 0

            def on_progress(some: int) -> None:
                nonlocal done
                done += some
                show_progress(done / states, f"{done:,} of {states:,} states")

            return [
                float(value)
                for value in evaluate_agent(key, decide, world, states, on_progress=on_progress).per_state_s
            ]

    return context.cached_values(f"{world_label(world)}-{key}-states{states}", states, measure)
