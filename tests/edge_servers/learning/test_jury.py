"""The root set at work: losses of many models at once, and how little other machines may differ (`SLACK`)."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from clients.evaluation import evaluate_model
from clients.models import network_for, to_vector
from clients.training import local_updates
from edge_servers.errors import FederationError
from edge_servers.learning import jury as jury_module
from edge_servers.learning.jury import RootJury, jury_of
from edge_servers.learning.verdicts import SLACK
from edge_servers.parameters import RoundParams, Settings
from tests.edge_servers.small_network import small_dataset

DATASET = small_dataset()
SETTINGS = Settings(RoundParams(filter="direction+loss", root_set=20))
NETWORK = network_for(DATASET, replace(SETTINGS.training, hidden="8"), 0)
MODEL = to_vector(NETWORK)


def jury(network: nn.Module = NETWORK) -> RootJury:
    found = jury_of(DATASET, SETTINGS, network)
    assert found is not None
    return found


class Looped(nn.Module):
    """The same network in a form that cannot be stacked."""

    def __init__(self, chain: nn.Module) -> None:
        super().__init__()
        self.chain = chain

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.chain(images)
        return scores


@pytest.mark.parametrize("network", [NETWORK, Looped(NETWORK)])
def test_losses_of_many_models_are_those_of_each(network: nn.Module) -> None:
    rng = np.random.default_rng(1)
    models = [(MODEL + rng.normal(0, 0.1, len(MODEL))).astype(np.float32) for _ in range(30)]
    expected = [evaluate_model(NETWORK, model, jury().samples).loss for model in models]
    np.testing.assert_allclose(jury(network).losses(models), expected, rtol=1e-5)


def test_other_engines_and_threads_differ_by_a_thousandth_of_the_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    root, one = jury(), jury().update(MODEL, 3)
    monkeypatch.setattr(
        jury_module, "local_updates", lambda n, net, r: local_updates(n, net, replace(r, engine="stacked"))
    )
    other = jury().update(MODEL, 3)
    assert not np.array_equal(one, other), "the same bits would show nothing"
    assert np.linalg.norm(one - other) / np.linalg.norm(one) < SLACK / 1000
    losses = np.array(root.losses([MODEL]))
    looped = np.array(jury(Looped(NETWORK)).losses([MODEL]))
    assert abs(losses - looped).max() / losses[0] < SLACK / 1000


def test_the_update_of_the_root_set_lowers_its_loss_and_is_another_one_in_every_round() -> None:
    root = jury()
    after = (MODEL - SETTINGS.training.learning_rate * root.update(MODEL, 1)).astype(np.float32)
    before_loss, after_loss = root.losses([MODEL, after])
    assert after_loss < before_loss
    assert np.array_equal(root.update(MODEL, 1), jury().update(MODEL, 1))
    assert not np.array_equal(root.update(MODEL, 1), root.update(MODEL, 2))


def test_where_no_filter_judges_there_is_no_root_set() -> None:
    assert jury_of(DATASET, Settings(RoundParams(filter="krum")), NETWORK) is None


def test_other_data_than_those_of_the_founding_are_refused() -> None:
    assert jury_of(DATASET, SETTINGS, NETWORK, jury().digest) is not None
    with pytest.raises(FederationError, match=r"root-set: found images of sha256 .*, the network was founded with 00"):
        jury_of(DATASET, SETTINGS, NETWORK, "00" * 32)
