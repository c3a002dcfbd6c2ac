"""All that we use of Flower beyond its documented API. A new release of Flower can break this file and no other.

`tests/clients/test_flower.py` says what is expected of these names.
"""

from flwr.app import Message
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.supercore.logger import log
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from google.protobuf.message import DecodeError

__all__ = ["Run", "empty_run", "identify_process", "log", "message_bytes", "name_message", "read_message"]


def empty_run(run_id: int) -> Run:
    """A run that no SuperLink knows, for a Grid of our own."""
    return Run.create_empty(run_id)


def identify_process(run_id: int, node_id: int) -> None:
    """Say who this process is: Flower writes it into every message that is made here."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = run_id, node_id, 1


def name_message(message: Message, message_id: str) -> None:
    """Give a message its id, which replies refer to; a SuperLink does this where there is one."""
    message.metadata.__dict__["_message_id"] = message_id


def message_bytes(message: Message) -> bytes:
    """A message as it travels."""
    return bytes(message_to_proto(message).SerializeToString())


def read_message(raw: bytes) -> Message:
    """The reverse of `message_bytes`; `ValueError` where it is none."""
    try:
        return message_from_proto(ProtoMessage.FromString(raw))
    except (DecodeError, ValueError, TypeError, LookupError, AttributeError) as error:  # a stranger chose the bytes
        raise ValueError(f"found {len(raw)} bytes that are no message: {error}") from error
