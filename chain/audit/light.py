"""A chain followed without most of its transactions: headers and receipts of all blocks, some blocks whole."""

from collections.abc import Sequence

from chain.audit.events import attempt_begun, read_events, senders_in
from chain.audit.inspection import InspectedBlock, Inspector
from chain.errors import ChainError, InspectionError
from chain.protocol.consensus import check_header
from chain.protocol.endorsements import Endorsement
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.blocks import Block
from chain.wire.headers import Header
from chain.wire.receipts import Receipt, check_receipts


class LightInspector(Inspector):
    """As `Inspector`; receipts alone tell who joined, who is excluded and which model was published.

    What it cannot see are the posts behind those receipts: that they were right rests on the signatures of a majority
    under the blocks above them (Q2).
    """

    def check(self, block: Block) -> InspectedBlock:
        """A whole block: everything but how many posts its senders had made before it."""
        try:
            for transaction in reversed(block.transactions):
                self._nonces[transaction.sender] = transaction.nonce
        except ChainError as error:
            raise InspectionError(f"block {block.header.block_number}: {error}") from error
        return super().check(block)

    def follow(self, header: Header, receipts: Sequence[Receipt]) -> None:
        """A block of which only header and receipts are here: seal, link, time, who leads, what the registry said."""
        number, members = self.found.blocks, dict(self.found.members)
        try:
            if header.block_number != number:
                raise InspectionError(f"found block {header.block_number} in its place")
            check_header(header, self._headers[-1], self._genesis)
            check_receipts(header, receipts)
            self._leading.begin(self._headers, self._membership(), self.found.excluded_through)
            for receipt in receipts:
                self._read_events(receipt, header)
                self._read_model(receipt, header)
                self._read_leading(receipt)
            self._check_builder(header)
        except ChainError as error:
            raise InspectionError(f"block {number}: {error}") from error
        self._go_on_after(header)
        self._endorsed.follow(header.hash, members)

    def check_final(self, header: Header, endorsements: Sequence[Endorsement]) -> None:
        """Raise `InspectionError` unless these signatures make a block that was followed final (Q2)."""
        try:
            self._endorsed.take(each for each in endorsements if each.block_hash == header.hash)
            self._endorsed.check_final(header.block_number)
        except ChainError as error:
            raise InspectionError(str(error)) from error

    def has_joined(self) -> bool:
        """Whether the last block made somebody an edge server: from then on its signature counts."""
        return self._endorsed.servers(self.found.blocks - 1) != frozenset(self._membership().servers)

    def _read_leading(self, receipt: Receipt) -> None:
        """Which attempt the block is of, and who posted in it; of an `endorse` receipts do not tell who carried it."""
        attempt = attempt_begun(receipt)
        if attempt is not None:
            self._leading.begun(attempt)
        for sender in senders_in(receipt):
            self._leading.note(sender)

    def _read_model(self, receipt: Receipt, header: Header) -> None:
        for event in read_events(receipt, self._genesis.registry):
            if event.name == "ModelPublished":
                self._model = self.found.models[header.block_number - FOUNDING_BLOCK] = bytes(event["digest"])
