"""Files that are served as they are: ours keep to the page's policy, others' are what they were."""

import hashlib
import re
from importlib.resources import files
from pathlib import Path

import pytest

STATIC = Path(str(files("bfl.dashboard.pages"))) / "static"
SCRIPTS = sorted((STATIC / "js").glob("*.js"))


def test_what_others_have_written_is_unchanged() -> None:
    lines = (STATIC / "vendor" / "sha512.txt").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split() for line in lines)}
    assert sums.keys() == {path.name for path in (STATIC / "vendor").glob("uPlot*")}
    found = {name: hashlib.sha512((STATIC / "vendor" / name).read_bytes()).hexdigest() for name in sums}
    assert found == sums
    assert "MIT" in (STATIC / "vendor" / "uPlot.LICENSE").read_text()
    assert "1.6.32" in (STATIC / "vendor" / "uPlot.iife.min.js").read_text()[:300]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_writes_text_and_never_html(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    forbidden = (
        r"innerHTML|outerHTML\s*=[^=]|insertAdjacentHTML|document\.write|\beval\(|new Function|\(\"(style|on\w+)\","
    )
    assert re.findall(forbidden, text) == []
    assert re.findall(r"https?://", text) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_imports_what_others_export(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    for names, module in re.findall(r'import \{([^}]*)\} from "\./([\w.]+)"', text):
        exported = set(
            re.findall(r"export (?:async )?(?:function|const|class) (\w+)", (STATIC / "js" / module).read_text())
        )
        assert {name.strip() for name in names.split(",")} <= exported, module
    used = {name.strip() for names in re.findall(r"import \{([^}]*)\}", text) for name in names.split(",")}
    assert [name for name in used if len(re.findall(rf"\b{name}\b", text)) < 2] == []


def test_styles_load_nothing() -> None:
    text = (STATIC / "css" / "page.css").read_text(encoding="utf-8")
    assert re.findall(r"@import|url\((?!#)", text) == []


def test_every_class_that_templates_name_a_colour_by_is_in_the_styles() -> None:
    text = (STATIC / "css" / "page.css").read_text(encoding="utf-8")
    assert [n for n in range(8) if f".c{n} {{ --c: var(--c{n}); }}" not in text] == []
