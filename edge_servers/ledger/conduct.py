"""How a server behaves when it posts: honestly, unless a simulation makes it an attacker (`bfl.attacks.servers`)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edge_servers.ledger.board import Slot


class Withheld:
    """What a server keeps to itself."""


WITHHELD = Withheld()


@dataclass(frozen=True)
class Twice:
    """Two different posts for one slot."""

    first: Any
    second: Any


Conduct = Callable[[Slot, Any], Any]
"""What becomes of a post on its way out: itself, another, `WITHHELD`, or `Twice`."""


def honest(slot: Slot, body: Any) -> Any:  # noqa: ARG001
    """Post what was computed."""
    return body
