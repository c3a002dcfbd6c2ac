"""What a network says of itself: its round, its leaders, who takes part, who is excluded. Read from any chain."""

from abc import abstractmethod

from chain.client.posts import PostReader
from chain.errors import LedgerError
from chain.protocol.contract import events
from chain.protocol.posts import Post
from chain.protocol.slots import MAX_STEP, Slot
from chain.protocol.turns import Membership
from chain.wire.address import Address


class NetworkReader(PostReader):
    """Reads one network; needs no key."""

    def round(self) -> int:
        """The round that is running."""
        return int(self._access.ask("round"))

    def parameters(self) -> bytes:
        """The founding parameters, canonical JSON (P2)."""
        founding = self.founding()
        if founding is None:
            raise LedgerError("the network is not founded: there is no founding transaction")
        found = self._access.payload(bytes(founding["parameters"]))
        if found is None:
            raise LedgerError("the founding parameters are not here: ask another node of the network")
        return found

    def participants(self) -> dict[bytes, bytes]:
        """Home server of every participant; a server's is itself."""
        return self._members(None)

    def membership(self, round_: int) -> Membership:
        """Whose turn a round was is decided among these: who was registered before its block (our own node only)."""
        self._check_embedded()
        settings = self._access.settings
        return Membership(self._members(round_), settings.term_cap)

    def _members(self, last: int | None) -> dict[bytes, bytes]:
        logs = self._access.logs([events()["Registered"].topic], 0, last)
        found = [self._event(log) for log in logs]
        return {event["participant"]: event["home"] for event in found}

    def rank(self, server: bytes, block: int | None = None) -> int | None:
        """A server's place in the ranking of the running round (P12), or of a block's; None if it may not lead."""
        rank = int(self._access.ask("rank", server, block=block))
        return None if rank == 2**256 - 1 else rank

    def ranking(self, block: int | None = None) -> list[Address]:
        """Who may lead the running round, in their order: attempt a is of ranking[a mod its length] (D3.1). With a
        block: who might have led its round.
        """
        ranks = {Address(server): self.rank(server, block) for server in self._access.ask("server_list", block=block)}
        return sorted((each for each, rank in ranks.items() if rank is not None), key=lambda each: ranks[each] or 0)

    def leader(self, attempt: int = 0) -> Address:
        """Who leads an attempt at the running round."""
        ranking = self.ranking()
        if not ranking:
            raise LedgerError("no server may lead: all are excluded")
        return ranking[attempt % len(ranking)]

    def attempt(self) -> int:
        """The attempt at the running round whose posts are visible."""
        return int(self._access.ask("attempt"))

    def is_excluded(self, participant: bytes) -> bool:
        """Whether a participant is excluded in the running round."""
        return bool(self._access.ask("is_excluded", participant))

    def credit(self, device: bytes) -> int:
        """Rounds a device has sealed."""
        return int(self._access.ask("credit", device))

    def model_digest(self) -> bytes:
        """Digest of the last model."""
        return bytes(self._access.ask("model_digest"))

    def nonce(self, sender: bytes) -> int:
        """The nonce of a sender's next post."""
        return self._access.nonce(sender)

    def parent_hash(self) -> bytes:
        """The block that the running round builds on."""
        return bytes(self._access.ask("parent_hash"))

    def plan_digest(self) -> bytes:
        """Digest of the last plan."""
        return bytes(self._access.ask("plan_digest"))

    def close_digest(self) -> bytes:
        """Digest of the last closed list."""
        return bytes(self._access.ask("close_digest"))

    def round_posts(self, round_: int) -> list[Post]:
        """Everything that was posted in a round, slot by slot."""
        slots = (Slot.PLAN, Slot.GRADIENT, Slot.ROLL, Slot.CLOSE, Slot.MODEL)
        found = [post for slot in slots for post in self.posts(round_, slot).values()]
        for step in range(MAX_STEP + 1):
            iterates = self.iterates(round_, step)
            if not iterates:
                break
            found += iterates.values()
        return found

    def _check_embedded(self) -> None:
        if not self._access.is_embedded:
            raise LedgerError("an external network has its own blocks and proofs; this is for our own node")


class PoolReader(NetworkReader):
    """Reads posts of the running round from the pool of a node of ours, where they are all at hand."""

    @abstractmethod
    def _pending(self) -> list[Post]:
        """The posts of the running round."""

    def round(self) -> int:
        """The round that is running: block k + 1 is round k (P1)."""
        return self._access.head()

    def posts(self, round_: int, slot: int) -> dict[bytes, Post]:
        """What is visible in a slot of a round, by sender in ascending order of address."""
        if round_ != self.round():
            return super().posts(round_, slot)
        found = [post for post in self._pending() if post.slot == slot]
        return {post.sender: post for post in sorted(found, key=lambda post: post.sender)}

    def round_posts(self, round_: int) -> list[Post]:
        """Everything that was posted in a round, slot by slot."""
        if round_ != self.round():
            return super().round_posts(round_)
        return sorted(self._pending(), key=lambda post: (post.slot, post.sender))

    def plan_digest(self) -> bytes:
        """Digest of the running round's plan; of the last one, before there is one."""
        return self._leaders_digest(Slot.PLAN) or super().plan_digest()

    def close_digest(self) -> bytes:
        """Digest of the running round's closed list; of the last one, before there is one."""
        return self._leaders_digest(Slot.CLOSE) or super().close_digest()

    def _leaders_digest(self, slot: Slot) -> bytes:
        return next((post.digest for post in self._pending() if post.slot == slot), b"")
