"""Which blocks of a chain are final (Q1), counted from the signatures in its `endorse` calls and beside it."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from chain.errors import EndorsementError
from chain.protocol.contract import Call
from chain.protocol.endorsements import Domain, Endorsement, posted_endorsements, quorum
from chain.protocol.genesis import Genesis
from chain.protocol.turns import FOUNDING_BLOCK


class EndorsedBlocks:
    """Counts while the blocks pass by, in their order. All blocks before a final one are final with it."""

    def __init__(self, genesis: Genesis) -> None:
        self._domain = Domain.of(genesis)
        self._hashes: list[bytes] = []
        self._servers: list[frozenset[bytes]] = []  # before each block; one object as long as nobody joins
        self._signers: dict[tuple[int, int], set[bytes]] = {}
        self.final = FOUNDING_BLOCK
        """Number of the last block that is known to be final."""

    def follow(self, block_hash: bytes, members: Mapping[bytes, bytes]) -> None:
        """The next block, and who was a member before it."""
        servers = frozenset(who for who, home in members.items() if who == home)
        if self._servers and self._servers[-1] == servers:
            servers = self._servers[-1]
        self._hashes.append(block_hash)
        self._servers.append(servers)

    def take_posted(self, call: Call) -> None:
        """The signatures in an `endorse` call; `EndorsementError` where they are not what the registry takes."""
        number = int(call["round"]) + FOUNDING_BLOCK
        if not FOUNDING_BLOCK < number < len(self._hashes) or self._hashes[number] != bytes(call["digest"]):
            raise EndorsementError(f"endorsements of a block {number} that is none of this chain")
        self.take(posted_endorsements(call, self._domain))

    def take(self, endorsements: Iterable[Endorsement]) -> None:
        """Signatures of servers under blocks that have passed by; `EndorsementError` for one that is nobody's here."""
        for each in endorsements:
            number = each.round + FOUNDING_BLOCK
            if number >= len(self._hashes) or each.block_hash != self._hashes[number]:
                raise EndorsementError(f"an endorsement of a block {number} that is none of this chain")
            if each.signer not in self._servers[number]:
                raise EndorsementError(f"block {number} is endorsed by {each.signer}, who is no edge server")
            signers = self._signers.setdefault((number, each.attempt), set())
            signers.add(each.signer)
            if number > self.final and self._is_quorum(number, signers):
                self.final = number

    def take_beside(self, endorsements: Callable[[bytes], Iterable[Endorsement]]) -> None:
        """Signatures that lie beside the blocks after the last final one; what is nobody's here does not count."""
        for number in range(self.final + 1, len(self._hashes)):
            for each in endorsements(self._hashes[number]):
                with suppress(EndorsementError):
                    self.take([each])

    def _is_quorum(self, number: int, signers: set[bytes]) -> bool:
        """Whether these make a block final: a majority of the servers before it, and of those that final blocks know.

        Whoever writes a chain of his own could else have it register servers of his own.
        """
        known = {self._servers[self.final + 1], self._servers[number]}
        return all(len(signers & servers) >= quorum(len(servers)) for servers in known)

    def check_final(self, number: int) -> None:
        """Raise `EndorsementError` unless a block is final."""
        if number > self.final:
            found, servers = self.told(number)
            raise EndorsementError(
                f"block {number} is signed by {found} of {servers} servers, expected at least {quorum(servers)}: "
                "it is not final"
            )

    def servers(self, number: int) -> frozenset[bytes]:
        """Whose signatures count under a block: all servers that were members before it."""
        return self._servers[number]

    def told(self, number: int) -> tuple[int, int]:
        """How many of how many servers signed a block, in the attempt with most."""
        counts = [len(signers) for (block, _), signers in self._signers.items() if block == number]
        return max(counts, default=0), len(self._servers[number])
