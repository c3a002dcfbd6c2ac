"""What a network says of itself: its round, its leaders, who takes part, who is excluded. Read through any web3."""

from typing import Any

from chain.client.posts import PostReader
from chain.errors import LedgerError
from chain.protocol.contract import address_in, events
from chain.protocol.posts import Post
from chain.protocol.slots import MAX_STEP, Slot
from chain.protocol.turns import Membership


class NetworkReader(PostReader):
    """Reads one network; needs no key."""

    def round(self) -> int:
        """The round that is running."""
        return int(self._connection.ask("round"))

    def parameters(self) -> bytes:
        """The founding parameters, canonical JSON (P2)."""
        model = self.model(0)
        if model is None:
            raise LedgerError("the network is not founded: there is no founding transaction")
        return bytes(model.arguments["parameters"])

    def participants(self) -> dict[bytes, bytes]:
        """Home server of every participant; a server's is itself."""
        return self._registered(self._connection.visible)

    def membership(self, round_: int) -> Membership:
        """Whose turn a round was is decided among these: who was registered before its block (our own node only)."""
        self._check_embedded()
        return Membership(
            self._registered(round_), self._connection.settings.term_cap, self._connection.settings.turn_s
        )

    def _registered(self, last: Any) -> dict[bytes, bytes]:
        topic = "0x" + events()["Registered"].topic.hex()
        found = [self._event(log) for log in self._connection.logs([topic], "earliest", last)]
        return {address_in(event["participant"]): address_in(event["home"]) for event in found}

    def rank(self, server: bytes) -> int | None:
        """When a server may lead the running round (P12); None if it may not."""
        rank = int(self._connection.ask("rank", server))
        return None if rank == 2**256 - 1 else rank

    def leader(self) -> bytes:
        """The server with rank 0."""
        for server in self._connection.ask("server_list"):
            if self.rank(address_in(server)) == 0:
                return address_in(server)
        raise LedgerError("no server may lead: all are excluded")

    def is_excluded(self, participant: bytes) -> bool:
        """Whether a participant is excluded in the running round."""
        return bool(self._connection.ask("is_excluded", participant))

    def credit(self, device: bytes) -> int:
        """Rounds a device has sealed."""
        return int(self._connection.ask("credit", device))

    def model_digest(self) -> bytes:
        """Digest of the last model."""
        return bytes(self._connection.ask("model_digest"))

    def nonce(self, sender: bytes) -> int:
        """The nonce of a sender's next post."""
        return self._connection.nonce(sender)

    def parent_hash(self) -> bytes:
        """The block that the running round builds on."""
        return bytes(self._connection.ask("parent_hash"))

    def parent_time(self) -> int:
        """When the running round began: the time of its parent block (our own node), or of the last seal."""
        return int(self._connection.ask("parent_time"))

    def plan_digest(self) -> bytes:
        """Digest of the last plan."""
        return bytes(self._connection.ask("plan_digest"))

    def round_posts(self, round_: int) -> list[Post]:
        """Everything that was posted in a round, slot by slot."""
        slots = (Slot.PLAN, Slot.GRADIENT, Slot.CLOSE, Slot.MODEL)
        found = [post for slot in slots for post in self.posts(round_, slot).values()]
        for step in range(MAX_STEP + 1):
            iterates = self.iterates(round_, step)
            if not iterates:
                break
            found += iterates.values()
        return found

    def _check_embedded(self) -> None:
        if not self._connection.is_embedded:
            raise LedgerError("an external network has its own blocks and proofs; this is for our own node")
