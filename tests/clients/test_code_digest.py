"""The digest of a function: the same for the same code, another for any other."""

import functools
import importlib.util
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from clients.code_digest import code_digest, importable_name

ROOT = Path(__file__).parents[2]


def module(path: Path, text: str) -> ModuleType:
    """A module of its own, as it is made from a file."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = made
    spec.loader.exec_module(made)
    return made


def test_of_a_module_it_is_that_of_its_file(tmp_path: Path) -> None:
    """What a function calls is mostly beside it."""
    first = module(tmp_path / "one_a.py", "K = 1\ndef f(): return K\n")
    second = module(tmp_path / "one_b.py", "K = 2\ndef f(): return K\n")
    third = module(tmp_path / "one_c.py", "K = 1\ndef f(): return K\n")
    assert code_digest(first.f) != code_digest(second.f)
    assert code_digest(first.f) == code_digest(third.f)


def test_a_file_that_is_edited_after_its_import_is_not_the_code_that_runs(tmp_path: Path) -> None:
    made = module(tmp_path / "edited.py", "def f(): return 1\n")
    before = code_digest(made.f)
    (tmp_path / "edited.py").write_text("def f(): return 2\n")
    assert code_digest(made.f) == before
    assert code_digest(module(tmp_path / "edited.py", "def f(): return 2\n").f) != before


def adding(step: object) -> Callable[[Any], Any]:
    return lambda x: x + step


class Adding:
    def __init__(self, step: float) -> None:
        self.step = step

    def __repr__(self) -> str:
        return f"Adding({self.step})"

    def __call__(self, x: float) -> float:
        return x + self.step

    def twice(self, x: float) -> float:
        return x + 2 * self.step


def test_what_a_function_is_closed_over_counts() -> None:
    makers: list[Callable[[Any], Callable[..., Any]]] = [
        adding, Adding, lambda step: Adding(step).twice, lambda step: functools.partial(math.pow, step),
    ]  # fmt: skip
    for make in makers:
        assert code_digest(make(1)) == code_digest(make(1))
        assert code_digest(make(1)) != code_digest(make(2))


def test_addresses_do_not_count() -> None:
    """A value without a text of its own is shown with where it lies, which differs from run to run."""
    one, other = object(), object()
    assert code_digest(adding(one)) == code_digest(adding(other))


def test_functions_without_a_text_have_a_digest_too() -> None:
    typed: dict[str, Any] = {}
    exec(compile("f = lambda x: x + 1\ng = lambda x: x + 2", "<typed>", "exec"), typed)  # noqa: S102
    assert code_digest(typed["f"]) != code_digest(typed["g"])
    assert code_digest(math.gcd) != code_digest(math.lcm)


def test_a_script_that_runs_may_be_edited_elsewhere(tmp_path: Path) -> None:
    """Who changes the number of rounds in a script has not changed the filter in it."""
    digests = []
    for rounds in (10, 20):
        lines = ["from clients.code_digest import code_digest", f"ROUNDS = {rounds}", "def f(x): return x"]
        (tmp_path / "script.py").write_text("\n".join([*lines, "print(code_digest(f))"]))
        command = [sys.executable, str(tmp_path / "script.py")]
        digests.append(subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True).stdout)
    assert len(digests[0]) == 65
    assert digests[0] == digests[1]


def test_a_name_that_leads_to_the_function_is_one() -> None:
    assert importable_name(adding) == "tests.clients.test_code_digest:adding"
    for nameless in (adding(1), Adding(1), Adding(1).twice, functools.partial(adding, 1)):
        assert importable_name(nameless) == ""


def among(names: object) -> Callable[[Any], Any]:
    return lambda x: x in names  # type: ignore[operator]


def test_all_numbers_of_an_array_that_a_function_is_closed_over_count() -> None:
    """`repr` leaves out what is in the middle."""
    one, other = np.zeros(5000), np.zeros(5000)
    other[2500] = 1
    assert code_digest(adding(one)) != code_digest(adding(other))
    assert code_digest(adding(one)) == code_digest(adding(one.copy()))
    assert code_digest(adding([{"a": torch.tensor(one)}])) != code_digest(adding([{"a": torch.tensor(other)}]))


def test_values_of_defaults_count() -> None:
    def made(step: int) -> Callable[..., int]:
        return lambda x, *, y=step: x + y

    assert code_digest(made(1)) != code_digest(made(2))
    assert code_digest(made(1)) == code_digest(made(1))


def test_a_set_has_the_same_digest_in_every_process() -> None:
    words = ["iid", "krum", "median", "loss", "norm", "a", "b", "c"]
    assert code_digest(among(set(words))) == code_digest(among({*reversed(words)}))
    endless: list[object] = []
    endless.append(endless)
    assert len(code_digest(among(endless))) == 64
