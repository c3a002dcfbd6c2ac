"""What a terminal shows, for a notebook."""

import io
from typing import Any

from rich.console import Console

_WIDTH = 160


def as_text(*shown: Any) -> str:
    """Tables as plain text."""
    screen = io.StringIO()
    Console(file=screen, width=_WIDTH, color_system=None).print(*shown, sep="\n")
    return screen.getvalue()


def as_html(*shown: Any) -> str:
    """Tables as HTML that brings its styles along."""
    console = Console(file=io.StringIO(), width=_WIDTH, record=True)
    console.print(*shown, sep="\n")
    return console.export_html(inline_styles=True, code_format=_FORMAT)


_FORMAT = '<pre style="font-family:monospace;white-space:pre;line-height:1.2;overflow-x:auto">{code}</pre>'
