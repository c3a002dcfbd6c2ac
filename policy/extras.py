"""How somebody gets a part of the package that is not installed, from where they got the rest of it.

Not simply `pip install 'bfl[EXTRA]'`: on a public index that name may be somebody else's.
"""

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit


def install_command(extra: str) -> str:
    """A command that works where it is read, in any folder: this Python's pip, and the clone or wheel bfl came from."""
    python = shlex.quote(_from_here(Path(sys.executable)))
    return f"{python} -m pip install {_source(extra)}"


def _source(extra: str) -> str:
    """What pip is to install, as a shell wants it."""
    url, is_editable = _origin()
    if not url.startswith("file:"):
        return shlex.quote(f"bfl[{extra}] @ {url}" if url else f"bfl[{extra}]")
    path = _from_here(Path(unquote(urlsplit(url).path)))
    # A bare name would be looked for on the index.
    named = path if path.startswith(("/", ".")) else f"./{path}"
    return "--editable " * is_editable + shlex.quote(f"{named}[{extra}]")


def _origin() -> tuple[str, bool]:
    """Where pip had bfl from, and whether it is a clone that is used in place (PEP 610); empty for an index."""
    try:
        content = json.loads(distribution("bfl").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        content = {}
    if not content.get("url"):
        root = Path(__file__).parents[1]
        return (root.as_uri(), True) if (root / "pyproject.toml").exists() else ("", False)
    return content["url"], bool(content.get("dir_info", {}).get("editable"))


def _from_here(path: Path) -> str:
    """A path as one would type it in this folder."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
