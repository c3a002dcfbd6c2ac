"""docs/examples/tutorial.ipynb and the examples of docs/api.md run as they are written."""

import asyncio
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.bfl.runs import ROOT

NOTEBOOK = ROOT / "docs" / "examples" / "tutorial.ipynb"


def tutorial() -> Any:
    """The notebook as it is kept."""
    return nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]


def outputs_of(cell: Any) -> dict[str, str]:
    """What a cell shows, by type; streams by their name."""
    shown: dict[str, str] = {}
    for output in cell.outputs:
        shown |= {output.name: output.text} if output.output_type == "stream" else dict(output.get("data", {}))
    return shown


@pytest.mark.slow
def test_the_tutorial_runs_shows_pictures_and_its_audit_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = tutorial()
    client = NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    asyncio.run(client.async_execute())
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    shown = [outputs_of(cell) for cell in code]
    assert not any("stderr" in each for each in shown), [each["stderr"] for each in shown if "stderr" in each]
    pictures = [cell.source.splitlines()[-1] for cell, each in zip(code, shown, strict=True) if "image/png" in each]
    assert pictures == ['run.plots["accuracy"]', "axes.legend();"]
    audit = next(each for cell, each in zip(code, shown, strict=True) if "filtered.audit()" in cell.source)
    assert "bit for bit" in audit["text/html"]
    assert audit["text/plain"] == "<audit of 8 rounds: fits>"


def test_the_tutorial_is_kept_without_what_it_showed() -> None:
    notebook = tutorial()
    assert [cell.outputs for cell in notebook.cells if cell.cell_type == "code" and cell.outputs] == []


@pytest.mark.slow
def test_the_examples_of_the_page_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(examples) > 4
    names: dict[str, Any] = {}
    for example in examples:
        exec(compile(example, "docs/api.md", "exec"), names)  # noqa: S102 - our own document
    assert names["run"].status == "finished"
