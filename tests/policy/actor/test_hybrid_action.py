"""The parameterised action (S31) against torch.distributions."""

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Normal, kl_divergence

from policy.actor.hybrid_action import (
    Heads,
    Sample,
    choice_log_prob,
    divergence,
    draw_sample,
    entropy,
    gaussian_divergence,
    parameter_mask,
    share_log_prob,
    shares,
)
from policy.actor.networks import SharedOutputs

STATES, DEVICES, SLOTS, SAMPLES = 2, 3, 4, 5


def outputs(seed: int) -> SharedOutputs:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    return SharedOutputs(
        logits=normal(STATES, DEVICES, 1 + SLOTS),
        device_mean=torch.tanh(normal(STATES, DEVICES, 2)),
        log_std=normal(4) / 4 - 1,
        features=normal(STATES, DEVICES, 1, SLOTS, 2),
        slot_share=torch.nn.Identity(),
    )


def slot_means(said: SharedOutputs) -> Tensor:
    """# (B, N, S, 2)"""
    return torch.tanh(said.features).flatten(2, 3)


def sample_of(seed: int, samples: int = SAMPLES) -> tuple[SharedOutputs, Sample]:
    said = outputs(seed)
    return said, draw_sample(said, samples, torch.Generator().manual_seed(seed))


def gaussians(heads: Heads) -> Normal:
    return Normal(heads.means, heads.log_std.exp().expand_as(heads.means))


def test_an_offloading_device_uses_power_bandwidth_and_hash_a_local_one_cpu_and_hash() -> None:
    assert parameter_mask(torch.tensor([0, 1, 25])).tolist() == [[0, 0, 1, 1], [1, 1, 0, 1], [1, 1, 0, 1]]


def test_the_means_are_those_of_the_chosen_slot() -> None:
    said = outputs(0)
    choice = torch.zeros(1, STATES, DEVICES, dtype=torch.int64)
    choice[0, 1, 2] = 3
    means = said.at(choice).means
    assert torch.equal(means[0, 1, 2, :2], slot_means(said)[1, 2, 2])
    assert torch.equal(means[0, :, :, 2:], said.device_mean)


def test_log_probabilities_are_those_of_torch() -> None:
    said, sample = sample_of(1)
    heads = said.at(sample.choice)
    expected = Categorical(logits=said.logits).log_prob(sample.choice)  # type: ignore[no-untyped-call]
    assert torch.allclose(choice_log_prob(heads, sample), expected, atol=1e-6)
    constant = math.log(2 * math.pi) / 2
    by_share = gaussians(heads).log_prob(sample.raw)  # type: ignore[no-untyped-call]
    counted = parameter_mask(sample.choice) * (by_share + constant)
    assert torch.allclose(share_log_prob(heads, sample), counted, atol=1e-5)
    assert not share_log_prob(heads, sample)[parameter_mask(sample.choice) == 0].any()


def test_the_entropy_is_that_of_torch() -> None:
    said, sample = sample_of(2)
    expected = Categorical(logits=said.logits).entropy().mean()  # type: ignore[no-untyped-call]
    assert float(entropy(said.at(sample.choice))) == pytest.approx(float(expected), rel=1e-5)


def test_a_policy_does_not_differ_from_itself() -> None:
    said, sample = sample_of(3)
    heads = said.at(sample.choice)
    assert float(divergence(heads, heads, sample)) == pytest.approx(0, abs=1e-6)


def test_the_divergence_is_the_sum_of_those_of_torch() -> None:
    said, sample = sample_of(4)
    old, new = said.at(sample.choice), outputs(5).at(sample.choice)
    by_choice = kl_divergence(Categorical(logits=old.logits), Categorical(logits=new.logits))
    by_share = (parameter_mask(sample.choice) * kl_divergence(gaussians(old), gaussians(new))).sum(dim=3)
    assert float(divergence(old, new, sample)) == pytest.approx(float(by_choice.mean() + by_share.mean()), rel=1e-5)
    assert float(divergence(old, new, sample)) != pytest.approx(float(divergence(new, old, sample)), rel=0.01)


def test_the_divergence_of_gaussians_by_hand() -> None:
    """KL(N(0, 1) || N(1, 2)) = ln 2 + (1 + 1) / 8 - 1/2."""
    zero = torch.tensor(0.0)
    found = gaussian_divergence(zero, zero, torch.tensor(1.0), torch.tensor(math.log(2)))
    assert float(found) == pytest.approx(math.log(2) - 0.25)


def test_many_samples_estimate_the_closed_form() -> None:
    """S31: sum_a pi_old(a) KL_c(a), of a device, the mean over devices and states."""
    said, sample = sample_of(6, samples=20_000)
    other = outputs(7)
    old_p = torch.softmax(said.logits, dim=2)
    by_choice = kl_divergence(Categorical(logits=said.logits), Categorical(logits=other.logits)).mean()
    by_share = torch.zeros(())
    for a in range(1 + SLOTS):
        everybody = torch.full((1, STATES, DEVICES), a)
        old, new = said.at(everybody), other.at(everybody)
        inside = (parameter_mask(everybody) * kl_divergence(gaussians(old), gaussians(new))).sum(dim=3)[0]
        by_share = by_share + (old_p[..., a] * inside).mean()
    found = divergence(said.at(sample.choice), other.at(sample.choice), sample)
    assert float(found) == pytest.approx(float(by_choice + by_share), rel=0.02)


def test_the_same_generator_draws_the_same_actions() -> None:
    (_, first), (_, again) = sample_of(8), sample_of(8)
    other = draw_sample(outputs(8), SAMPLES, torch.Generator().manual_seed(9))
    assert torch.equal(first.choice, again.choice)
    assert torch.equal(first.raw, again.raw)
    assert not torch.equal(first.raw, other.raw)


def test_drawn_actions_follow_the_policy() -> None:
    samples = 20_000
    said, sample = sample_of(10, samples)
    frequency = torch.nn.functional.one_hot(sample.choice, 1 + SLOTS).float().mean(dim=0)
    assert torch.allclose(frequency, torch.softmax(said.logits, dim=2), atol=5 * 0.5 / samples**0.5)
    heads = said.at(sample.choice)
    deviation = (sample.raw - heads.means) / heads.log_std.exp()
    assert deviation.mean(dim=0).abs().max() < 5 / samples**0.5
    assert (deviation.std(dim=0) - 1).abs().max() < 5 / samples**0.5


def test_raw_numbers_beyond_the_actors_range_are_clipped_to_shares() -> None:
    assert shares(torch.tensor([-7.0, -1.0, 0.0, 0.5, 1.0, 7.0])).tolist() == [0, 0, 0.5, 0.75, 1, 1]
    _, sample = sample_of(11, samples=500)
    assert (sample.raw.abs() > 1).any()
    assert sample.shares.min() == 0
    assert sample.shares.max() == 1


def test_detached_heads_are_numbers_that_stay() -> None:
    log_std = torch.zeros(4, requires_grad=True)
    heads = Heads(torch.zeros(1, 1, 2), torch.zeros(1, 1, 1, 4), log_std)
    old = heads.detach()
    with torch.no_grad():
        log_std.add_(1.0)
    assert not old.log_std.requires_grad
    assert not old.log_std.any()
