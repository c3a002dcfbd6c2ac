"""What counts as a hop, on calls made by hand."""

import inspect
from dataclasses import dataclass
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.walk import Event, Gradient, as_written, decision, replay, start

VALUES = np.array([1.0, -0.0, 0.1], np.float32)
PAYLOAD = b"head" + as_written(VALUES)


@dataclass(frozen=True)
class Message:
    """A value that carries something."""

    content: Any


def a_call(_handed: Any) -> FrameType:
    """The frame of a call that was handed something."""
    frame = inspect.currentframe()
    if frame is None:
        raise RuntimeError("this Python has no frames")
    return frame


def local_updates() -> FrameType:
    """The frame of the trainer."""
    return a_call(None).f_back or a_call(None)


@pytest.fixture
def gradient() -> Gradient:
    """One that is followed since the trainer returned it."""
    followed = Gradient()
    assert not followed(local_updates(), [SimpleNamespace(values=VALUES)])
    return followed


@pytest.mark.parametrize(
    "handed",
    [
        VALUES,
        np.array([1.0, 0.0, np.float16(0.1)], np.float64),
        PAYLOAD,
        PAYLOAD.hex(),
        {"posts": [(1, Message(PAYLOAD))]},
        zip([Message(PAYLOAD)], [1], strict=True),
    ],
    ids=["values", "decoded", "bytes", "hex", "nested", "iterator"],
)
def test_a_gradient_is_found_in_every_form(gradient: Gradient, handed: Any) -> None:
    assert gradient(a_call(handed), None)


@pytest.mark.parametrize("handed", [VALUES * 2, PAYLOAD[:-1], 7, SimpleNamespace(content=PAYLOAD), lambda: PAYLOAD])
def test_another_gradient_and_what_lives_across_rounds_are_not_it(gradient: Gradient, handed: Any) -> None:
    assert not gradient(a_call(handed), None)


def test_an_iterator_that_was_looked_into_still_has_everything(gradient: Gradient) -> None:
    handed = iter([1, PAYLOAD])
    assert gradient(a_call(handed), None)
    assert list(handed) == [1, PAYLOAD]


def call(caller: str, callee: str, is_handed: bool = False) -> Event:
    """A call in a log."""
    return "call", caller, callee, is_handed


def test_a_decision_is_what_the_leader_of_the_last_round_does_until_it_has_a_plan() -> None:
    posts, leads, drafts = "edge_servers.server:Server.post_plan", "edge_servers.seat:Seat.leads", "a:draft"
    one = [call("-", posts), call(posts, leads), ("return", posts, leads, False)]
    leader = [*one, call(posts, drafts), call(drafts, "b:decide"), call(posts, "c:publish", True), call(posts, "d:x")]
    end: list[Event] = [("return", "-", posts, False)]
    assert decision([*leader, *end, *one, *end]) == [(posts, drafts), (drafts, "b:decide")]


def test_a_replay_is_from_the_chain_to_the_last_round_and_a_start_ends_at_the_round() -> None:
    rounds = [call("b:f", "e:replay_round"), ("return", "b:f", "e:replay_round", False)]
    events = [call("-", "bfl.cli:main"), call("bfl.cli:main", "chain.a:open"), *rounds, call("-", "bfl.tables:show")]
    assert replay(events) == [("bfl.cli:main", "chain.a:open"), ("b:f", "e:replay_round")]
    assert start([events[0], call("-", "edge_servers.round:plan"), events[1]]) == [("-", "bfl.cli:main")]
