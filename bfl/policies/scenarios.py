"""The worlds of the leaderboard: what a published comparison is about, so they stay as they are."""

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import policy.world
from bfl.errors import BflError
from clients.parameters import did_you_mean
from policy.evaluation import EVALUATION_SEED
from policy.parameters import LatencyParams


@dataclass(frozen=True)
class Scenario:
    """A world with a name."""

    name: str
    text: str
    world: LatencyParams


SCENARIOS = {
    each.name: each
    for each in (
        Scenario("paper", "the paper's: 30 devices, 5 servers x 5 sub-channels", LatencyParams()),
        Scenario("few", "10 devices: slots enough for everybody", LatencyParams(devices=10)),
        Scenario("crowd", "100 devices for the same 25 slots", LatencyParams(devices=100)),
        Scenario("testbed", "what `bfl simulate` has: 10 devices, 3 servers", LatencyParams(devices=10, servers=3)),
        Scenario(
            "wide", "cells of twice the radius: weak channels", LatencyParams(disc_m=1000.0, server_circle_m=600.0)
        ),
        Scenario("slow", "devices with a third of the CPU: offloading pays", LatencyParams(cpu_max_hz=2e9 / 3)),
    )
}
SEEDS = tuple(EVALUATION_SEED + number for number in range(1, 6))
"""Of the states; `policy evaluate` uses another one"""


def chosen_scenarios(text: str) -> list[Scenario]:
    """Those named with commas, or all."""
    if text == "all":
        return list(SCENARIOS.values())
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in SCENARIOS:
            raise BflError(
                f"--scenarios: found {name!r}, expected all or some of {', '.join(SCENARIOS)}"
                f"{did_you_mean(name, SCENARIOS)}"
            )
    return [SCENARIOS[name] for name in dict.fromkeys(names)]


def scenario_key(scenario: Scenario, states: int) -> str:
    """Name of a scenario's states and of the physics that judges them: whatever changes makes all scores anew."""
    physics = [path.read_bytes() for path in sorted(Path(policy.world.__file__).parent.glob("*.py"))]
    known = json.dumps([asdict(scenario.world), SEEDS, states]).encode()
    return f"{scenario.name}-{sha256(known + b''.join(physics)).hexdigest()[:12]}"
