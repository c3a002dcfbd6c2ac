"""The door for code of others."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clients.errors import DataError, ModelError
from clients.plugins import load_plugin, permit

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, for modules of the user."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load_permitted(name: str) -> object:
    permit({"dataset": name})
    return load_plugin("dataset", name, DataError)


def refusal(name: str) -> str:
    with pytest.raises(DataError) as caught:
        load_permitted(name)
    return str(caught.value)


def test_a_known_name_is_its_function() -> None:
    assert load_plugin("model", "svhn-cnn", ModelError).__name__ == "svhn_cnn"


def test_module_and_function_are_found_in_installed_packages() -> None:
    permit({"dataset": "math:gcd"})
    assert load_plugin("dataset", "math:gcd", DataError)(12, 18) == 6


def test_a_module_of_the_current_folder_is_found_and_the_search_path_stays_as_it_was(folder: Path) -> None:
    (folder / "my_plugin_a.py").write_text("def seven():\n    return 7\n")
    before = list(sys.path)
    permit({"dataset": "my_plugin_a:seven"})
    assert load_plugin("dataset", "my_plugin_a:seven", DataError)() == 7
    assert sys.path == before


def test_the_search_path_stays_as_it_was_where_the_import_fails(folder: Path) -> None:
    before = list(sys.path)
    with pytest.raises(DataError):
        load_permitted("no_such_module_here:f")
    assert sys.path == before


def test_a_name_that_nobody_permitted_is_not_imported(folder: Path) -> None:
    (folder / "my_plugin_d.py").write_text("def seven():\n    return 7\n")
    with pytest.raises(DataError, match=r"nobody here has allowed it\. If you know that code, say so with --allow-plu"):
        load_plugin("dataset", "my_plugin_d:seven", DataError)
    assert "my_plugin_d" not in sys.modules


def test_an_unknown_name_is_refused_with_the_known_ones_and_the_nearest() -> None:
    assert refusal("sinthetic") == (
        'dataset: found "sinthetic", expected fashion-mnist, svhn, synthetic or your own as module:function '
        '(did you mean "synthetic"?)'
    )


def test_a_name_that_no_module_or_function_can_have_is_refused_like_an_unknown_one(subtests: pytest.Subtests) -> None:
    cases: list[str] = [":f", "json:", ".json:dumps", "json.:dumps", "json:dumps()", "my-module:f", "a b:c", ""]
    for name in cases:
        with subtests.test(name=name):
            assert refusal(name).startswith(f'dataset: found "{name}", expected fashion-mnist, svhn, synthetic or your')


@pytest.mark.skipif(not importlib.util.find_spec("torchvision"), reason="torchvision is not installed")
@pytest.mark.parametrize("where", ["", "    "], ids=["in the module", "in the function"])
def test_a_plug_in_may_import_torchvision_whatever_it_was_built_for(folder: Path, where: str) -> None:
    """In a process of its own, where nothing has declared its operators."""
    heads = ["from torchvision.models import resnet18", "def make(sample_shape, classes, hidden):"]
    lines = [heads[1], where + heads[0]] if where else heads
    made = "    return resnet18(num_classes=classes, norm_layer=lambda channels: nn.GroupNorm(1, channels))"
    (folder / "vision.py").write_text("\n".join(["from torch import nn", *lines, made]))
    code = (
        "from clients.plugins import permit; from clients.models import build_network; "
        "permit({'model': 'vision:make'}); "
        "print(type(build_network('vision:make', (3, 32, 32), 10, (), 0)).__name__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "ResNet\n"), done.stderr


def test_a_module_with_a_syntax_error_is_refused_with_its_line(folder: Path) -> None:
    (folder / "my_plugin_c.py").write_text("def f(:\n")
    with pytest.raises(DataError, match=r'^dataset "my_plugin_c:f": cannot import my_plugin_c \(.*line 1\)'):
        load_permitted("my_plugin_c:f")


def test_a_missing_module_is_refused_with_its_name_and_advice(folder: Path) -> None:
    assert refusal("no_such_module_here:f") == (
        'dataset "no_such_module_here:f": cannot import no_such_module_here '
        "(No module named 'no_such_module_here'); is its folder the current one?"
    )


def test_a_module_that_lacks_a_package_is_refused_with_the_package(folder: Path) -> None:
    (folder / "my_plugin_b.py").write_text("import no_such_package_there\n")
    with pytest.raises(DataError, match=r"cannot import my_plugin_b .*no_such_package_there"):
        load_permitted("my_plugin_b:f")


def test_a_missing_function_is_refused_with_the_nearest() -> None:
    assert refusal("json:laods") == 'dataset: json has no function "laods" (did you mean "loads"?)'


def test_something_that_cannot_be_called_is_no_function() -> None:
    assert refusal("math:pi").startswith('dataset: math has no function "pi"')
