"""Whether a plan is one that the network was founded for (P2, P22, P25)."""

from collections.abc import Iterable
from math import inf, isclose

from chain.protocol.slots import MAX_STEP
from chain.wire.plan import Plan
from edge_servers.errors import PlanError
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.learning.reputation import Reputation, aside_in, check_reputation, reputation_in, reputation_terms
from edge_servers.learning.schemes import scheme_of
from edge_servers.planning.state import LOCAL, round_samples, without

_LONGEST_S = 1_000_000
"""Longest that a plan may say its round takes: the time of the chain follows from it"""
_DIVERGENCE_TOLERANCE = 1e-6


def check_divergence(plan: Plan, expected: float) -> None:
    """Raise `PlanError` unless the plan names the divergence of the round before; another CPU may round otherwise."""
    if not isclose(plan.divergence, expected, rel_tol=_DIVERGENCE_TOLERANCE):
        raise PlanError(f"plan: found divergence {plan.divergence!r} of the round before, expected {expected!r}")


def check_follows(plan: Plan, divergence: float | None, reputation: Reputation | None) -> None:
    """Raise `PlanError` unless the plan says of the rounds before it what they give; None where nobody can say."""
    if divergence is not None:
        check_divergence(plan, divergence)
    if reputation is not None:
        check_reputation(plan, reputation)


def check_plan(plan: Plan, founding: FoundingParameters, round_: int, excluded: Iterable[int] = ()) -> None:
    """Raise `PlanError` for a plan that the founding parameters do not allow (P2, P22, P25, R5)."""
    network, settings = founding.network, founding.settings
    n, m = len(network.devices), len(network.servers)
    if plan.round != round_ or len(plan.assignment) != n or len(plan.samples) != n:
        raise PlanError(f"found a plan of round {plan.round} for {len(plan.assignment)} devices")
    reputation_in(plan, reputation_terms(settings.rounds))
    aside = aside_in(plan)
    samples = without(aside, round_samples(round_, network, settings.data, founding.sample_bytes))
    if plan.samples != samples:
        wrong = next(i for i in range(n) if plan.samples[i] != samples[i])
        raise PlanError(f"plan: found {plan.samples[wrong]} samples of device {wrong}, expected {samples[wrong]}")
    expected = ((settings.training.iterations,) * n, (settings.training.iterations,) * m)
    if (plan.iterations, plan.server_iterations) != expected:
        raise PlanError(f"plan: expected {settings.training.iterations} iterations for everybody")
    if plan.deadline_s != settings.rounds.deadline_s:
        raise PlanError(f"plan: found a deadline of {plan.deadline_s:g} s, expected {settings.rounds.deadline_s:g}")
    for name in ("power_w", "bandwidth_hz", "cpu_hz", "hash_rate"):
        given = getattr(plan, name)
        if len(given) != n or min(given) < 0:
            raise PlanError(f"plan: found {name} for {len(given)} devices, expected {n} numbers of at least 0")
    if not 0 < sum(plan.hash_rate) < inf:
        raise PlanError(f"plan: found hash rates that sum to {sum(plan.hash_rate):g}, expected a number above 0")
    wall_s = plan.latency_s.get("T_wall", 0.0)
    if not 0 <= wall_s <= _LONGEST_S:
        raise PlanError(f"plan: found a round of {wall_s:g} s, expected 0 to {_LONGEST_S}")
    barred = set(excluded)
    for device, target in zip(network.devices, plan.assignment, strict=True):
        is_free = device.index not in aside and device.consent.allows(target)
        if target != LOCAL and not (0 <= target < m and target not in barred and is_free):
            raise PlanError(f"plan: device {device.index} may not offload to server {target}")


def check_phi(plan: Plan, founding: FoundingParameters) -> None:
    """Raise `PlanError` for a number of consensus steps that the founding parameters do not allow.

    Under phi auto it is the leader's word: K of Corollary 1 is the run's length, which may change.
    """
    rounds = founding.settings.rounds
    gossips = scheme_of(rounds.scheme).gossips
    is_open = gossips and rounds.is_auto_phi and plan.round > 1
    fixed = rounds.first_phi if gossips else 0
    least, most = (1, min(rounds.max_phi, MAX_STEP)) if is_open else (fixed, fixed)
    if not least <= plan.phi <= most:
        raise PlanError(f"plan: found phi {plan.phi}, expected {f'{least} to {most}' if is_open else fixed}")
