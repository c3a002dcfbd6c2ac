"""Which method is open at which door. What is not in the table is open nowhere.

The owner's door is on loopback: proposing blocks and leaving posts out is nobody else's business. Peers bring what
proves itself, devices take part and mine, auditors read.
"""

import threading
from enum import Enum

from chain.errors import DoorError, IdentityError
from chain.node.node import Node
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.identity import Identity


class Door(Enum):
    """Where somebody asks."""

    OWNER = "owner"
    PEER = "peer"
    DEVICE = "device"
    AUDITOR = "auditor"


Doors = frozenset[Door]
OWNERS: Doors = frozenset({Door.OWNER})
MEMBERS: Doors = frozenset({Door.PEER, Door.DEVICE})
AUDITORS: Doors = frozenset({Door.AUDITOR})
NOBODYS: Doors = frozenset()
_READING: Doors = frozenset(Door)
_POSTING: Doors = frozenset({Door.OWNER, Door.PEER, Door.DEVICE})
_MINING: Doors = frozenset({Door.OWNER, Door.DEVICE})
_PUSHING: Doors = frozenset({Door.OWNER, Door.PEER})

OPEN: dict[str, Doors] = {
    # reading
    **dict.fromkeys(
        (
            "eth_accounts", "eth_blockNumber", "eth_call", "eth_chainId", "eth_estimateGas", "eth_feeHistory",
            "eth_gasPrice", "eth_getBalance", "eth_getBlockByHash", "eth_getBlockByNumber", "eth_getCode",
            "eth_getLogs", "eth_getRawTransactionByHash", "eth_getStorageAt", "eth_getTransactionByHash",
            "eth_getTransactionCount", "eth_getTransactionReceipt", "eth_maxPriorityFeePerGas", "eth_syncing",
            "net_version", "web3_clientVersion",
            "bfl_attemptOf", "bfl_conflicts", "bfl_contradictions", "bfl_endorsements", "bfl_genesis", "bfl_votes",
            "bfl_getBlockSummary", "bfl_getPending", "bfl_getProof", "bfl_getRawBlock", "bfl_getRawHeader",
            "bfl_getRawReceipts", "bfl_getSidecar", "bfl_pendingTransactions", "bfl_pruned", "bfl_status",
            "bfl_wantedSidecars",
        ),
        _READING,
    ),
    # taking part
    **dict.fromkeys(("eth_sendRawTransaction", "bfl_sendPost", "bfl_sendSidecar"), _POSTING),
    # mining
    **dict.fromkeys(("bfl_getWork", "bfl_submitWork"), _MINING),
    # what nodes pass on, and what proves itself
    **dict.fromkeys(("bfl_importBlock", "bfl_sendEndorsement", "bfl_sendPass"), _PUSHING),
    # what this node makes of it
    **dict.fromkeys(("bfl_propose", "bfl_holdEvidence"), OWNERS),
}  # fmt: skip


def check_open(method: str, doors: Doors) -> None:
    """Raise `DoorError` unless a method is open at one of these doors."""
    if not OPEN.get(method, NOBODYS) & doors:
        here = " and ".join(sorted(door.value for door in doors)) or "nobody's"
        raise DoorError(f"{method} is not open at this door ({here}); ask at the owner's, on the node's own machine")


class Doorkeeper:
    """Which doors are open for an identity: a server of the registry is a peer, a device a device. For any thread."""

    def __init__(self, node: Node) -> None:
        self._node, self._lock = node, threading.Lock()
        self._head = b""
        self._known: dict[Identity, Doors] = {}

    def doors_of(self, identity: Identity) -> Doors:
        """By the registry at the head: who is removed has no door any more."""
        head = self._node.head
        with self._lock:
            if head.hash != self._head:
                self._head, self._known = head.hash, {}
            found = self._known.get(identity)
        if found is None:
            found = self._find(identity)
            with self._lock:
                if head.hash == self._head:
                    self._known[identity] = found
        return found

    def _find(self, identity: Identity) -> Doors:
        if identity.chain_id != self._node.genesis.chain_id:
            return NOBODYS
        head = self._node.head
        if head.block_number < FOUNDING_BLOCK:  # nobody is registered: who has a certificate may bring the founding
            return frozenset({Door.PEER})
        home = bytes(self._node.ask("home", identity.address, header=head))
        if not any(home):
            return NOBODYS
        return frozenset({Door.PEER if home == identity.address else Door.DEVICE})

    def check_peer(self, identity: Identity) -> None:
        """Raise `IdentityError` unless this is a server of the network: whom a node asks, and tells."""
        if Door.PEER not in self.doors_of(identity):
            raise IdentityError(f"found {identity.uri} at the other end, expected a server of this network")
