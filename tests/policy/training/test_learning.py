"""Learning: updates within the trust region, the same from the same seed, checkpoints, and that it helps."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from policy.actor.hybrid_action import Heads, Sample
from policy.errors import PolicyError
from policy.parameters import LatencyParams
from policy.training.a2c import Advantages, surrogate
from policy.training.flat_learner import FlatLearner
from policy.training.learner import Learner, SharedLearner, decision_from, repeat_states
from policy.training.settings import LearningParams, StepParams
from policy.training.train import Training, new_learner, one_thread
from policy.training.trust_region import flat_parameters
from policy.world.latency import latency_of
from policy.world.state import new_state

WORLD = LatencyParams(devices=4, servers=2, channels=2)
GRADIENT = StepParams(method="gradient", actor_rate=3e-3)
SHARED = LearningParams(devices=(4, 2), rows=32, samples=2, hidden=8, passes=2)
VARIANTS = {
    "shared": SHARED,
    "paper": replace(SHARED, architecture="paper", devices=(4,)),
    "vanilla": replace(SHARED, step=GRADIENT),
    "no advantage": replace(SHARED, step=GRADIENT, has_advantage=False),
    "paper without advantage": replace(SHARED, architecture="paper", devices=(4,), has_advantage=False),
}

pytestmark = pytest.mark.slow


def moved(learner: Learner, updates: int = 2) -> torch.Tensor:
    for number in range(updates):
        learner.update(number)
    return flat_parameters(learner.actor)


def training(params: LearningParams, updates: int = 0) -> Training:
    found = Training(params, WORLD, validation_devices=4)
    found.run(updates)
    return found


def flattened(memory: Any) -> list[Any]:
    """Every number and tensor of a checkpoint, in order."""
    if isinstance(memory, dict):
        return [leaf for key in memory for leaf in flattened(memory[key])]
    if isinstance(memory, list | tuple):
        return [leaf for each in memory for leaf in flattened(each)]
    return [memory.tolist() if isinstance(memory, torch.Tensor) else memory]


def test_an_update_moves_actor_and_critic_and_says_what_it_did(subtests: pytest.Subtests) -> None:
    for name in VARIANTS:
        with subtests.test(name=name):
            params = VARIANTS[name]
            learner = new_learner(params, WORLD)
            assert isinstance(learner, SharedLearner if params.architecture == "shared" else FlatLearner)
            actor, critic = flat_parameters(learner.actor), flat_parameters(learner.critic)
            report = learner.update(0)
            assert report.devices == 4
            assert report.rounds == 8 * 2
            assert report.step.is_taken
            assert 0 < report.per_device_s < 10
            assert -1 <= report.reward <= math.e - 1
            assert 0 <= report.entropy <= math.log(5) + 1e-6
            assert not torch.equal(flat_parameters(learner.actor), actor)
            assert torch.equal(flat_parameters(learner.critic), critic) == (not params.has_advantage)


def test_a_step_stays_within_the_trust_region_and_keeps_its_promise(subtests: pytest.Subtests) -> None:
    all_names: list[str] = ["shared", "paper"]
    all_bounds: list[float] = [0.001, 0.05]
    for name in all_names:
        for bound in all_bounds:
            with subtests.test(name=name, bound=bound):
                learner = new_learner(replace(VARIANTS[name], step=StepParams(trust_region=bound)), WORLD)
                steps = [learner.update(number).step for number in range(5)]
                taken = [step for step in steps if step.is_taken]
                assert all(0 <= step.divergence <= bound for step in steps)
                assert all(step.improvement > 0 for step in taken)
                assert len(taken) >= 3
                assert max(step.divergence for step in taken) > bound / 10


def test_the_same_seed_gives_the_same_weights_and_another_others(subtests: pytest.Subtests) -> None:
    for name in VARIANTS:
        with subtests.test(name=name):
            params = VARIANTS[name]
            first, again = moved(new_learner(params, WORLD)), moved(new_learner(params, WORLD))
            assert torch.equal(first, again)
            assert not torch.equal(first, moved(new_learner(replace(params, seed=1), WORLD)))


def test_numbers_of_devices_come_one_after_the_other() -> None:
    learner = new_learner(SHARED, WORLD)
    assert [learner.update(number).devices for number in range(3)] == [4, 2, 4]


def test_samples_are_laid_out_like_the_repeated_states() -> None:
    """(R, B, N): first all states with the first sample."""
    state = new_state(WORLD, 3, np.random.default_rng(0))
    many = repeat_states(state, 2)
    choice = torch.arange(2 * 3 * 4).reshape(2, 3, 4)
    decision = decision_from(Sample(choice, torch.full((2, 3, 4, 4), 9.0)))
    assert np.array_equal(many.gain[4], state.gain[1])
    assert decision.choice[4].tolist() == choice[1, 1].tolist()
    assert decision.shares.shape == (6, 4, 4)
    assert (decision.shares == 1).all()


def test_the_surrogate_at_the_old_policy_by_hand() -> None:
    """Ratios are 1: mean advantage of choices, plus 4 shares, plus 0.1 ln 2 of entropy, plus the mean opinion."""
    heads = Heads(torch.zeros(1, 1, 2), torch.zeros(2, 1, 1, 4), torch.zeros(4))
    sample = Sample(torch.tensor([[[0]], [[1]]]), torch.zeros(2, 1, 1, 4))
    choice = torch.tensor([[[1.0]], [[4.0]]])
    advantages = Advantages(choice, torch.full((2, 1, 1, 4), 0.5), torch.tensor([[[3.0, 5.0]]]))
    assert float(surrogate(heads, heads, sample, advantages, 0.1)) == pytest.approx(2.5 + 2 + 0.1 * math.log(2) + 4)


def test_a_likelier_good_choice_promises_more() -> None:
    """The ratio of choice 1 rises from 1/2 to 3/4, its advantage is 2: 1.5 instead of 1, times 2."""
    old = Heads(torch.zeros(1, 1, 2), torch.zeros(1, 1, 1, 4), torch.zeros(4))
    new = replace(old, logits=torch.tensor([[[0.0, math.log(3)]]]))
    sample = Sample(torch.tensor([[[1]]]), torch.zeros(1, 1, 1, 4))
    advantages = Advantages(torch.full((1, 1, 1), 2.0), torch.zeros(1, 1, 1, 4))
    assert float(surrogate(old, new, sample, advantages, 0.0)) == pytest.approx(3)


def test_going_on_from_a_checkpoint_is_like_never_having_stopped(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for name in VARIANTS:
        with subtests.test(name=name):
            whole, half = training(VARIANTS[name], 6), training(VARIANTS[name], 3)
            half.save(tmp_path / "half.pt")
            rest = training(VARIANTS[name])
            rest.resume(tmp_path / "half.pt")
            assert (rest.done, rest.rounds, rest.curve) == (3, half.rounds, half.curve)
            rest.run(6)
            assert flattened(rest.learner.state_dict()) == flattened(whole.learner.state_dict())
            assert rest.rounds == whole.rounds
            assert rest.curve[-1] == whole.curve[-1]
            assert [path.name for path in tmp_path.iterdir()] == ["half.pt"]


def test_checkpoints_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "it.pt"
    training(SHARED, 1).save(path)
    before = training(SHARED)
    weights = flat_parameters(before.learner.actor)
    others = [replace(SHARED, seed=1), replace(SHARED, hidden=9), replace(SHARED, step=GRADIENT)]
    for other, said in zip(others, ("seed", "hidden", "method"), strict=True):
        with pytest.raises(PolicyError, match=rf"made with other settings: .*{said}"):
            training(other).resume(path)
    elsewhere = Training(SHARED, replace(WORLD, bandwidth_hz=1e7), validation_devices=4)
    with pytest.raises(PolicyError, match="other settings: world-bandwidth_hz"):
        elsewhere.resume(path)
    with pytest.raises(PolicyError, match=r"no checkpoint at .*nowhere\.pt"):
        before.resume(tmp_path / "nowhere.pt")
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], b"", b"no checkpoint"):
        path.write_bytes(damaged)
        with pytest.raises(PolicyError, match="is no checkpoint"):
            before.resume(path)
    assert torch.equal(flat_parameters(before.learner.actor), weights)
    assert before.done == 0


def test_memory_of_another_kind_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"found a checkpoint of \['actor'\]"):
        new_learner(SHARED, WORLD).load_state_dict({"actor": {}})


def test_training_tells_of_every_update_and_leaves_the_threads_alone() -> None:
    threads = torch.get_num_threads()
    told: list[bool] = []
    found = Training(SHARED, WORLD, validation_devices=4)
    found.run(11, lambda _, point: told.append(point is not None))
    assert told == [False] * 9 + [True, True]
    assert [point.update for point in found.curve] == [10, 11]
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == threads


def latency_s(found: Training, world: LatencyParams) -> float:
    state = new_state(world, 200, np.random.default_rng(77))
    return float(latency_of(found.policy.decide(state), state, world).per_device_s.mean())


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({}, 0.75),
        ({"step": GRADIENT}, 0.75),
        ({"step": GRADIENT, "has_advantage": False}, 0.75),
        ({"architecture": "paper"}, 0.93),
    ],
)
def test_learning_lowers_the_latency(change: dict[str, Any], part: float) -> None:
    """Measured with four seeds after 40 updates: 0.33 to 0.52 of the untrained for shared weights, 0.70 to 0.82 for the
    paper's."""
    world = LatencyParams(devices=6, servers=2, channels=2)
    params = replace(LearningParams(devices=(6,), rows=200, samples=4, hidden=16, passes=2), **change)
    found = Training(params, world, validation_devices=6)
    untrained_s = latency_s(found, world)
    found.run(40)
    assert latency_s(found, world) < part * untrained_s
    assert found.curve[-1].validation_s < found.curve[0].validation_s


def test_nonsense_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"architecture": "deep"}, "architecture: found 'deep', expected shared or paper"),
        ({"devices": ()}, r"devices: found \(\)"),
        ({"devices": (3, 0)}, r"devices\[1\]: found 0"),
        ({"architecture": "paper", "devices": (3, 4)}, "one for the paper's networks"),
        ({"seed": -1}, "seed: found -1, expected a whole number from 0 on"),
        ({"seed": 2**64}, "seed: found"),
        ({"seed": 1.5}, "seed: found 1.5"),
        ({"rows": 0}, "rows: found 0, expected a whole number from 1 on"),
        ({"rows": 8.5}, "rows: found 8.5"),
        ({"samples": 0}, "samples: found 0"),
        ({"hidden": 0}, "hidden: found 0"),
        ({"passes": 0}, "passes: found 0"),
        ({"critic_epochs": -1}, "critic_epochs: found -1"),
        ({"critic_rate": 0.0}, "critic_rate: found 0.0, expected a finite number above 0"),
        ({"critic_rate": math.inf}, "critic_rate: found inf"),
    ]
    for change, said in cases:
        with subtests.test(change=change, said=said), pytest.raises(PolicyError, match=said):
            LearningParams(**change)


def test_a_step_that_cannot_be_taken_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"method": "adam"}, "method: found 'adam', expected trust-region or gradient"),
        ({"trust_region": 0.0}, "trust_region: found 0.0, expected a finite number above 0"),
        ({"trust_region": math.nan}, "trust_region: found nan"),
        ({"trust_region": math.inf}, "trust_region: found inf"),
        ({"actor_rate": -1.0}, "actor_rate: found -1.0"),
        ({"damping": -1.0}, "damping: found -1.0"),
        ({"fisher_parts": 0}, "fisher_parts: found 0"),
        ({"iterations": 0}, "iterations: found 0"),
        ({"entropy_weight": math.nan}, "entropy_weight: found nan"),
        ({"entropy_weight": -0.1}, "entropy_weight: found -0.1"),
    ]
    for change, said in cases:
        with subtests.test(change=change, said=said), pytest.raises(PolicyError, match=said):
            StepParams(**change)


def test_a_file_of_numbers_that_is_no_checkpoint_is_refused(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[Any] = [[], 3, {"settings": None}, {"settings": {}, "memory": [], "done": 1, "rounds": 1, "curve": []}]
    for content in cases:
        with subtests.test(content=content):
            torch.save(content, tmp_path / "checkpoint.pt")
            with pytest.raises(PolicyError, match=r"checkpoint|other settings"):
                Training(LearningParams(devices=(3,), rows=12), LatencyParams(devices=3)).resume(
                    tmp_path / "checkpoint.pt"
                )


def test_a_checkpoint_without_its_weights_is_refused(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases: list[str] = ["actor", "critic"]
    for part in cases:
        with subtests.test(part=part):
            found = Training(LearningParams(devices=(3,), rows=12), LatencyParams(devices=3))
            found.save(tmp_path / "checkpoint.pt")
            content = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
            content["memory"][part] = {}
            torch.save(content, tmp_path / "checkpoint.pt")
            with pytest.raises(PolicyError, match="damaged checkpoint"):
                found.resume(tmp_path / "checkpoint.pt")
