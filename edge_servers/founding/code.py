"""Code of others that changes what a replay gives: the founding names it by its digest (P2)."""

from collections.abc import Mapping

from clients.plugins import code_names, is_allowed, plugin_digest
from edge_servers.errors import CodeNotAllowedError, ForeignCodeError
from edge_servers.parameters import Settings

REPLAYED = ("filter", "scheme")
"""Settings that decide what follows from a closed list"""


def code_of(settings: Settings) -> dict[str, str]:
    """sha256 of the code behind each filter or scheme that is not ours, as it is on this machine."""
    flat = settings.flat()
    named = [(kind, name) for kind in REPLAYED for name in code_names(kind, str(flat[kind]))]
    for kind, name in named:
        if not is_allowed(kind, name):
            raise CodeNotAllowedError(
                f"{kind} {name!r:.200} is code of others, and nobody here has allowed it; if you know it, add "
                "--allow-plugins"
            )
    return {f"{kind} {name}": plugin_digest(kind, name, ForeignCodeError) for kind, name in named}


def check_code(settings: Settings, founded: Mapping[str, str]) -> None:
    """Raise `ForeignCodeError` unless the code on this machine is what the network was founded with."""
    here = code_of(settings)
    for name in sorted({*here, *founded}):
        if here.get(name) != founded.get(name):
            raise ForeignCodeError(
                f"{name:.200}: found code of sha256 {here.get(name, 'unknown')} on this machine, the network was "
                f"founded with {founded.get(name, 'none')}; get that version, nothing else derives the same models"
            )
