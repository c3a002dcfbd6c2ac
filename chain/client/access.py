"""What posting, reading, founding and sealing need of a chain, whoever holds it.

Two have it: a connection through web3 (`chain.client.connection`: over HTTP, to a node of ours or to any Ethereum
network), and a node of this very process (`chain.node.access`). Everything else of a ledger is written on this.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from eth_account.signers.local import LocalAccount

from chain.protocol.contract import PayloadSizes, RegistrySettings
from chain.protocol.endorsements import Endorsement
from chain.protocol.passes import Pass, Signed
from chain.protocol.posts import PayloadSource
from chain.protocol.proof import TransactionProof
from chain.wire.address import Address
from chain.wire.headers import Header
from chain.wire.sidecar import Sidecar
from chain.wire.transactions import Transaction


class SentCall(NamedTuple):
    """A transaction that is visible, as far as readers of posts need it."""

    nonce: int
    data: bytes


class FoundLog(NamedTuple):
    """A log of the registry, and the transaction it came of."""

    topics: tuple[bytes, ...]
    data: bytes
    transaction_hash: bytes


class ChainAccess(PayloadSource, Protocol):
    """A chain with a registry on it, and the payloads beside it (B1)."""

    @property
    def chain_id(self) -> int:
        """Every signature names it, so that a post counts on one chain only."""

    @property
    def registry(self) -> Address:
        """Where the registry is."""

    @property
    def settings(self) -> RegistrySettings:
        """What the registry was deployed with."""

    @property
    def sizes(self) -> PayloadSizes:
        """How large payloads are, once the network is founded (B2)."""

    @property
    def is_embedded(self) -> bool:
        """Our own node: posts are visible in the pool, a block is a round (P20)."""

    # --- reading what is visible

    def ask(self, name: str, *arguments: Any, block: int | None = None) -> Any:
        """The answer of a view of the registry."""

    def nonce(self, sender: bytes, is_sealed: bool = False) -> int:
        """The nonce of a sender's next transaction, everything pending counted; or as it was sealed last."""

    def head(self) -> int:
        """Number of the last sealed block."""

    def block_hash(self, number: int) -> bytes:
        """Hash of a sealed block."""

    def logs(self, topics: Sequence[bytes | None], first: int, last: int | None) -> list[FoundLog]:
        """Logs of the registry with these topics (None: any), of blocks `first` to `last` (None: all visible)."""

    def transaction(self, transaction_hash: bytes) -> SentCall | None:
        """A transaction, pending or sealed; None if there is none."""

    def raw_transaction(self, transaction_hash: bytes) -> bytes | None:
        """The same as it was signed: whoever reads it can tell by whom."""

    # --- posting

    def send(
        self,
        account: LocalAccount,
        data: bytes,
        gas: int,
        deadline_s: float | None,
        sidecars: Sequence[Sidecar] = (),
    ) -> bytes:
        """Sign a call of the registry and post it with the payloads beside it; returns its hash once it is visible. A
        refusal raises its reason.
        """

    def sign(self, account: LocalAccount, data: bytes, gas: int) -> bytes:
        """A call of the registry, signed and not sent."""

    def send_raw(self, raw: bytes, opened: Transaction | None = None, sidecars: Sequence[Sidecar] = ()) -> bytes:
        """Post what somebody else has signed; `opened` where it has been read already."""

    # --- our own node only

    def header(self, number: int) -> Header:
        """The header of the canonical block with this number."""

    def proof(self, transaction_hash: bytes) -> TransactionProof:
        """That a transaction is sealed, and what came of it (P16)."""

    def conflicts(self) -> list[tuple[Transaction, Transaction]]:
        """Two different posts of one sender for one slot, as the node has seen them (P15)."""

    def endorsements(self, block_hash: bytes) -> list[Endorsement]:
        """The signatures under a block that the node holds (Q1)."""

    def votes(self, round_: int) -> tuple[list[Endorsement], list[Pass]]:
        """What servers have signed in a round, as the node has seen it: endorsements of any block, and passes."""

    def attempt_of(self, block_hash: bytes) -> int | None:
        """The attempt at its round that a block has the posts of; None for one that the node has not checked."""

    def send_pass(self, given: Pass) -> bool:
        """Hand the node a server's pass; whether it is new there."""

    def find_header(self, block_hash: bytes) -> Header | None:
        """The header of a block that the node has checked and kept, canonical or not."""

    def send_endorsement(self, endorsement: Endorsement) -> bool:
        """Hand the node a signature under a block; whether it is new there."""

    def contradictions(self, first_round: int) -> list[tuple[Signed, Signed]]:
        """Two things that one server signed and no honest one signs both of, as the node has seen them."""

    def check_agrees(self) -> None:
        """Raise `DivergedError` where a majority has signed a block that the node refuses (D3.5)."""

    def final_number(self) -> int:
        """Number of the last final block."""

    def hold_evidence(self, digest: bytes) -> bool:
        """Keep the payload of an iterate that is wrong with the block that has its flag (B3); whether it was there."""

    def propose(self, leader: bytes) -> Header:
        """Make everything pending a candidate block of this leader."""

    def work(self, device: bytes, leader: bytes | None = None) -> Header:
        """The header this device mines; of the founding block, which has no winner, if `device` is empty."""

    def submit_work(self, mining_hash: bytes, nonce: bytes, device: bytes) -> bytes:
        """Seal; returns the hash of the block."""


Access = TypeVar("Access", bound=ChainAccess, covariant=True)


class EmptyChain(Protocol[Access]):
    """A chain without our registry: where a network can be founded."""

    def create_registry(self, founder: LocalAccount, creation: bytes, is_embedded: bool, deadline_s: float) -> Access:
        """Deploy the registry; on our own node it is pending until the founding block is sealed."""
