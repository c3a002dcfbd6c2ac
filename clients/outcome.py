"""What came of an order, in a line of a device's log."""

from eth_hash.auto import keccak
from flwr.app import Message

from clients.device import Device
from clients.orders import record_in
from clients.replies import SealedReply, SignedReply, read_reply


def told_of(device: Device, message: Message, reply: Message) -> str:
    """An order and its answer in one line: on what model, proven by which block; what was trained or handed over."""
    round_ = f"round {message.metadata.group_id}" if message.metadata.group_id else "an order"
    if reply.has_error():
        return f"{round_}: refused: {reply.error.reason}"
    order, answered = record_in(message, "order"), read_reply(reply)
    samples, model = f"{order['samples']:,} samples", "the founding's model"
    if device.wallet is not None and order["round"] > 1:
        known = device.wallet.known
        model = f"model {known.round} is proven by block {known.number} 0x{known.hash.hex()}"
    if isinstance(answered, SignedReply):
        done = (
            f"trained on {samples}, {order['iterations']} iterations, gradient 0x{keccak(answered.transaction).hex()}"
        )
    else:
        done = f"handed over {samples} for server {order['offload-to']}"
        done += f", sealed to it, {len(answered.sealed):,} bytes" if isinstance(answered, SealedReply) else ""
    return f"{round_}: {model}; {done}"
