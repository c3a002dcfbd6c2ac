"""The ledger of a node in this very process: what is asked again and again is read from its pool."""

from eth_account.signers.local import LocalAccount

from chain.client.ledger import Ledger
from chain.node.access import NodeAccess
from chain.node.node import Node
from chain.protocol.posts import Post
from chain.protocol.slots import Slot


class LocalLedger(Ledger):
    """A `Ledger` whose node is at hand. Posts go to it directly; those of the running round are read from its pool."""

    def __init__(self, node: Node, account: LocalAccount | None = None, access: NodeAccess | None = None) -> None:
        self.node, self._near = node, access or NodeAccess(node)
        super().__init__(self._near, account)

    def signed_by(self, account: LocalAccount) -> "LocalLedger":
        """The same ledger, written by somebody else."""
        return LocalLedger(self.node, account, self._near)

    def round(self) -> int:
        """The round that is running: block k + 1 is round k (P1)."""
        return self.node.head.block_number

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

    def _pending(self) -> list[Post]:
        """The posts of the running round."""
        posts = [entry.post.post for entry in self.node.pending()]
        return [post.beside(self.node) for post in posts if post is not None]

    def _exclusions(self, round_: int) -> list[bytes]:
        """The transactions that excluded a server; looked for only where a server has ever been excluded."""
        servers = self.node.ask("server_list")
        is_any_out = any(int(self.node.ask("excluded_through", server)) for server in servers)
        return super()._exclusions(round_) if is_any_out else []
