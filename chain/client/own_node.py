"""What only a node of ours answers, over JSON-RPC: headers, proofs, endorsements, evidence, work for miners."""

from abc import ABC, abstractmethod
from typing import Any

from web3 import Web3

from chain.errors import DivergedError, NodeUnreachableError
from chain.protocol.endorsements import Domain, Endorsement, decode_endorsement
from chain.protocol.passes import Pass, Signed, decode_signed
from chain.protocol.proof import TransactionProof
from chain.wire.address import Address
from chain.wire.headers import Header
from chain.wire.transactions import Transaction, decode_transaction


class OwnNode(ABC):
    """Part of `chain.client.connection.Connection`."""

    chain_id: int
    registry: Address
    is_embedded: bool

    @abstractmethod
    def request(self, method: str, *params: Any) -> Any:
        """The answer to a method that web3 has no name for."""

    @abstractmethod
    def request_bytes(self, method: str, *params: Any) -> bytes:
        """As `request`, for an answer of bytes."""

    def header(self, number: int) -> Header:
        """The header of the canonical block with this number."""
        return self._header_at(hex(number))

    def _header_at(self, which: str) -> Header:
        return Header.from_bytes(self.request_bytes("bfl_getRawHeader", which))

    def proof(self, transaction_hash: bytes) -> TransactionProof:
        """That a transaction is sealed, and what came of it (P16)."""
        return TransactionProof.from_json(self.request("bfl_getProof", Web3.to_hex(transaction_hash)))

    def conflicts(self) -> list[tuple[Transaction, Transaction]]:
        """Two different posts of one sender for one slot, as the node has seen them (P15)."""
        pairs = self._pairs("bfl_conflicts")
        return [(decode_transaction(first), decode_transaction(second)) for first, second in pairs]

    def propose(self, leader: bytes) -> Header:
        """Make everything pending a candidate block of this leader."""
        return Header.from_bytes(self.request_bytes("bfl_propose", Web3.to_hex(leader)))

    def work(self, device: bytes, leader: bytes | None = None) -> Header:
        """The header this device mines."""
        wanted = [Web3.to_hex(each) for each in (device, leader) if each is not None]
        return Header.from_bytes(self.request_bytes("bfl_getWork", *wanted))

    def submit_work(self, mining_hash: bytes, nonce: bytes, device: bytes) -> bytes:
        """Seal; returns the hash of the block."""
        return self.request_bytes("bfl_submitWork", *map(Web3.to_hex, (mining_hash, nonce, device)))

    def check_agrees(self) -> None:
        """Raise `DivergedError` where a majority has signed a block that the node refuses (D3.5)."""
        found = self.request("bfl_status") if self.is_embedded else {"state": "RUNNING"}
        try:
            if found["state"] == "DIVERGED":
                raise DivergedError(str(found["told"]))
        except (KeyError, TypeError) as error:
            raise NodeUnreachableError(f"found {found!r:.80} where the node should say how it is") from error

    # --- endorsements (Q1)

    @property
    def _domain(self) -> Domain:
        return Domain(self.chain_id, self.registry)

    def endorsements(self, block_hash: bytes) -> list[Endorsement]:
        """The signatures under a block that the node holds."""
        found = self._bytes_of(self.request("bfl_endorsements", Web3.to_hex(block_hash)))
        return [decode_endorsement(each, self._domain) for each in found]

    def votes(self, round_: int) -> tuple[list[Endorsement], list[Pass]]:
        """What servers have signed in a round, as the node has seen it: endorsements of any block, and passes."""
        found = [decode_signed(each, self._domain) for each in self._bytes_of(self.request("bfl_votes", round_))]
        endorsements = [each for each in found if isinstance(each, Endorsement)]
        return endorsements, [each for each in found if isinstance(each, Pass)]

    def attempt_of(self, block_hash: bytes) -> int | None:
        """The attempt at its round that a block has the posts of; None for one that the node has not checked."""
        found = self.request("bfl_attemptOf", Web3.to_hex(block_hash))
        return None if found is None else int(found)

    def send_pass(self, given: Pass) -> bool:
        """Hand the node a server's pass; whether it is new there."""
        return bool(self.request("bfl_sendPass", "0x" + given.encode().hex()))

    def find_header(self, block_hash: bytes) -> Header | None:
        """The header of a block that the node has checked and kept, canonical or not."""
        found = self.request("bfl_getRawHeader", Web3.to_hex(block_hash))
        return None if found is None else Header.from_bytes(self._bytes_of([found])[0])

    def send_endorsement(self, endorsement: Endorsement) -> bool:
        """Hand the node a signature under a block; whether it is new there."""
        return bool(self.request("bfl_sendEndorsement", "0x" + endorsement.encode().hex()))

    def contradictions(self, first_round: int) -> list[tuple[Signed, Signed]]:
        """Two things that one server signed and no honest one signs both of, as the node has seen them."""
        pairs = self._pairs("bfl_contradictions", first_round)
        return [(decode_signed(a, self._domain), decode_signed(b, self._domain)) for a, b in pairs]

    def final_number(self) -> int:
        """Number of the last final block."""
        return self._header_at("finalized").block_number

    def _pairs(self, method: str, *params: Any) -> list[tuple[bytes, bytes]]:
        found = self.request(method, *params)
        try:
            return [(first, second) for first, second in map(self._bytes_of, found)]
        except (TypeError, ValueError) as error:
            raise NodeUnreachableError(f"found {found!r:.80} where the node should answer with pairs") from error

    @staticmethod
    def _bytes_of(found: Any) -> list[bytes]:
        try:
            return [bytes.fromhex(each.removeprefix("0x")) for each in found]
        except (AttributeError, TypeError, ValueError) as error:
            raise NodeUnreachableError(f"found {found!r:.80} where the node should answer with bytes") from error
