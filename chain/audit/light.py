"""A chain followed without most of its transactions: headers and receipts of all blocks, some blocks whole."""

from collections.abc import Sequence

from chain.audit.events import read_events
from chain.audit.inspection import InspectedBlock, Inspector
from chain.errors import ChainError, InspectionError
from chain.protocol.consensus import check_header
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.blocks import Block
from chain.wire.headers import Header
from chain.wire.receipts import Receipt, check_receipts


class LightInspector(Inspector):
    """As `Inspector`; receipts alone tell who joined, who is excluded and which model was published.

    What it cannot see are the posts behind those receipts: that they were right rests on the seals above them.
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
        """A block of which only header and receipts are here: seal, link, time, turns, what the registry said."""
        number = self.found.blocks
        try:
            if header.block_number != number:
                raise InspectionError(f"found block {header.block_number} in its place")
            check_header(header, self._headers[-1], self._genesis)
            check_receipts(header, receipts)
            for receipt in receipts:
                self._read_events(receipt, header)
                self._read_model(receipt, header)
            self._check_builder(header)
        except ChainError as error:
            raise InspectionError(f"block {number}: {error}") from error
        self._go_on_after(header)

    def _read_model(self, receipt: Receipt, header: Header) -> None:
        for event in read_events(receipt, self._genesis.registry):
            if event.name == "ModelPublished":
                self._model = self.found.models[header.block_number - FOUNDING_BLOCK] = bytes(event["digest"])
