"""Whole runs in this process: same seed, same result; every scheme, partition, planner and graph."""

import json
from pathlib import Path

import numpy as np
import pytest

from bfl.simulation import run as simulation
from edge_servers.parameters import SCHEMES
from tests.bfl.runs import ignore, run_through, small

pytestmark = pytest.mark.usefixtures("without_plots")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_same_seed_gives_the_same_metrics(tmp_path: Path, scheme: str) -> None:
    once = run_through(small(scheme=scheme, rounds=3), tmp_path / "once")
    again = run_through(small(scheme=scheme, rounds=3), tmp_path / "again")
    assert [line["round"] for line in once] == [1, 2, 3]
    assert once == again


def test_another_seed_gives_other_metrics(tmp_path: Path) -> None:
    once = run_through(small(rounds=2), tmp_path / "once")
    other = run_through(small(rounds=2, seed=1), tmp_path / "other")
    assert [line["loss"] for line in once] != [line["loss"] for line in other]


def test_the_same_seed_gives_the_same_model_byte_for_byte(tmp_path: Path) -> None:
    for name in ("once", "again"):
        run_through(small(rounds=2, planner="random:0.5"), tmp_path / name)
    assert (tmp_path / "once" / "model.pt").read_bytes() == (tmp_path / "again" / "model.pt").read_bytes()


@pytest.mark.parametrize(("scheme", "phi"), [("consensus-no-chain", 7), ("traditional", 0), ("fedavg", 0)])
def test_only_a_scheme_with_consensus_gossips(tmp_path: Path, scheme: str, phi: int) -> None:
    metrics = run_through(small(scheme=scheme, rounds=1, phi="7"), tmp_path / "run")
    assert metrics[0]["phi"] == phi


def test_traditional_keeps_one_model_per_server_and_reports_their_mean(tmp_path: Path) -> None:
    run_through(small(scheme="traditional", rounds=2), tmp_path / "run")
    models = sorted(path.name for path in (tmp_path / "run").glob("*.pt"))
    assert models == ["model-server-1.pt", "model-server-2.pt", "model.pt"]
    assert len({(tmp_path / "run" / name).read_bytes() for name in models}) == 3


def test_whole_shares_are_all_six_thousand_images(tmp_path: Path) -> None:
    metrics = run_through(small(rounds=2, data_per_round="all"), tmp_path / "run")
    assert [line["samples"] for line in metrics] == [6_000, 6_000]


def test_a_fresh_subset_is_at_most_two_megabytes_per_device_and_round(tmp_path: Path) -> None:
    # 2 MB are 2,551 images of 784 bytes, 0.5 MB are 638; two devices have 3,000 each
    metrics = run_through(small(rounds=3, devices=2, data_per_round="state"), tmp_path / "run")
    samples = [line["samples"] for line in metrics]
    assert all(2 * 637 <= count <= 2 * 2_552 for count in samples)
    assert len(set(samples)) == 3


def test_under_non_iid_a_device_has_as_many_labels_as_asked_for(tmp_path: Path) -> None:
    ready = simulation.start(small(rounds=1, devices=10, partition="non-iid", labels_per_device=3), tmp_path / "run")
    labels = ready.dataset.train.labels.numpy()
    assert [len(np.unique(labels[share])) for share in ready.shares] == [3] * 10
    assert simulation.run(ready, ignore)["rounds"] == 1


def test_under_dirichlet_devices_have_different_amounts(tmp_path: Path) -> None:
    ready = simulation.start(small(rounds=1, partition="dirichlet", alpha=0.5), tmp_path / "run")
    assert sum(map(len, ready.shares)) == 6_000
    assert len({len(share) for share in ready.shares}) > 1
    assert simulation.run(ready, ignore)["rounds"] == 1


@pytest.mark.parametrize(
    ("planner", "training_nodes"),
    [("fixed", 6), ("fixed:none", 6), ("fixed:0,3", 5), ("random:0", 6), ("fixed:0,1,2,3,4,5", 3)],
)
def test_whoever_offloads_leaves_the_training_to_its_server(tmp_path: Path, planner: str, training_nodes: int) -> None:
    # six devices on three servers: 0 and 3 share server 0; `fixed` is 0, 4, 5, on three different servers
    metrics = run_through(small(rounds=1, devices=6, planner=planner), tmp_path / "run")
    assert metrics[0]["training-nodes"] == training_nodes
    assert metrics[0]["refused"] == []


def test_a_random_planner_sends_devices_to_other_servers_in_other_rounds(tmp_path: Path) -> None:
    metrics = run_through(small(rounds=4, devices=6, planner="random:1"), tmp_path / "run")
    nodes = [line["training-nodes"] for line in metrics]
    assert all(1 <= count <= 3 for count in nodes)  # only servers train
    assert all(line["refused"] == [] for line in metrics)


def test_phi_auto_needs_one_step_where_everybody_talks_to_everybody(tmp_path: Path) -> None:
    # three servers, complete: d = 2 / (3 + 3), spectral radius 0; the first round has no divergence yet and takes 5
    metrics = run_through(small(rounds=3, phi="auto", graph="complete"), tmp_path / "run")
    assert [line["phi"] for line in metrics] == [5, 1, 1]


def test_phi_auto_may_be_told_what_to_start_with(tmp_path: Path) -> None:
    metrics = run_through(small(rounds=2, phi="auto:7", graph="complete"), tmp_path / "run")
    assert [line["phi"] for line in metrics] == [7, 1]


def test_phi_auto_takes_more_steps_for_a_smaller_xi_but_never_more_than_allowed(tmp_path: Path) -> None:
    few = run_through(small(rounds=2, phi="auto"), tmp_path / "few")
    many = run_through(small(rounds=2, phi="auto", xi=1e-12, max_phi=4), tmp_path / "many")
    assert few[1]["phi"] < many[1]["phi"] == 4


def test_one_step_of_consensus_is_exact_only_where_everybody_talks_to_everybody(tmp_path: Path) -> None:
    # four servers, complete: d = 2 / (4 + 4) = 1024 / 4096, so that one step is the mean itself up to rounding: each
    # of 3 flows is off by at most 2^-25, the agreed sum of 4 by 12 * 2^-25, over 21,840 values by 5.3e-5
    error = {
        graph: run_through(small(rounds=1, edges=4, phi="1", graph=graph), tmp_path / graph)[0]["consensus-error"]
        for graph in ("complete", "ring", "star", "line")
    }
    assert error["complete"] < 5.3e-5
    assert min(error["ring"], error["star"], error["line"]) > 1e-3


def test_more_servers_than_devices_still_run(tmp_path: Path) -> None:
    metrics = run_through(small(rounds=2, devices=2, edges=5, planner="fixed:none"), tmp_path / "run")
    assert [line["training-nodes"] for line in metrics] == [2, 2]


@pytest.mark.parametrize(("every", "evaluated"), [(0, [4]), (1, [1, 2, 3, 4]), (2, [2, 4]), (3, [3, 4])])
def test_evaluation_is_every_so_many_rounds_and_always_at_the_end(
    tmp_path: Path, every: int, evaluated: list[int]
) -> None:
    metrics = run_through(small(evaluate_every=every), tmp_path / "run")
    assert [line["round"] for line in metrics if line["accuracy"] is not None] == evaluated
    assert [line["round"] for line in metrics if line["loss"] is not None] == evaluated


def test_the_summary_averages_what_was_evaluated_and_nothing_else(tmp_path: Path) -> None:
    metrics = run_through(small(evaluate_every=3), tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    assert summary["accuracy"] == pytest.approx((metrics[2]["accuracy"] + metrics[3]["accuracy"]) / 2)


def test_a_step_so_large_that_everything_overflows_ends_the_run_with_names_and_no_nan_in_the_model(
    tmp_path: Path,
) -> None:
    metrics = run_through(small(rounds=2, learning_rate=1e30, planner="fixed:none"), tmp_path / "run")
    assert {refusal["node"] for refusal in metrics[0]["refused"]} == {f"device {n}" for n in range(4)}
    assert np.isfinite(metrics[-1]["loss"])
