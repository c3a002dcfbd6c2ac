"""The share of its hash power that the last plan gives a device (D8): from what answers orders to what mines.

They are two processes; a small file in the kit is all that they share. Who writes it may be killed at any moment, who
reads it too. A share is of a signed plan, holds for a while, and never raises what the owner allows.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from bfl.errors import BflError
from chain.errors import CodecError
from chain.wire.documents import canonical_json, read_record
from policy.clock import epoch_s
from policy.files import read_bounded, replacing

SHARE_FILE = "hash-share.json"
HOLDS_S = 900.0
"""Without a newer plan a share is forgotten: a device that is asked nothing mines as its owner allows"""
_MOST_BYTES = 1024
Count = Annotated[int, Field(ge=0, lt=2**63)]


@dataclass(frozen=True)
class HashShare:
    """What a plan says to a device."""

    round: Count
    attempt: Count
    share: Annotated[float, Field(gt=0, le=1)]
    """Of what the device has, by the state that was planned with."""
    until_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Of this machine's clock."""


def note_share(folder: Path, round_: int, attempt: int, share: float, now: Callable[[], float] = epoch_s) -> None:
    """For the miner, unless it knows of this plan, or a later one, already. `OSError` where the disk is full."""
    try:
        before = _read(folder / SHARE_FILE)
    except BflError:
        before = None
    if before is not None and (before.round, before.attempt) >= (round_, attempt):
        return
    with replacing(folder / SHARE_FILE) as part:
        part.write_bytes(canonical_json(asdict(HashShare(round_, attempt, share, now() + HOLDS_S))))


def read_share(path: Path, now: Callable[[], float] = epoch_s) -> HashShare | None:
    """The share in force; none where no plan gave one, or long ago. `BflError` where the file is none of ours."""
    found = _read(path)
    is_fresh = found is not None and 0 < found.until_s - now() <= HOLDS_S  # more: the clock was set back
    return found if is_fresh else None


def _read(path: Path) -> HashShare | None:
    try:
        return read_record(HashShare, read_bounded(path, _MOST_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, CodecError) as error:
        raise BflError(
            f"{path} does not say what a plan gave; it is not used, and the next plan mends it: {error}"[:300]
        ) from error
