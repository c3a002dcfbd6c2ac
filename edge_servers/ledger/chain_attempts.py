"""Attempts on a chain: a majority's signatures end a round, or start its next attempt. The rules of what may be signed
are `chain.protocol.attempts`'; here they meet the node and the keys.
"""

from collections.abc import Mapping

from eth_account.signers.local import LocalAccount

from chain.client.ledger import Ledger
from chain.protocol.attempts import RoundVotes
from chain.protocol.endorsements import Endorsement, quorum
from chain.protocol.turns import FOUNDING_BLOCK
from chain.signer.memory import SignedMemory
from chain.wire.address import Address
from edge_servers.founding.standing import Standing
from edge_servers.ledger.board import Clock
from edge_servers.ledger.posting_again import post_again, post_votes_again


class ChainAttempts:
    """Attempts on a ledger, for the servers whose keys are here."""

    def __init__(
        self,
        ledger: Ledger,
        accounts: Mapping[Address, LocalAccount],
        clock: Clock,
        memories: Mapping[Address, SignedMemory] | None = None,
    ) -> None:
        """`memories`: what each key has signed; a simulation's keys have none, a real network's do (D5)."""
        self._access, self._ledger, self._clock = ledger.access, ledger, clock
        self._memories = memories or {}
        self._ledgers = {who: ledger.signed_by(account, self._memories.get(who)) for who, account in accounts.items()}
        self._ranked: tuple[bytes, list[Address]] = (b"", [])
        self._servers: tuple[bytes, list[Address]] = (b"", [])

    def ledger_of(self, server: Address) -> Ledger:
        """The ledger as a server hosted here writes it."""
        return self._ledgers[server]

    def _parent(self, round_: int) -> bytes:
        """Hash of the block that a round builds on: block k is of round k - 1 (P1)."""
        return self._access.block_hash(round_)

    def ranking(self, standing: Standing) -> list[Address]:
        """As the registry has it: a ranking does not change within its round."""
        if self._ranked[0] != standing.block_hash:
            self._ranked = (standing.block_hash, self._read_ranking(standing.round + 1))
        return self._ranked[1]

    def _read_ranking(self, round_: int) -> list[Address]:
        """Of a round whose block may be sealed and not final yet: then that block knows it, not what is pending."""
        number = round_ + FOUNDING_BLOCK
        while True:
            head = self._access.head()
            found = self._ledger.ranking(number if head >= number else None)
            if self._access.head() == head:
                return found

    def votes(self, round_: int) -> RoundVotes:
        """What servers have signed in the running round, and what it allows."""
        parent = self._parent(round_)
        if self._servers[0] != parent:
            self._servers = (parent, [Address(each) for each in self._access.ask("server_list")])
        endorsements, passes = self._access.votes(round_)

        def built_in(block_hash: bytes) -> int | None:
            header = self._access.find_header(block_hash)
            return None if header is None or header.parent_hash != parent else self._access.attempt_of(block_hash)

        return RoundVotes(self._servers[1], self._ranked[1], built_in, endorsements, passes)

    def start_s(self, round_: int, attempt: int) -> float:
        """The latest time of the earliest majority: of signatures under the parent, or of passes to this attempt."""
        if attempt:
            return self.votes(round_).start_ms(attempt) / 1000
        times: dict[int, list[int]] = {}
        for each in self._access.endorsements(self._parent(round_)):
            times.setdefault(each.attempt, []).append(each.time_ms)
        most = quorum(len(self._access.ask("server_list")))
        found = [sorted(given)[most - 1] for given in times.values() if len(given) >= most]
        return min(found) / 1000 if found else float(self._access.header(round_).timestamp)

    def is_final(self, round_: int) -> bool:
        """Whether the last final block is of this round or a later one; `DivergedError` where a majority has signed
        one that is refused here (D3.5): nobody waits for it, or goes on beside it.
        """
        if self._access.final_number() >= round_ + FOUNDING_BLOCK:
            return True
        self._access.check_agrees()
        return False

    def find_later(self, round_: int, attempt: int) -> int | None:
        """The highest attempt above this one that has a certificate here."""
        if self.is_final(round_) or not self._access.votes(round_)[1]:
            return None
        votes = self.votes(round_)
        return max((each for each in votes.attempts() if each > attempt and votes.is_certified(each)), default=None)

    def post_again(self, server: Address, round_: int) -> None:
        """What the server's key has signed in the round and its node may lack: votes first, they say which attempt is
        open (D5).
        """
        memory = self._memories.get(server)
        if memory is None or self.is_final(round_):
            return
        post_votes_again(self._access, memory, round_)
        post_again(self._access, memory, round_, self.find_later(round_, 0) or 0)

    def joined(self, round_: int, attempt: int) -> set[Address]:
        """By the passes that are here."""
        return {each.signer for each in self._access.votes(round_)[1] if each.attempt >= attempt}

    def is_over(self, round_: int, attempt: int) -> bool:
        """Whether the round is final, or a majority is at a later attempt."""
        return self.is_final(round_) or self.find_later(round_, attempt) is not None

    def begin(self, server: Address, round_: int, attempt: int) -> bool:
        """Adopt what was named in the passes, or post the certificate that names nothing (D3.2)."""
        if attempt == 0:
            return True
        if self._has_left(server, round_, attempt):
            return False
        votes = self.votes(round_)
        for block_hash in votes.adoptable(attempt)[:1]:
            self._sign(server, round_, attempt, block_hash)
            return False
        self._ledgers[server].begin_attempt(votes.empty_passes(attempt))
        return True

    def choice(self, round_: int, attempt: int) -> bytes | None:
        """What the leader has signed; of two, either: it stands convicted."""
        return next(iter(self.votes(round_).choices(attempt)), None)

    def has_block(self, round_: int, attempt: int) -> bool:
        """Whether the head is a block of this attempt."""
        if self._access.head() < round_ + FOUNDING_BLOCK:
            return False
        return self._access.attempt_of(self._access.block_hash(round_ + FOUNDING_BLOCK)) == attempt

    def has_signed(self, server: Address, round_: int, attempt: int) -> bool:
        """Whether a server's signature in an attempt is here."""
        return any((each.signer, each.attempt) == (server, attempt) for each in self._access.votes(round_)[0])

    def endorse(self, server: Address, round_: int, attempt: int) -> bool:
        """Once per attempt, after its leader, and only where the block before it is final (Q1)."""
        if self.has_signed(server, round_, attempt):
            return True
        if self._access.final_number() < round_ or self._has_left(server, round_, attempt):
            return False
        votes = self.votes(round_)
        found = self._own_block(server, round_, attempt) if votes.leader(attempt) == server else None
        chosen = found or next(iter(votes.choices(attempt)), None)
        if chosen is None:
            return False
        self._sign(server, round_, attempt, chosen)
        return True

    def endorse_final(self, server: Address, round_: int) -> None:
        """In the attempt in which a majority has."""
        found = self._final_votes(round_)
        if not found or server in {each.signer for each in found}:
            return
        attempt, block_hash = found[0].attempt, found[0].block_hash
        if not self.has_signed(server, round_, attempt) and not self._has_left(server, round_, attempt):
            self._sign(server, round_, attempt, block_hash)

    def _final_votes(self, round_: int) -> list[Endorsement]:
        """Signatures under the block of a round, of the attempt with most of them."""
        found = self._access.endorsements(self._access.block_hash(round_ + FOUNDING_BLOCK))
        by_attempt = [[each for each in found if each.attempt == attempt] for attempt in {e.attempt for e in found}]
        return max(by_attempt, key=len, default=[])

    def _has_left(self, server: Address, round_: int, attempt: int) -> bool:
        """Whether a server has passed on from an attempt: it signs nothing there any more, without exception (D3.2)."""
        return any(each.signer == server and each.attempt > attempt for each in self._access.votes(round_)[1])

    def _own_block(self, server: Address, round_: int, attempt: int) -> bytes | None:
        """The block of this attempt that a leader's devices have sealed."""
        if self._access.head() < round_ + FOUNDING_BLOCK:
            return None
        header = self._access.header(round_ + FOUNDING_BLOCK)
        is_own = header.coinbase == server and self._access.attempt_of(header.hash) == attempt
        return header.hash if is_own else None

    def _sign(self, server: Address, round_: int, attempt: int, block_hash: bytes) -> None:
        endorsement = self._ledgers[server].endorse(round_, attempt, block_hash, self._now_ms())
        self._access.send_endorsement(endorsement)

    def pass_on(self, server: Address, round_: int, attempt: int) -> None:
        """Once per attempt, naming the server's highest endorsement."""
        _, passes = self._access.votes(round_)
        if any((each.signer, each.attempt) == (server, attempt) for each in passes):
            return
        named = self.votes(round_).named_by(server, attempt)
        self._access.send_pass(self._ledgers[server].sign_pass(round_, attempt, named, self._now_ms()))

    def post_endorsements(self, server: Address, round_: int) -> None:
        """The record of what made the block of a round final."""
        found = self._final_votes(round_)
        if found:
            self._ledgers[server].submit_endorsements(found)

    def _now_ms(self) -> int:
        return int(self._clock.now() * 1000)
