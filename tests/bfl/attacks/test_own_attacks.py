"""Attacks that somebody else wrote: how they are named, what they are told, what they may return."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bfl.attacks.conduct import Conduct, conduct_of, honest
from bfl.attacks.kinds import Attack
from bfl.attacks.own import Scene
from bfl.attacks.text import read_attacks
from bfl.errors import ConfigError
from chain.wire.address import Address
from clients.parameters import DataParams, TrainingParams
from clients.plugins import offer
from edge_servers.learning.aggregation import SCALE_BITS
from edge_servers.learning.gradients import Gradient
from edge_servers.ledger.board import RoundSlot
from edge_servers.parameters import RoundParams, Settings
from tests.edge_servers.addresses import address


def read(text: str) -> tuple[Attack, ...]:
    return read_attacks(text, edges=3, devices=10)


def conduct(attack: Callable[..., Any], options: str) -> Conduct:
    settings = Settings(RoundParams(edges=3), DataParams(devices=10, seed=5), TrainingParams())
    return conduct_of(read(f"{offer('attack', attack)}@7:{options}"), 1, settings, lambda who: str(Address(who)))


def test_an_own_attack_is_named_with_rounds_and_options() -> None:
    ours, own = read("sign-flip@1:device=2; a.b:lie@2,5-7:device=3+4,strength=2")
    assert ours.kind == "sign-flip"
    assert own == Attack("a.b:lie", (range(2, 3), range(5, 8)), 2.0, devices=frozenset({3, 4}))
    assert (own.is_foreign, own.is_of_device, ours.is_foreign) == (True, True, False)
    (server,) = read("a:lie@all:server=2,post=iterate,step=3")
    assert (server.server, server.post, server.step, server.is_of_device) == (2, "iterate", 3, False)


def test_reading_a_name_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "liar_module.py").write_text("def lie(honest, scene): return honest")
    read("liar_module:lie@all:device=1")
    assert "liar_module" not in sys.modules


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a:lie@1", "a:lie: found neither, expected device=n or server=m"),
        ("a:lie@1:device=1,server=1", "a:lie: found device and server, expected"),
        ("a:lie@1:server=3", "found server=3, expected 0 to 2"),
        ("a:lie@1:device=10", "found device=10, expected 0 to 9"),
        ("a:lie@1:server=1,post=plan", "found post=plan, expected one of gradient, iterate, model"),
        ("a:lie@1:devise=1", 'found "devise", expected device, .*did you mean "device"'),
        ("a:lie", 'found "a", expected one of .*, or your own as module:function'),
        ("lie@1:device=1", 'found "lie", expected one of'),
    ],
)
def test_an_own_attack_that_makes_no_sense_is_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read(text)


def test_it_is_told_who_where_and_how_strongly() -> None:
    seen: list[Scene] = []

    def lie(values: Any, scene: Scene) -> Any:
        seen.append(scene)
        return values + scene.rng.standard_normal(len(values))

    model = np.zeros(3, np.float32)
    acts = conduct(lie, "server=1,post=model,strength=4")
    first, again = (acts(RoundSlot(7, "model"), model) for _ in range(2))
    assert (seen[0].who, seen[0].round, seen[0].what, seen[0].strength) == ("server 1", 7, "model", 4)
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, again)  # the same numbers in the same round
    assert acts(RoundSlot(8, "model"), model) is model
    assert acts(RoundSlot(7, "iterate"), model) is model


def test_an_iterate_is_a_number_to_it_and_a_fixed_point_number_to_others() -> None:
    acts = conduct(lambda values, scene: values * -2, "server=1,post=iterate,step=3")
    x = np.array([1 << SCALE_BITS, 5], np.int32)
    assert acts(RoundSlot(7, "iterate", 3), x).tolist() == [-2 << SCALE_BITS, -10]
    assert acts(RoundSlot(7, "iterate", 2), x) is x


def test_a_gradient_keeps_its_weight_and_can_be_posted() -> None:
    acts = conduct(lambda values, scene: values * 1e300, "server=1")
    gradient = Gradient(address(1), "server 1", 1, 40, 10, "model", "plan", np.array([1, -1], np.float32))
    said = acts(RoundSlot(7, "gradient"), gradient)
    assert (said.samples, said.values.tolist()) == (40, [65504, -65504])


@pytest.mark.parametrize("wrong", [None, np.zeros(2), np.array([0, np.nan, 0]), np.array([0, np.inf, 0])])
def test_what_an_attack_may_not_return(wrong: object) -> None:
    with pytest.raises(ConfigError, match=r"attack given:.*: found values of shape .*, expected \(3,\) finite numbers"):
        conduct(lambda values, scene: wrong, "server=1,post=model")(RoundSlot(7, "model"), np.zeros(3, np.float32))


def test_everybody_else_is_honest() -> None:
    settings = Settings(RoundParams(edges=3))
    assert conduct_of(read("a:lie@all:server=0"), 1, settings, str) is honest
    assert conduct_of(read("a:lie@all:device=0"), 1, settings, str) is honest
