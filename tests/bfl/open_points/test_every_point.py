"""Code of others at every open point, each through a real run: by module:function, as an entry point, as a function."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bfl.config import read_settings
from bfl.simulation import run as simulation
from clients import plugins
from clients.errors import ClientError
from clients.parameters import DataParams, TrainingParams
from clients.plugins import OFF_CHAIN, OPEN_POINTS, code_names, is_allowed, load_plugin, offer, permit
from edge_servers.learning.schemes import SCHEMES
from edge_servers.planning import planners
from tests.bfl.open_points.stranger import EVERYTHING, FUNCTIONS, SMALL, SOURCE
from tests.bfl.runs import ignore, metrics_without_seconds

pytestmark = pytest.mark.usefixtures("without_plots")


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder with a user's module."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "stranger", raising=False)
    (tmp_path / "stranger.py").write_text(SOURCE)
    importlib.invalidate_caches()
    yield tmp_path
    sys.modules.pop("stranger", None)


def names_of(name: Callable[[str], str], on_chain: bool) -> dict[str, object]:
    """Settings that name code of others at every point; `name` gives the name of a point's code."""
    named: dict[str, object] = {kind: name(kind) for kind in FUNCTIONS}
    lie = name("attack")
    return named | {
        "scheme": ("" if on_chain else OFF_CHAIN) + name("scheme"),
        "filter": f"norm-clip:2+{name('filter')}",
        "attack": f"{lie}@1:device=3,strength=2; {lie}@1:server=1,post=iterate,step=0",
    }


def run(settings: dict[str, object], out: Path) -> list[dict[str, Any]]:
    simulation.run(simulation.start(read_settings(flags=SMALL | settings), out), ignore)
    return metrics_without_seconds(out)


def trace() -> set[str]:
    called: set[str] = sys.modules["stranger"].CALLED
    return called


@pytest.mark.parametrize("on_chain", [True, False], ids=["chain", "off-chain"])
def test_every_point_takes_module_and_function(stranger: Path, on_chain: bool) -> None:
    (line,) = run(names_of(lambda kind: f"stranger:{FUNCTIONS[kind]}", on_chain), stranger / "run")
    assert trace() == EVERYTHING
    assert [each["node"] for each in line["refused"]] == ["device 2"]
    assert line["refused"][0]["reason"] == "filtered"
    assert line["offloaded"] == 1
    assert ["server 1" in str(each) for each in line["offences"]] == ([True] if on_chain else [])


def test_every_point_takes_an_entry_point_of_an_installed_package(
    stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = stranger / "site" / "strange-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1.0\n")
    lines = [f"[bfl.{kind}]\nmy-{kind} = stranger:{function}" for kind, function in FUNCTIONS.items()]
    (about / "entry_points.txt").write_text("\n".join(lines))
    (stranger / "stranger.py").rename(stranger / "site" / "stranger.py")
    monkeypatch.syspath_prepend(stranger / "site")
    plugins._entry_points.cache_clear()
    try:
        run(names_of(lambda kind: f"my-{kind}", on_chain=False), stranger / "run")
        assert trace() == EVERYTHING
        assert code_names("filter", "norm-clip:2+my-filter") == ["my-filter"]
        assert not is_allowed("planner", "my-filter")
    finally:
        plugins._entry_points.cache_clear()


@pytest.mark.parametrize("on_chain", [True, False], ids=["chain", "off-chain"])
def test_every_point_takes_a_function_that_is_given_in_python(
    stranger: Path, monkeypatch: pytest.MonkeyPatch, on_chain: bool
) -> None:
    monkeypatch.syspath_prepend(stranger)
    module = importlib.import_module("stranger")
    (stranger / "stranger.py").unlink()  # nothing is imported by its name
    name = {kind: offer(kind, getattr(module, function)) for kind, function in FUNCTIONS.items()}
    run(names_of(name.__getitem__, on_chain), stranger / "run")
    assert trace() == EVERYTHING


def test_a_function_without_a_name_is_known_by_its_text() -> None:
    def adder(step: float) -> Callable[..., Any]:
        return lambda closed: [each for each in closed if each.samples > step]

    one, other, again = (offer("filter", adder(step)) for step in (1, 2, 1))
    assert one.startswith("given:filter_")
    assert (one == again, one == other) == (True, False)
    assert load_plugin("filter", other, ClientError)([]) == []


def test_two_functions_of_one_line_without_names_are_refused() -> None:
    first, second = (lambda closed: closed), (lambda closed: closed[:2])
    offer("filter", first)
    with pytest.raises(ClientError, match=r"found two functions of one text .*give each a name with def"):
        offer("filter", second)


def test_what_cannot_be_called_is_no_function() -> None:
    with pytest.raises(ClientError, match="filter: found 3, expected a name or a function"):
        offer("filter", 3)  # type: ignore[arg-type]


def test_what_is_permitted_for_one_point_is_not_for_another(stranger: Path) -> None:
    """A model that somebody typed is not what a chain may name as its filter."""
    permit({"model": "stranger:network"})
    assert is_allowed("model", "stranger:network")
    assert not is_allowed("filter", "stranger:network")
    with pytest.raises(ClientError, match="nobody here has allowed it"):
        load_plugin("filter", "stranger:network", ClientError)
    assert not (stranger / "imported").exists()


def test_the_names_of_ours_are_those_of_their_owners() -> None:
    """`clients/plugins.py` cannot import those who own them."""
    assert OPEN_POINTS["partition"].names == DataParams.__dataclass_fields__["partition"].metadata["choices"]
    assert OPEN_POINTS["optimizer"].names == TrainingParams.__dataclass_fields__["optimizer"].metadata["choices"]
    assert set(OPEN_POINTS["scheme"].names) == set(SCHEMES)
    assert set(OPEN_POINTS["planner"].names) == set(planners.NAMES)
    for name in OPEN_POINTS["filter"].names:
        simulation.check_settings(read_settings(flags={"filter": name}))
