"""What a run's numbers depend on besides its seed (P11)."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bfl.simulation.environment import describe_environment, differences, use_threads
from clients.errors import ModelError
from tests.bfl.runs import small

CHAIN = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
NO_CHAIN = nn.Bilinear(2, 2, 2)
environments = st.dictionaries(st.sampled_from(["threads", "torch", "engine", "machine"]), st.integers(0, 3))


@given(environments)
def test_an_environment_does_not_differ_from_itself(environment: dict[str, int]) -> None:
    assert differences(environment, environment) == []


@given(environments, environments)
def test_every_recorded_key_that_differs_is_named_once(recorded: dict[str, int], here: dict[str, int]) -> None:
    named = [text.split(":")[0] for text in differences(recorded, here)]
    assert named == [key for key in recorded if here.get(key) != recorded[key]]


def test_a_difference_tells_both_values() -> None:
    recorded, here = {"threads": 4, "torch": "2.13.0"}, {"threads": 2, "torch": "2.13.0"}
    assert differences(recorded, here) == ["threads: the run has 4, this process 2"]


def test_the_description_holds_what_p11_names() -> None:
    described = describe_environment(small(chunk=7), CHAIN)
    assert (described["engine"], described["chunk"], described["torch"]) == ("stacked", 7, torch.__version__)
    assert described["threads"] == torch.get_num_threads()
    assert {"machine", "instructions", "numpy"} <= described.keys()


def test_the_engine_is_the_one_that_is_really_used() -> None:
    assert describe_environment(small(engine="sequential"), CHAIN)["engine"] == "sequential"
    assert describe_environment(small(engine="auto"), NO_CHAIN)["engine"] == "sequential"
    with pytest.raises(ModelError, match=r"engine stacked: found Bilinear, expected an nn\.Sequential"):
        describe_environment(small(engine="stacked"), NO_CHAIN)


def test_threads_are_set_where_the_settings_say_and_left_alone_where_not() -> None:
    torch.set_num_threads(2)
    assert use_threads(small(threads=0)) == 2
    assert use_threads(small(threads=1)) == 1
    assert torch.get_num_threads() == 1
