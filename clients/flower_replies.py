"""Replies as Flower carries them (D2): announced first, then brought piece by piece; with `flower.py` and
`flower_tasks.py` all that we use of Flower beyond its documented API.

What a device announces, what it brings and whom it says it is are its own words. SuperLinks compare them with the key
of whoever asks, and with little else.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from flwr.app import Message, RecordDict
from flwr.proto.fleet_pb2 import PullMessagesResponse, PushMessagesRequest
from flwr.proto.message_pb2 import ObjectTree, PushObjectRequest
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from google.protobuf.message import DecodeError

from clients.errors import BadReplyError

FLEET = "/v1/fleet/"
PULL_MESSAGES, PUSH_MESSAGES, PUSH_OBJECT = f"{FLEET}pull-messages", f"{FLEET}push-messages", f"{FLEET}push-object"
"""Where SuperNodes ask for orders, announce a reply, and bring a piece of it"""
PUBLIC_KEY_HEADER = FLEET_HTTP_PUBLIC_KEY_HEADER
"""Who asks"""
_MOST_WORDS = 200


@dataclass(frozen=True)
class Arrival:
    """A reply that a device has announced."""

    name: str
    answers: str
    """The order."""
    pieces: tuple[str, ...]


def pieces_of(tree: ObjectTree) -> tuple[str, ...]:
    """The names of all that a message is made of."""
    return tuple(dict.fromkeys(each.object_id for each in iterate_object_tree(tree)))


def put_together(arrival: Arrival, pieces: Mapping[str, bytes]) -> Message:
    """A reply whose pieces are all here; `BadReplyError` where they are no reply to that order."""
    try:
        message = inflate_object_from_contents(arrival.name, dict(pieces))
    except Exception as error:  # a stranger chose the bytes, and Flower's reader throws anything
        raise BadReplyError(f"{type(error).__name__}: {error}"[:_MOST_WORDS]) from error
    if not isinstance(message, Message) or message.metadata.reply_to_message_id != arrival.answers:
        raise BadReplyError("found no reply to the order that it was announced for")
    if message.has_content() and not isinstance(message.content, RecordDict):
        raise BadReplyError(f"found {type(message.content).__name__} in it, expected records")
    return message


# --- what SuperNodes send, as a door on the way sees it


@dataclass(frozen=True)
class Announced:
    """A reply as its sender announces it."""

    node: int
    """Who brings it; the SuperLink holds that against the key."""
    sender: int
    """Whose it is said to be."""
    answers: str
    pieces: int


def read_announced(body: bytes) -> Announced | None:
    """None where it is no single message."""
    try:
        asked = PushMessagesRequest.FromString(body)
    except DecodeError:
        return None
    if len(asked.messages_list) != 1 or len(asked.message_object_trees) != 1:
        return None
    said, tree = asked.messages_list[0].metadata, asked.message_object_trees[0]
    pieces = sum(1 for _ in iterate_object_tree(tree))
    return Announced(asked.node.node_id, said.src_node_id, said.reply_to_message_id, pieces)


def read_brought(body: bytes) -> tuple[int, int] | None:
    """Who brings a piece, and of how many bytes."""
    try:
        asked = PushObjectRequest.FromString(body)
    except DecodeError:
        return None
    return asked.node.node_id, len(asked.object_content)


def has_orders(answer: bytes) -> bool:
    """Whether a SuperLink has handed out an order."""
    try:
        return bool(PullMessagesResponse.FromString(answer).messages_list)
    except DecodeError:
        return False
