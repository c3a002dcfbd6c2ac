"""Blocks read as rounds: what an auditor needs, who executes nothing and needs no py-evm."""

from chain.protocol.contract import decode_call
from chain.protocol.slots import Slot
from chain.wire.blocks import Block
from clients.models import Vector
from edge_servers.errors import FederationError, ReplayError
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.replay.record import model_of


def parameters_in(block: Block) -> bytes:
    """The founding parameters."""
    for transaction, receipt in zip(block.transactions, block.receipts, strict=True):
        if transaction.to and receipt.status == 1:
            call = decode_call(transaction.data)
            if call.name == "found":
                return bytes(call["parameters"])
    raise FederationError("the founding block does not found a network")


def model_in(block: Block, founding: FoundingParameters) -> Vector:
    """The model that a block publishes; the founding block publishes model 0."""
    posts: list[bytes] = []
    for transaction, receipt in zip(block.transactions, block.receipts, strict=True):
        if receipt.status != 1 or not transaction.to:
            continue
        call = decode_call(transaction.data)
        if call.name == "chunk" and int(call["slot"]) == Slot.MODEL:
            posts.append(bytes(call["data"]))
        elif call.name in ("model", "found"):
            count = int(call["chunks"])
            payload = b"".join(posts[-count:]) if count else bytes(call["payload"])
            return model_of(payload, founding)
    raise ReplayError(f"block {block.header.block_number} publishes no model")
