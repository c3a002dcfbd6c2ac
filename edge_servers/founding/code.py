"""Code of others that changes what a replay gives: the founding names it by its digest (P2)."""

import re
from collections.abc import Mapping
from typing import Any

from clients.plugins import OPEN_POINTS, check_own_file, code_names, file_digest, is_allowed, plugin_digest
from edge_servers.errors import CodeNotAllowedError, ForeignCodeError
from edge_servers.parameters import Settings

REPLAYED = ("filter", "scheme")
"""Settings that decide what follows from a closed list"""
_DIGEST = re.compile(r"[0-9a-f]{64}")


def code_of(settings: Settings) -> dict[str, str]:
    """sha256 of the code behind each filter or scheme that is not ours, as it is on this machine."""
    named = [(kind, name) for kind, text in _texts(settings).items() for name in code_names(kind, text)]
    for kind, name in named:
        check_own_file(kind, name, ForeignCodeError)
    return {f"{kind} {name}": plugin_digest(kind, name, ForeignCodeError) for kind, name in named}


def read_code(found: Any, settings: Settings) -> dict[str, str]:
    """The digests in founding parameters, which somebody else has written; `ValueError` if they are none."""
    named = {f"{kind} {name}" for kind, text in _texts(settings).items() for name in OPEN_POINTS[kind].parts(text)}
    for name, digest in found.items():
        if name not in named or not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise ValueError(
                f"found code {name!r:.80} with digest {digest!r:.80}, expected sha256 of a filter or scheme"
            )
    return dict(found)


def check_code(settings: Settings, founded: Mapping[str, str]) -> None:
    """Raise `ForeignCodeError` unless the code on this machine is what the network was founded with. Other code is not
    even imported.
    """
    ours = {f"{kind} {name}" for kind, text in _texts(settings).items() for name in code_names(kind, text)}
    named = sorted({*ours, *founded})
    for kind, name in map(_kind_and_name, named):
        if not is_allowed(kind, name):
            raise CodeNotAllowedError(
                f"{kind} {name!r:.200} (sha256 {founded.get(f'{kind} {name}', 'unknown')}) is code of others, and "
                "nobody here has allowed it; if you know it, add --allow-plugins"
            )
    for each in named:
        kind, name = _kind_and_name(each)
        here = file_digest(kind, name)
        if here in ("", founded.get(each)):
            here = plugin_digest(kind, name, ForeignCodeError)
        if here != founded.get(each):
            raise ForeignCodeError(
                f"{each:.200}: found code of sha256 {here} on this machine, the network was founded with "
                f"{founded.get(each, 'none')}; get that version, nothing else derives the same models"
            )


def _kind_and_name(text: str) -> tuple[str, str]:
    kind, _, name = text.partition(" ")
    return kind, name


def _texts(settings: Settings) -> dict[str, str]:
    flat = settings.flat()
    return {kind: str(flat[kind]) for kind in REPLAYED}
