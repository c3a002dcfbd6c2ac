"""Our filters and attacks against the literature's own code, `byzfl`, on the same gradients.

Tolerance: 1e-9 relative. Both compute in float64, in another order. Where `byzfl` is not installed, that is told.
"""

import importlib
import importlib.machinery
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bfl.attacks.collusion import COLLUDING, Conspiracy
from clients.batches import NodeKey
from clients.training import LocalUpdate
from edge_servers.learning.aggregation import central_update
from edge_servers.learning.filters import make_filter
from edge_servers.learning.gradients import Gradient
from edge_servers.learning.rules import krum_scores, per_iteration
from tests.edge_servers.addresses import address

Rows = NDArray[np.float64]
CLOSE = 1e-9
LIARS = 2


@pytest.fixture(scope="module")
def byzfl() -> Iterator[types.ModuleType]:
    """Its aggregators and attacks; its package imports torchvision, which not everybody has, so these two alone."""
    found = importlib.machinery.PathFinder.find_spec("byzfl")
    if found is None or found.submodule_search_locations is None:
        pytest.skip("byzfl is not installed (pip install byzfl==0.0.11): nothing to compare with")
    before = {name for name in sys.modules if name.startswith("byzfl")}
    package = types.ModuleType("byzfl")
    package.__path__ = list(found.submodule_search_locations)
    sys.modules["byzfl"] = package
    both = types.ModuleType("parts of byzfl")
    for part in ("byzfl.aggregators", "byzfl.attacks"):
        vars(both).update(
            {name: each for name, each in vars(importlib.import_module(part)).items() if name[0].isupper()}
        )
    yield both
    for name in [name for name in sys.modules if name.startswith("byzfl") and name not in before]:
        del sys.modules[name]


def rows_of(seed: int, nodes: int = 12, size: int = 400) -> Rows:
    """A crowd, with some that are far off."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(0.3, 1.0, (nodes, size))
    rows[:LIARS] = rng.normal(-4.0, 3.0, (LIARS, size))
    return rng.permutation(rows)


def closed(rows: Rows) -> list[Gradient]:
    """Equal weights, for byzfl knows none."""
    return [Gradient(address(n), f"device {n}", 0, 10, 1, "model", "plan", row) for n, row in enumerate(rows)]


def aggregate(text: str, rows: Rows) -> Rows:
    """What eq. 8 makes of the list after our filter: the weighted mean."""
    kept = make_filter(text)(closed(rows)).kept
    mean: Rows = np.mean([per_iteration(gradient) for gradient in kept], axis=0)
    return mean


SEEDS = pytest.mark.parametrize("seed", range(4))


@SEEDS
def test_trimmed_mean_and_median_are_the_same(byzfl: Any, seed: int) -> None:
    rows = rows_of(seed)
    np.testing.assert_allclose(aggregate("trimmed-mean:0.17", rows), byzfl.TrMean(f=LIARS)(rows), rtol=CLOSE)
    np.testing.assert_allclose(aggregate("median", rows), byzfl.Median()(rows), rtol=CLOSE, atol=1e-12)


@SEEDS
def test_nearest_neighbour_mixing_is_the_same_alone_and_before_trimmed_mean(byzfl: Any, seed: int) -> None:
    rows = rows_of(seed)
    mixed = byzfl.NNM(f=LIARS)(rows)
    ours = np.stack([per_iteration(gradient) for gradient in make_filter(f"nnm:{LIARS}")(closed(rows)).kept])
    np.testing.assert_allclose(ours, mixed, rtol=CLOSE, atol=1e-12)
    expected = byzfl.TrMean(f=LIARS)(mixed)
    np.testing.assert_allclose(aggregate("nnm:2+trimmed-mean:0.17", rows), expected, rtol=CLOSE, atol=1e-12)


@SEEDS
def test_multi_krum_is_the_same_but_for_the_number_of_neighbours(byzfl: Any, seed: int) -> None:
    """Blanchard et al. sum over n - f - 2 neighbours, as we do; byzfl over n - f - 1."""
    rows = rows_of(seed)
    kept = len(rows) - LIARS
    ranked = np.argsort(krum_scores(closed(rows), kept - 1), kind="stable")[:kept]
    np.testing.assert_allclose(rows[ranked].mean(axis=0), byzfl.MultiKrum(f=LIARS)(rows), rtol=CLOSE)
    ours = aggregate(f"krum:{LIARS}", rows)
    np.testing.assert_allclose(ours, byzfl.MultiKrum(f=LIARS)(rows), rtol=CLOSE)  # here one neighbour changes nothing


@SEEDS
def test_clipping_to_a_length_is_the_same(byzfl: Any, seed: int) -> None:
    rows = rows_of(seed)
    limit = float(np.median(np.linalg.norm(rows, axis=1)))
    clipped = np.stack([gradient.values for gradient in make_filter("norm-clip:1")(closed(rows)).kept])
    np.testing.assert_allclose(clipped, byzfl.Clipping(c=limit)(rows), rtol=CLOSE)


@SEEDS
def test_centred_clipping_is_one_step_of_theirs_from_the_median(byzfl: Any, seed: int) -> None:
    rows = rows_of(seed)
    centre = np.median(rows, axis=0)
    radius = float(np.median(np.linalg.norm(rows - centre, axis=1)))
    theirs = centre + byzfl.CenteredClipping(L=1, tau=radius)(rows - centre)  # it refuses any centre of its own
    np.testing.assert_allclose(aggregate("centred-clip", rows), theirs, rtol=CLOSE, atol=1e-12)


@pytest.mark.parametrize(("kind", "name", "strength"), [
    ("alie", "ALittleIsEnough", 1.5), ("ipm", "InnerProductManipulation", 0.5), ("mimic", "Mimic", None),
])  # fmt: skip
def test_colluders_send_what_theirs_send(byzfl: Any, kind: str, name: str, strength: float | None) -> None:
    rows = rows_of(1)
    theirs = getattr(byzfl, name)(*([] if strength is None else [strength]))(rows)
    np.testing.assert_allclose(COLLUDING[kind](rows, strength or 1.0), theirs, rtol=CLOSE, atol=1e-12)


# --- and they break what they are known to break


def descent(text: str, attack: str, strength: float, unlike: float) -> float:
    """Distance to the honest optimum after 60 rounds of gradient descent on quadratic losses, whose optima lie `unlike`
    apart: non-IID data. Three of ten collude.
    """
    rng = np.random.default_rng(8)
    honest, liars, size = 7, 3, 30
    optima = 3.0 + unlike * rng.normal(size=(honest, size))
    keys = [NodeKey("device", n) for n in range(honest + liars)]
    model = np.zeros(size, np.float32)
    for round_ in range(1, 61):
        gradients = [LocalUpdate(10, 1, (model - optimum).astype(np.float32)) for optimum in optima]
        conspiracy = Conspiracy(keys[honest:], lambda *_, given=gradients: given)
        recipe, nodes = types.SimpleNamespace(round=round_), [types.SimpleNamespace(key=key) for key in keys[:honest]]
        conspiracy.trainer(nodes, None, recipe)  # type: ignore[arg-type]
        sent = [conspiracy.crafted(attack, gradients[0], strength, round_)] * liars if attack else []
        values = np.stack([each.values for each in [*gradients, *sent]])
        model = central_update(model, make_filter(text)(closed(values.astype(np.float64))).kept, 0.2)
    return float(np.linalg.norm(model - optima.mean(axis=0)) / np.sqrt(size))


def test_known_attacks_break_plain_mean_and_the_median_where_data_differ() -> None:
    quiet = descent("none", "", 0, 2.0)
    assert quiet < 0.01
    assert descent("none", "ipm", 3.0, 2.0) > 2.5, "the mean turns round"
    assert descent("none", "alie", 1.5, 2.0) > 0.9, "and is pulled away by what lies inside the crowd"
    assert descent("median", "alie", 1.5, 2.0) > 5 * max(descent("median", "alie", 1.5, 0.1), 0.05)
    assert descent("median", "ipm", 3.0, 0.1) < 0.2, "among equals the median holds"
    assert descent("nnm:3+trimmed-mean:0.3", "alie", 1.5, 2.0) < descent("trimmed-mean:0.3", "alie", 1.5, 2.0)
