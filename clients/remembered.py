"""What a device remembers of its chain, and so what it may still answer and sign: one thing per attempt (Q5)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from chain.protocol.turns import MOST_SERVERS
from clients.errors import OrderError
from clients.orders import ATTEMPTS

_MOST_ATTEMPTS = 16
"""Of a round, as `answers-per-round` may ask for at most: so a memory has a largest size"""
_NOBODY = -1
Count = Annotated[int, Field(ge=0, lt=2**63)]
Digest = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
"""32 bytes in hex, or nothing yet"""
Attempt = Annotated[int, Field(ge=0, lt=ATTEMPTS)]


@dataclass(frozen=True)
class AnsweredAttempt:
    """The one order of an attempt that it answers."""

    attempt: Attempt
    order: Digest
    answers: Count
    """How often."""


@dataclass(frozen=True)
class SignedAttempt:
    """Its one signature of an attempt (P15)."""

    attempt: Attempt
    transaction: Digest
    """sha256 of what it signed."""


@dataclass(frozen=True)
class Remembered:
    """One device's knowledge of one network; it only ever grows."""

    network: Digest
    """Hash of the founding block."""
    device: Annotated[str, Field(pattern=r"^0x[0-9a-f]{40}$")]
    """Address of its key."""
    proven_hash: Digest
    proven_round: Count = 0
    """The last block that was proven to it; its number is one more than its round (P1)."""
    joined: Annotated[tuple[Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")], ...], Field(max_length=MOST_SERVERS)] = ()
    """Servers that are known to have joined after the founding: a majority of long ago proves nothing (Q2)."""
    answered_round: Count = 0
    work: Digest = ""
    """What it was told to compute in that round, the same at every attempt."""
    answered: Annotated[tuple[AnsweredAttempt, ...], Field(max_length=_MOST_ATTEMPTS)] = ()
    """In that round, by rising attempts."""
    data_to: Annotated[int, Field(ge=_NOBODY, lt=MOST_SERVERS)] = _NOBODY
    """The server that its data of that round went to."""
    signed_round: Count = 0
    signed: Annotated[tuple[SignedAttempt, ...], Field(max_length=_MOST_ATTEMPTS)] = ()
    """In that round."""
    format: Literal[2] = 2

    def answering(self, round_: int, attempt: int, order: str, work: str, most: int) -> "Remembered":
        """One more answer to this order of an attempt; `OrderError` where there was another, or were too many (Q5).

        Attempts rise. An earlier one is answered again to the same order alone: the same bytes once more.
        """
        if round_ < self.answered_round:
            raise OrderError(f"order: found round {round_}, this device has answered in round {self.answered_round}")
        if round_ > self.answered_round:
            first = (AnsweredAttempt(attempt, order, 1),)
            return replace(self, answered_round=round_, work=work, answered=first, data_to=_NOBODY)
        if work != self.work:
            raise OrderError(f"order: it asks for other work than this device has been told to do in round {round_}")
        before = next((each for each in self.answered if each.attempt == attempt), None)
        if before is not None:
            return replace(self, answered=_exchanged(self.answered, before, _once_more(before, round_, order, most)))
        last = self.answered[-1].attempt
        if attempt < last:
            raise OrderError(
                f"order: found attempt {attempt}, this device has answered attempt {last} of round {round_}"
            )
        if len(self.answered) >= min(most, _MOST_ATTEMPTS):
            count = len(self.answered)
            raise OrderError(
                f"order: this device has answered {count} attempts of round {round_}, at most {most} are allowed"
            )
        return replace(self, answered=(*self.answered, AnsweredAttempt(attempt, order, 1)))

    def giving(self, round_: int, server: int) -> "Remembered":
        """Its data of a round as gone to this server, where they may: as it was before, where they may not.

        A device cannot know whose attempt is lawful, so attempts are no way to more of it: the data of a round go to
        one server, and to none once a gradient is signed.
        """
        is_free = self.data_to == _NOBODY and self.signed_round != round_
        return replace(self, data_to=server) if is_free and round_ == self.answered_round else self

    def has_given(self, round_: int, server: int) -> bool:
        """Whether its data of a round are this server's to have."""
        return (round_, server) == (self.answered_round, self.data_to)

    def knowing(self, round_: int, block_hash: str, joined: Iterable[str] = ()) -> "Remembered":
        """A block that was proven to it, and who had joined by then; it goes forward only."""
        if round_ < self.proven_round:
            return self
        members = tuple(sorted({*self.joined, *joined}))
        return replace(self, proven_round=round_, proven_hash=block_hash, joined=members)

    def signing(self, round_: int, attempt: int, signed: str) -> "Remembered":
        """Its one signature of an attempt (P15); `OrderError` where there is another already."""
        mine = SignedAttempt(attempt, signed)
        if round_ > self.signed_round:
            return replace(self, signed_round=round_, signed=(mine,))
        if round_ < self.signed_round:
            raise OrderError(f"order: found round {round_}, this device has signed for round {self.signed_round}")
        if mine in self.signed:
            return self
        if len(self.signed) >= _MOST_ATTEMPTS:
            raise OrderError(f"order: this device has signed for {_MOST_ATTEMPTS} attempts of round {round_}, no more")
        if any(each.attempt == attempt for each in self.signed):
            raise OrderError(
                f"order: this device has signed another gradient for round {round_}, attempt {attempt} already"
            )
        return replace(self, signed=(*self.signed, mine))


def _once_more(before: AnsweredAttempt, round_: int, order: str, most: int) -> AnsweredAttempt:
    if order != before.order:
        raise OrderError(
            f"order: this device has answered another order of round {round_}, attempt {before.attempt} already"
        )
    if before.answers >= most:
        raise OrderError(f"order: this device has answered it {before.answers} times, at most {most} are allowed")
    return replace(before, answers=before.answers + 1)


def _exchanged(
    answered: tuple[AnsweredAttempt, ...], before: AnsweredAttempt, now: AnsweredAttempt
) -> tuple[AnsweredAttempt, ...]:
    return tuple(now if each is before else each for each in answered)
