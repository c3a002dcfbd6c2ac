"""Accuracy and loss, against a direct computation."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from clients.data import Dataset, Samples
from clients.errors import ModelError
from clients.evaluation import Scores, evaluate_model, mean_scores
from clients.models import build_network, to_vector, with_parameters


def test_accuracy_and_loss_of_four_samples_worked_by_hand() -> None:
    """One weight per class: scores (x, -x). x = 1: right for label 0, loss ln(1 + e^-2); x = -1 mirrored."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(1, 2, bias=False))
    images = torch.tensor([1.0, 1.0, -1.0, 1.0]).reshape(4, 1, 1, 1)
    samples = Samples(images, torch.tensor([0, 0, 1, 1]))
    scores = evaluate_model(network, np.array([1.0, -1.0], np.float32), samples)
    right, wrong = np.log1p(np.exp(-2)), np.log1p(np.exp(2))
    assert scores.accuracy == 0.75
    assert scores.loss == pytest.approx((3 * right + wrong) / 4, rel=1e-6)


def test_scores_agree_with_a_direct_computation_whatever_the_number_of_samples(
    subtests: pytest.Subtests, synthetic: Dataset
) -> None:
    cases: list[int] = [1, 999, 1_000, 1_001, 2_500]
    for count in cases:
        with subtests.test(count=count):
            samples = synthetic.train.select(torch.arange(count))
            network = build_network("fashion-mnist-cnn", (1, 28, 28), 10, (), seed=1)
            vector = to_vector(network)
            scaled = (samples.inputs.double() / 255 - 0.5) / 0.25
            with torch.no_grad():
                logits = with_parameters(network, vector).double()(scaled)
            scores = evaluate_model(network, vector, samples)
            # A tie within float32's rounding could change one prediction.
            assert scores.accuracy == pytest.approx(
                float((logits.argmax(1) == samples.labels).double().mean()), abs=1 / count * (count > 1)
            )
            assert scores.loss == pytest.approx(float(F.cross_entropy(logits, samples.labels)), rel=1e-5)


def test_the_vector_is_evaluated_and_not_the_parameters_of_the_network(synthetic: Dataset) -> None:
    samples = synthetic.test.select(torch.arange(200))
    one, other = (build_network("fashion-mnist-cnn", (1, 28, 28), 10, (), seed) for seed in (1, 2))
    assert evaluate_model(other, to_vector(one), samples) == evaluate_model(one, to_vector(one), samples)
    assert evaluate_model(one, to_vector(other), samples) != evaluate_model(one, to_vector(one), samples)


def test_evaluation_changes_neither_the_network_nor_the_images(synthetic: Dataset) -> None:
    samples = synthetic.test.select(torch.arange(50))
    network = build_network("fashion-mnist-cnn", (1, 28, 28), 10, (), seed=1)
    before, images = to_vector(network), samples.inputs.clone()
    evaluate_model(network, before, samples)
    np.testing.assert_array_equal(to_vector(network), before)
    assert torch.equal(samples.inputs, images)
    assert network.training


def test_dropout_is_off_in_evaluation() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Dropout(0.9), nn.Linear(4, 2))
    samples = Samples(torch.rand(20, 1, 2, 2), torch.zeros(20, dtype=torch.int64))
    vector = to_vector(network)
    assert len({evaluate_model(network, vector, samples) for _ in range(5)}) == 1


def test_a_model_of_another_size_is_refused(synthetic: Dataset) -> None:
    network = build_network("fashion-mnist-cnn", (1, 28, 28), 10, (), seed=1)
    with pytest.raises(
        ModelError, match=r"found a vector of float32 and shape \(10,\), expected float32 of \(21840,\)"
    ):
        evaluate_model(network, np.zeros(10, np.float32), synthetic.test)


def test_the_mean_of_scores_is_taken_of_accuracy_and_loss_apart() -> None:
    assert mean_scores([Scores(0.5, 1.0), Scores(0.75, 3.0)]) == Scores(0.625, 2.0)
