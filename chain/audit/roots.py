"""Whether a block has the transactions and receipts that its header commits to."""

from collections.abc import Sequence

from chain.errors import ReceiptRootError, TransactionRootError
from chain.wire.blocks import Block
from chain.wire.headers import Header
from chain.wire.receipts import Receipt, block_bloom, trie_root


def check_roots(block: Block) -> None:
    """Every byte of a block hangs on its header."""
    if trie_root([transaction.raw for transaction in block.transactions]) != block.header.transaction_root:
        raise TransactionRootError("its transactions are not those the header commits to")
    check_receipts(block.header, block.receipts)
    if len(block.transactions) != len(block.receipts):
        raise ReceiptRootError(f"{len(block.transactions)} transactions have {len(block.receipts)} receipts")


def check_receipts(header: Header, receipts: Sequence[Receipt]) -> None:
    """Raise `ReceiptRootError` unless the header commits to these receipts."""
    gas = receipts[-1].gas_used if receipts else 0
    found = trie_root([receipt.encoded for receipt in receipts]), block_bloom(receipts), gas
    if found != (header.receipt_root, header.bloom, header.gas_used):
        raise ReceiptRootError("its receipts are not those the header commits to")
