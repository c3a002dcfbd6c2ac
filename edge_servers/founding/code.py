"""Code of others that changes what a replay gives: the founding names it by its digest (P2)."""

from collections.abc import Mapping

from clients.plugins import OPEN_POINTS, plugin_digest
from edge_servers.errors import ForeignCodeError
from edge_servers.parameters import Settings

REPLAYED = ("filter", "scheme")
"""Settings that decide what follows from a closed list"""


def code_of(settings: Settings) -> dict[str, str]:
    """sha256 of the code behind each filter or scheme that is not ours, as it is on this machine; where nobody has
    allowed it here, an error.
    """
    texts = {kind: str(settings.flat()[kind]) for kind in REPLAYED}
    return {
        f"{kind} {name}": plugin_digest(kind, name, ForeignCodeError)
        for kind, text in texts.items()
        for name in OPEN_POINTS[kind].parts(text)
        if not OPEN_POINTS[kind].is_ours(name)
    }


def check_code(settings: Settings, founded: Mapping[str, str]) -> None:
    """Raise `ForeignCodeError` unless the code on this machine is what the network was founded with."""
    here = code_of(settings)
    for name in sorted({*here, *founded}):
        if here.get(name) != founded.get(name):
            raise ForeignCodeError(
                f"{name}: found code of sha256 {here.get(name, 'unknown')} on this machine, the network was founded "
                f"with {founded.get(name, 'none')}; get that version, nothing else derives the same models"
            )
