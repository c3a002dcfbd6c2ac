"""What a sweep and its processes say to each other: a line of JSON each. Standard library only."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

MOST_LINE = 1 << 18


@dataclass(frozen=True)
class Order:
    """A run that is to be made."""

    settings: Mapping[str, str | int | float]
    folder: str
    log: str
    allow_other_environment: bool = False
    writers: Sequence[str] = ()
    """By name: where its numbers go besides its folder"""

    def line(self) -> bytes:
        """As it is sent."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> "Order":
        """As it was sent: by the parent, whose word is trusted."""
        return cls(**json.loads(line))


@dataclass(frozen=True)
class Answer:
    """A round that is recorded, or how a run has ended."""

    round: int | None = None
    accuracy: float | None = None
    status: str = ""
    why: str = ""

    @classmethod
    def read(cls, line: bytes) -> "Answer":
        """As the process wrote it."""
        return cls(**json.loads(line))
