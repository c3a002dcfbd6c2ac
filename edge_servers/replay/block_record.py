"""Blocks read as rounds: what an auditor needs, who executes nothing and needs no py-evm."""

from collections.abc import Iterator

from eth_hash.auto import keccak

from chain.client.posts import Post, read_whole, slot_of
from chain.errors import CodecError
from chain.protocol.consensus import SignedCall
from chain.protocol.contract import decode_call
from chain.protocol.slots import Slot
from chain.wire.blocks import Block
from clients.models import Vector
from edge_servers.errors import FederationError, ReplayError
from edge_servers.founding.parameters import FoundingParameters
from edge_servers.replay.record import Accusation, RoundRecord, model_of, text

FOUNDING_BLOCK = 1


def record_of(round_: int, posts: Iterator[tuple[SignedCall, int]]) -> RoundRecord:
    """A block's posts with their receipts' statuses as the record of its round; what was reverted says nothing."""
    whole: list[Post] = []
    accusations: list[Accusation] = []
    chunks: dict[bytes, list[bytes]] = {}
    for post, status in posts:
        call = post.call
        if status != 1 or call is None:
            continue
        if call.name == "chunk":
            chunks.setdefault(post.sender, []).append(bytes(call["data"]))
        elif slot_of(post) is not None:
            count = int(call["chunks"])
            joined = b"".join(chunks.get(post.sender, [])[-count:]) if count else None
            whole.append(read_whole(post, joined))
        elif call.name in ("flag", "flag_equivocation"):
            accusations.append(_accusation(post))
    return RoundRecord.of(round_, whole, accusations)


def _accusation(post: SignedCall) -> Accusation:
    call = post.call
    if call is None:
        raise CodecError("found no call")
    offender = str(call["offender"]).lower()
    if call.name == "flag_equivocation":
        first, second = bytes(keccak(call["first"])), bytes(keccak(call["second"]))
        return Accusation(text(post.sender), offender, Slot.EQUIVOCATION, first, second)
    return Accusation(
        text(post.sender), offender, int(call["slot"]), bytes(call["transaction_hash"]), bytes(call["expected"])
    )


def parameters_in(founding: Block) -> bytes:
    """The founding parameters."""
    for transaction, receipt in zip(founding.transactions, founding.receipts, strict=True):
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
