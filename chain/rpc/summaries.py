"""For whoever watches a network, in a few hundred bytes: a block (who led, who sealed, how many posts of each kind),
and how a node is.
"""

from chain.node.node import Node
from chain.protocol.posts import count_posts
from chain.protocol.turns import FOUNDING_BLOCK
from chain.rpc.encoding import Json, hex_bytes, hex_number
from chain.wire.blocks import Block, encode_block


def summary_of(node: Node, block: Block) -> Json:
    """What a dashboard shows of a block. Its size does not depend on how many posts there are."""
    statuses = (receipt.status for receipt in block.receipts)
    header, counted = block.header, count_posts(zip(block.transactions, statuses, strict=True))
    is_canonical = (canonical := node.header(header.block_number)) is not None and canonical.hash == header.hash
    return {
        "number": hex_number(header.block_number),
        "hash": hex_bytes(header.hash),
        "parentHash": hex_bytes(header.parent_hash),
        "timestamp": hex_number(header.timestamp),
        "round": hex_number(max(0, header.block_number - FOUNDING_BLOCK)),
        "attempt": hex_number(counted.attempt),
        "leader": hex_bytes(header.coinbase),
        "winner": hex_bytes(header.winner) if header.winner else None,
        "difficulty": hex_number(header.difficulty),
        "totalDifficulty": hex_number(block.total_difficulty),
        "posts": {kind: hex_number(count) for kind, count in sorted(counted.kinds.items())},
        "size": hex_number(len(encode_block(header, block.transactions))),
        "payloadSize": hex_number(counted.payload_bytes),
        "gasUsed": hex_number(header.gas_used),
        "endorsements": hex_number(len(node.endorsements(header.hash))),
        "final": is_canonical and header.block_number <= node.final.block_number,
    }


def status_of(node: Node) -> Json:
    """How a node is: running, diverged from the majority (D3.5) or stopped by two of them (Q1); `told` says why."""
    head, final, conflict, found = node.head, node.final, node.conflict, node.divergence
    status: Json = {
        "state": "STOPPED" if conflict else "RUNNING" if found is None else "DIVERGED",
        "told": conflict or ("" if found is None else str(found)),
        "head": hex_bytes(head.hash),
        "final": hex_bytes(final.hash),
        "pending": hex_number(len(node.pending())),
        "diverged": None,
    }
    if found is not None:
        status["diverged"] = {
            "round": hex_number(found.signed.round),
            "attempt": hex_number(found.signed.attempt),
            "signed": hex_bytes(found.signed.block_hash),
            "signers": [hex_bytes(each) for each in sorted(found.signed.signers)],
            "refused": found.reason,
            "own": hex_bytes(found.own.hash),
        }
    return status
