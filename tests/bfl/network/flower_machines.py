"""What tests run of Flower: parts of kits as processes, and a device that says what a test wants it to."""

from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import ActivateNodeRequest, PullMessagesRequest, PushMessagesRequest, PushMessagesResponse
from flwr.proto.message_pb2 import ObjectTree, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_confirm_message_received_fn_protobuf
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from bfl.network.kits import DeviceKit
from bfl.network.own_keys import FLOWER_KEY
from clients.flower import identify_process, name_message

HEARTBEAT_S = 300.0


@dataclass
class Answer:
    """A reply that is under way, in the steps that Flower makes of it."""

    begun: PushMessagesResponse
    objects: dict[str, bytes]


class FleetDevice:
    """Whoever holds a device's Flower key, with no SuperNode of Flower's between it and its home."""

    def __init__(self, kit: DeviceKit) -> None:
        private = load_ssh_private_key((kit.folder / FLOWER_KEY).read_bytes(), None)
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        home, public = kit.config.home_place, private.public_key()
        self.client = FleetHttpClient.from_server_address(
            f"{home.host}:{home.devices_port}",
            False,
            str(kit.tls.authority),
            interceptors=[
                RuntimeVersionHttpInterceptor(component_name="SuperNode"),
                NodeAuthHttpInterceptor(private, public),
            ],
        )
        asked = ActivateNodeRequest(public_key=public_key_to_bytes(public), heartbeat_interval=HEARTBEAT_S)
        self.node = Node(node_id=self.client.ActivateNode(asked).node_id)

    def order(self) -> Message:
        """The next one, without what is in it."""
        found = self.client.PullMessages(PullMessagesRequest(node=self.node))
        message = message_from_proto(found.messages_list[0])
        confirm = make_confirm_message_received_fn_protobuf(
            self.client.ConfirmMessageReceived, self.node, message.metadata.run_id
        )
        confirm(message.metadata.message_id)
        return message

    def begin(self, order: Message, content: RecordDict) -> Answer:
        """Announce a reply: its objects come one by one (`bring`)."""
        identify_process(order.metadata.run_id, self.node.node_id)
        reply = Message(content, reply_to=order)
        objects = {name: each.deflate() for name, each in get_all_nested_objects(reply).items()}
        return self.announce(reply, get_object_tree(reply), objects)

    def announce(self, message: Message, tree: ObjectTree, objects: dict[str, bytes]) -> Answer:
        """Any message, made of anything."""
        name_message(message, tree.object_id)
        told = message_to_proto(remove_content_from_message(message))
        asked = PushMessagesRequest(
            node=self.node, messages_list=[told], message_object_trees=[tree], clientapp_runtime_list=[0.1]
        )
        return Answer(self.client.PushMessages(asked), objects)

    def bring(self, order: Message, answer: Answer, name: str) -> bool:
        """One object of a reply; whether it was taken."""
        asked = PushObjectRequest(
            node=self.node,
            run_id=order.metadata.run_id,
            object_id=name,
            object_content=answer.objects[name],
            session_id=answer.begun.session_id,
        )
        return bool(self.client.PushObject(asked).stored)

    def reply(self, order: Message, content: RecordDict) -> Answer:
        """As an honest device does."""
        answer = self.begin(order, content)
        for name in answer.begun.objects_to_push:
            assert self.bring(order, answer, name)
        return answer

    def close(self) -> None:
        self.client.close()
