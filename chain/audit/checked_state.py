"""The state in a database file for whoever believes no file: every node is held against its hash as it is read."""

from eth_hash.auto import keccak

from chain.errors import StoreError
from chain.store.store import Store


class CheckedStore(Store):
    """As `Store`; a state root then names one state, whoever wrote the file."""

    def has_state(self, state_root: bytes) -> bool:
        """Whether the file has the state with this root, or at least its first node."""
        return super().node(state_root) is not None

    def node(self, key: bytes) -> bytes | None:
        """A node of a state trie, or code; None where it is missing, `StoreError` where it is another one."""
        value = super().node(key)
        if value is not None and (not isinstance(value, bytes) or keccak(value) != key):
            raise StoreError(f"the state has another node than 0x{key.hex()} in its place in this file")
        return value
