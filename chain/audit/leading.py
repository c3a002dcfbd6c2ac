"""Who led what, as an auditor keeps the books (P12, D3): the ranking of each round, its attempt, who is dormant."""

from collections.abc import Mapping, Sequence

from chain.errors import InspectionError, PassError
from chain.protocol.contract import Call
from chain.protocol.endorsements import Domain, quorum
from chain.protocol.genesis import Genesis
from chain.protocol.passes import begun_by
from chain.protocol.turns import FOUNDING_BLOCK, Attendance, Membership, ranking_after
from chain.wire.address import Address
from chain.wire.headers import Header


class Leading:
    """Follows a chain block after block. What a round's ranking follows from is read before its posts are."""

    def __init__(self, genesis: Genesis) -> None:
        self._domain = Domain.of(genesis)
        self._attendance, self._present = Attendance(), set[Address]()
        self._ranking, self._servers = list[Address](), tuple[bytes, ...]()
        self.attempt = 0
        """That the block which is being read has the posts of."""

    def begin(self, parents: Sequence[Header], membership: Membership, excluded_through: Mapping[bytes, int]) -> None:
        """The next block is read."""
        self.attempt, self._present, self._servers = 0, set(), membership.servers
        round_ = parents[-1].block_number if parents else 0
        if round_ < FOUNDING_BLOCK:
            return
        excluded = [who for who, last in excluded_through.items() if last >= round_]
        dormant = self._attendance.dormant(self._servers, round_)
        self._ranking = ranking_after(parents, membership, excluded, dormant)

    def begin_attempt(self, call: Call) -> None:
        """Its posts are of a later attempt, which a majority passed to."""
        try:
            signers = [each.signer for each in begun_by(call, self._domain)]
        except PassError as error:
            raise InspectionError(str(error)) from error
        if not set(signers) <= set(self._servers) or len(set(signers)) < quorum(len(self._servers)):
            raise InspectionError(
                f"attempt {call['attempt']} begins with passes of {len(set(signers) & set(self._servers))} of "
                f"{len(self._servers)} servers, expected at least {quorum(len(self._servers))}"
            )
        self.begun(int(call["attempt"]))

    def begun(self, attempt: int) -> None:
        """The same, where the passes are not here."""
        if self.attempt or attempt == 0:
            raise InspectionError(f"attempt {attempt} begins in a block of attempt {self.attempt}")
        self.attempt = attempt

    def note(self, sender: Address) -> None:
        """Somebody posted."""
        self._present.add(sender)

    def check(self, server: bytes) -> None:
        """Raise `InspectionError` unless a server leads the attempt that is being read."""
        if not self._ranking or self._ranking[self.attempt % len(self._ranking)] != server:
            raise InspectionError(f"led by {Address(server)}, who does not lead attempt {self.attempt}")

    def follow(self, header: Header) -> None:
        """The block has been read."""
        if header.block_number > FOUNDING_BLOCK:
            self._attendance.follow(header.block_number - FOUNDING_BLOCK, header.coinbase, self._present)
