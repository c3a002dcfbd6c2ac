"""The ledger of a node in this very process: what is asked again and again is read from its pool."""

from eth_account.signers.local import LocalAccount

from chain.client.ledger import Ledger
from chain.client.posts import Post, read_whole, slot_of
from chain.node.access import NodeAccess
from chain.node.node import Node
from chain.protocol.consensus import SignedCall


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
        pending = self._pending(round_)
        if pending is None:
            return super().posts(round_, slot)
        found = [read_whole(post) for post in pending if slot_of(post) == slot]
        return {post.sender: post for post in sorted(found, key=lambda post: post.sender)}

    def round_posts(self, round_: int) -> list[Post]:
        """Everything that was posted in a round, slot by slot."""
        pending = self._pending(round_)
        if pending is None:
            return super().round_posts(round_)
        return sorted((read_whole(post) for post in pending), key=lambda post: (post.slot, post.sender))

    def _pending(self, round_: int) -> list[SignedCall] | None:
        """The posts of the running round; None for another round, and where a payload is in chunks."""
        if round_ != self.round():
            return None
        posts = [entry.post for entry in self.node.pending() if slot_of(entry.post) is not None]
        return None if any(post.call is not None and post.call["chunks"] for post in posts) else posts

    def _exclusions(self, round_: int) -> list[bytes]:
        """The transactions that excluded a server; looked for only where a server has ever been excluded."""
        servers = self.node.ask("server_list")
        is_any_out = any(int(self.node.ask("excluded_through", server)) for server in servers)
        return super()._exclusions(round_) if is_any_out else []
