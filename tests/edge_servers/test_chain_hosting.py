"""What a network on the chain stands on: devices that believe nothing unproven, nodes that take no wrong block."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from bfl.simulation.grid import Fault
from chain.client.keys import simulated_account
from chain.errors import RoundRefusedError, StoreError
from chain.node.access import LocalLedger
from chain.node.node import Node
from chain.protocol.slots import Slot
from chain.store.database import CREATE, Database
from chain.wire.blocks import encode_block
from chain.wire.sidecar import Sidecar
from clients.arrays import one_array
from clients.device import Device, answer_orders
from clients.errors import OrderError
from clients.orders import Order, vector_digest
from clients.signing import signed_gradient
from clients.wallet import Wallet
from edge_servers.errors import FederationError
from edge_servers.founding.simulated import START_S
from edge_servers.ledger.chain_attempts import ChainAttempts
from edge_servers.replay.replay import model_payload
from tests.chain.network import seal
from tests.clients.messages import sent
from tests.edge_servers.chain_network import SHARE, ChainNetwork, chain_network, follower

# --- devices ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planned() -> Iterator[ChainNetwork]:
    """A network whose fourth round is planned."""
    with chain_network() as network:
        network.run(3)
        network.walk("plan", "plan")
        yield network


@pytest.fixture
def order(planned: ChainNetwork) -> Order:
    """To device 3, whose home is server 0."""
    return planned.servers[0].orders()[1]


def refusal(device: Device, order: Order) -> str:
    """Why a device does not carry out an order: its error reply."""
    (answer,) = answer_orders([(device, sent(order))], "auto", 10)
    assert answer.has_error()
    return str(answer.error.reason)


def content(order: Order) -> Any:
    return json.loads(order.proof)


def test_a_device_carries_out_an_order_whose_model_is_proven(planned: ChainNetwork, order: Order) -> None:
    (answer,) = answer_orders([(planned.devices[3], sent(order))], "auto", 10)
    assert not answer.has_error()


@pytest.mark.parametrize("part", ["header", "receipt", "endorsements"])
def test_a_device_refuses_a_tampered_proof_and_says_so(planned: ChainNetwork, order: Order, part: str) -> None:
    proof = content(order)
    model = proof["model"]
    if part == "header":
        model["header"] = flipped(model["header"], 40)
    else:
        model[part] = [flipped(each, -2) for each in model[part]]
    told = refusal(planned.devices[3], replace(order, proof=json.dumps(proof).encode()))
    assert told.startswith("OrderError: order: the model is not proven: ")


def flipped(text: str, place: int) -> str:
    raw = bytearray.fromhex(text[2:])
    raw[place] ^= 1
    return "0x" + raw.hex()


def test_a_device_refuses_another_model_than_the_proven_one(planned: ChainNetwork, order: Order) -> None:
    other = order.model + np.float32(1)
    told = refusal(planned.devices[3], replace(order, model=other, model_digest=vector_digest(other)))
    assert told == "OrderError: order: the model is not the one that is proven"


def test_a_device_refuses_the_proof_of_another_round(planned: ChainNetwork, order: Order) -> None:
    """Model 2 with its good proof, in place of model 3: a server that has fallen back, or wants the device to."""
    old = planned.model(2)
    proof = planned.board(0).ledger.model_proof(2)
    stale = replace(order, model=old, model_digest=vector_digest(old), proof=json.dumps(proof.to_json()).encode())
    fresh = Wallet(planned.hosting.account("device", 3), planned.hosted.known_chain())
    returned = replace(planned.devices[3], wallet=fresh)
    assert refusal(returned, stale) == "OrderError: order: found a proof of model 2, expected 3"
    fresh.check(order)
    with pytest.raises(OrderError, match="order: found round 3, block 4 is final already"):
        fresh.check(replace(stale, round=3))


def test_a_device_refuses_the_proof_of_another_network(order: Order) -> None:
    with chain_network(seed=2) as elsewhere:
        elsewhere.run(3)
        elsewhere.walk("plan", "plan")
        theirs = elsewhere.servers[0].orders()[1]
        wallet = elsewhere.wallets[3]
        wallet.check(theirs)
        with pytest.raises(OrderError, match="the model is not proven"):
            wallet.check(replace(theirs, proof=order.proof))


class Sleeper(Device):
    """Hears nothing in rounds 2 to 4: an order that never arrives leaves the wallet where it was."""

    def accept(self, message: Message) -> Order:
        fields: Any = message.content["order"]
        if 2 <= fields["round"] <= 4:
            raise OrderError("asleep")
        return super().accept(message)


def lost_in(*rounds: int) -> Fault:
    """A line on which the replies of some rounds are lost, errors among them."""

    def fault(reply: Message) -> Message | None:
        return None if reply.metadata.group_id in {str(round_) for round_ in rounds} else reply

    return fault


def test_a_device_that_was_away_for_some_rounds_is_named_as_late_and_comes_back() -> None:
    with chain_network(kinds={3: Sleeper}, faults={3: lost_in(2, 3, 4)}, phi="0") as network:
        reports = network.run(6)
        assert [[(r.node, r.reason) for r in report.refused] for report in reports] == [
            [], *[[("device 3", "late")]] * 3, [], [],
        ]  # fmt: skip
        assert [report.training_nodes for report in reports] == [6, 5, 5, 5, 6, 6]


def test_a_lost_reply_is_a_device_that_is_late_once() -> None:
    with chain_network(faults={3: lost_in(1)}, phi="0") as network:
        first, second = network.run(2)
        assert [(r.node, r.reason) for r in first.refused] == [("device 3", "late")]
        assert second.refused == ()


def replacing(change: Callable[[Any], Any]) -> Fault:
    """A line on which what a device says of its gradient is changed."""

    def fault(reply: Message) -> Message:
        if reply.metadata.message_type == "train" and not reply.has_error():
            change(reply.content)
        return reply

    return fault


def unsigned(reply: RecordDict) -> None:
    about: Any = reply["about"]
    fields = {"kind": "gradient", "device": about["device"], "round": about["round"]}
    reply["about"] = ConfigRecord({**fields, "model-digest": "", "plan-digest": ""})
    reply["weight"] = ConfigRecord({"samples": SHARE, "iterations": 2})
    reply["arrays"] = one_array("gradient", np.zeros(5379, np.float32))


def cut(reply: RecordDict) -> None:
    about: Any = reply["about"]
    about["transaction"] = about["transaction"][:-1]


def short(reply: Any) -> None:
    reply["about"]["payload"] = reply["about"]["payload"][:-1]


def other(reply: Any) -> None:
    """One that the device has not signed."""
    reply["about"]["payload"] = reply["about"]["payload"][:-1] + b"\x7f"


@pytest.mark.parametrize(
    ("change", "reason"), [(unsigned, "unsigned"), (cut, "malformed"), (short, "malformed"), (other, "malformed")]
)
def test_what_is_not_a_signed_gradient_is_refused_with_the_reason(change: Callable[[Any], Any], reason: str) -> None:
    with chain_network(faults={3: replacing(change)}, phi="0") as network:
        (report,) = network.run()
        assert [(r.node, r.reason) for r in report.refused] == [("device 3", reason)]
        assert report.training_nodes == 5
        assert network.record(1).closed_list.refused == (("device 3", reason),)


@pytest.mark.parametrize("whose", ["a stranger's", "device 4's"])
def test_a_signature_by_another_key_is_refused_as_forged(whose: str) -> None:
    with chain_network(phi="0") as network:
        stranger = simulated_account(bytes(32), "stranger")
        network.wallets[3].account = stranger if whose == "a stranger's" else network.wallets[4].account
        (report,) = network.run()
        assert [(r.node, r.reason) for r in report.refused] == [("device 3", "forged")]
        assert report.training_nodes == 5


def test_the_attack_forged_is_refused_as_forged() -> None:
    with chain_network(attack="forged@1:device=3", phi="0") as network:
        first, second = network.run(2)
        assert [(r.node, r.reason) for r in first.refused] == [("device 3", "forged")]
        assert second.refused == ()


@pytest.mark.parametrize(("attack", "reason"), [("inflated-samples@1:device=3", "wrong-weight")])
def test_a_device_that_claims_more_samples_is_refused(attack: str, reason: str) -> None:
    with chain_network(attack=attack, phi="0") as network:
        (report,) = network.run()
        assert [(r.node, r.reason) for r in report.refused] == [("device 3", reason)]


def test_a_gradient_of_another_plan_is_refused_by_the_ledger(planned: ChainNetwork, order: Order) -> None:
    assert order.ledger is not None
    terms = replace(order.ledger, plan="ab" * 32)
    sizes = planned.founding.sizes
    values = np.zeros(sum(sizes), np.float32)
    signed, payload = signed_gradient(planned.wallets[3].account, terms, 4, SHARE, 2, values, sizes)
    sender, plan_ = planned.founding.network.devices[3].address, planned.servers[0].current.plan
    gradient = planned.board(0).read_signed(signed, payload, sender, plan_)
    assert gradient.plan_digest == "ab" * 32
    with pytest.raises(Exception, match="gradient for another plan"):
        planned.board(0).ledger.access.send_raw(signed, None, [Sidecar(payload)])


# --- nodes ------------------------------------------------------------------------------------------------------------


def submit_round(network: ChainNetwork, node: Node, round_: int, model_change: float) -> None:
    """The posts of a sealed round, with another model at their end."""
    leader = network.leader_of(round_)
    for post in network.posts(round_)[:-1]:
        payloads = [network.node.payload(each.digest) for each in post.commitments]
        node.submit(post.transaction.raw, [Sidecar(payload) for payload in payloads if payload is not None])
    wrong = network.model(round_) + np.float32(model_change)
    ledger = LocalLedger(node, network.hosting.account("server", leader))
    ledger.post(Slot.MODEL, round_, model_payload(wrong, network.founding))


@pytest.fixture(scope="module")
def sealed() -> Iterator[ChainNetwork]:
    """A network after two rounds."""
    with chain_network() as network:
        network.run(2)
        yield network


WHY = r"block 3: round 2: the model of server \d has digest 0x[0-9a-f]{64}, its own gradients and closed list give 0x"


def test_a_node_does_not_propose_a_block_whose_model_does_not_follow(sealed: ChainNetwork) -> None:
    node = follower(sealed, checked=True)
    submit_round(sealed, node, 2, model_change=1e-3)
    with pytest.raises(RoundRefusedError, match=WHY):
        node.propose(sealed.header(2).coinbase)
    assert node.head.hash == sealed.header(1).hash
    node.close()


def test_a_node_does_not_import_a_block_whose_model_does_not_follow_and_then_takes_the_honest_one(
    sealed: ChainNetwork,
) -> None:
    careless, careful = follower(sealed, checked=False), follower(sealed, checked=True)
    submit_round(sealed, careless, 2, model_change=1e-3)
    careless.propose(sealed.header(2).coinbase)
    winner = sealed.header(2).winner
    assert winner is not None
    seal(careless, winner)
    wrong = careless.raw_block(3)
    assert wrong is not None
    careful.sources.append(careless)  # it alone has the model
    with pytest.raises(RoundRefusedError, match=WHY):
        careful.import_block(wrong)
    assert careful.head.hash == sealed.header(1).hash
    honest = sealed.block(2)
    careful.import_block(encode_block(honest.header, honest.transactions))
    assert careful.head.hash == sealed.node.head.hash
    careless.close()
    careful.close()


def test_a_node_does_not_import_an_empty_round(sealed: ChainNetwork) -> None:
    careless, careful = follower(sealed, checked=False), follower(sealed, checked=True)
    careless.propose(sealed.header(2).coinbase)
    winner = sealed.header(2).winner
    assert winner is not None
    seal(careless, winner)
    with pytest.raises(RoundRefusedError, match="block 3 has no model of its builder"):
        careful.import_block(careless.raw_block(3) or b"")
    careless.close()
    careful.close()


# --- folders ----------------------------------------------------------------------------------------------------------


def test_a_chain_in_the_folder_is_gone_on_with(tmp_path: Path, sealed: ChainNetwork) -> None:
    with chain_network(folder=tmp_path) as network:
        network.run(1)
        left = network.servers[0].standing
    with chain_network(folder=tmp_path) as network:
        stands = network.servers[0].standing
        assert stands.model.tobytes() == left.model.tobytes()
        assert replace(stands, model=left.model) == left
        network.run(1)
        assert network.node.head.hash == sealed.node.head.hash


class Killed(BaseException):
    """Nothing catches it, as nothing catches kill -9."""


@pytest.mark.parametrize(("signed", "nodes"), [(0, 1), (1, 1), (2, 1), (1, 3)])
def test_a_run_killed_between_the_signatures_under_a_block_is_the_run_that_nobody_killed(
    tmp_path: Path, signed: int, nodes: int
) -> None:
    """The head of every round in turn is a block that few have signed; who leads its round is known from it alone."""
    settings: dict[str, Any] = {"nodes": nodes, "term_cap": 1}
    with chain_network(**settings) as whole:
        whole.run(4)
        expected = whole.node.head.hash
    for round_ in (1, 2, 3):
        with chain_network(folder=tmp_path, **settings) as network, pytest.MonkeyPatch.context() as patch:
            send, left = ChainAttempts._sign, iter(range(signed))

            def sign(*given: Any, send: Any = send, left: Iterator[int] = left) -> None:
                if next(left, None) is None:
                    raise Killed
                send(*given)

            patch.setattr(ChainAttempts, "_sign", sign)
            with pytest.raises(Killed):
                network.run()
            assert network.node.head.block_number == round_ + 1
        with chain_network(folder=tmp_path, **settings) as network:
            while network.federation.round < round_:
                network.run()
    with chain_network(folder=tmp_path, **settings) as network:
        network.run()
        assert network.node.head.hash == expected


@pytest.mark.parametrize("changes", [{"seed": 2}, {"phi": "1"}, {"seal_s": 61}, {"codec": "fp32"}], ids=str)
def test_the_chain_of_another_network_is_refused_and_left_as_it_was(tmp_path: Path, changes: dict[str, Any]) -> None:
    with chain_network(folder=tmp_path):
        pass
    before = (tmp_path / "chain.db").read_bytes()
    told = r"chain\.db is the chain of another network"
    with pytest.raises(FederationError, match=told), chain_network(folder=tmp_path, **changes):
        pass
    assert (tmp_path / "chain.db").read_bytes() == before


def test_of_three_nodes_those_that_lack_blocks_or_everything_catch_up(tmp_path: Path) -> None:
    """A silent leader makes the second round longer than a minute: what is caught up on is not from the future."""
    settings: dict[str, Any] = {"nodes": 3, "phi": "0", "attack": "silent-leader@2", "folder": tmp_path}
    for _ in range(2):
        behind = {path: path.read_bytes() for path in tmp_path.glob("chain-1.db")}
        with chain_network(**settings) as network:
            network.run(1)
            head = network.node.head
    assert head.timestamp - START_S > 60
    for path, content_before in behind.items():
        path.write_bytes(content_before)
    (tmp_path / "chain-2.db").unlink()
    with chain_network(**settings) as network:
        assert {node.head.hash for node in network.hosted.nodes} == {head.hash}
        assert network.run()[0].round == 3


def test_the_first_node_catches_up_as_well(tmp_path: Path) -> None:
    with chain_network(folder=tmp_path, nodes=3, phi="0") as network:
        network.run(2)
        head = network.node.head.hash
    (tmp_path / "chain.db").unlink()
    with chain_network(folder=tmp_path, nodes=3, phi="0") as network:
        assert {node.head.hash for node in network.hosted.nodes} == {head}
        assert network.servers[0].standing.round == 2


def test_a_database_that_was_killed_before_its_first_commit_is_made_anew(tmp_path: Path, sealed: ChainNetwork) -> None:
    blank = Database(tmp_path / "chain.db", CREATE)
    blank.make_durable()
    blank.close()
    with chain_network(folder=tmp_path) as network:
        assert network.header(0).hash == sealed.header(0).hash


def test_what_is_no_chain_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "chain.db").write_bytes(b"a letter to my grandmother" * 100)
    with pytest.raises(StoreError, match="is no chain database, or is damaged"), chain_network(folder=tmp_path):
        pass
    assert (tmp_path / "chain.db").read_bytes().startswith(b"a letter")


def test_a_network_that_is_refused_gives_its_databases_back(tmp_path: Path) -> None:
    with chain_network(folder=tmp_path):
        pass
    for _ in range(2):
        with pytest.raises(FederationError, match="another network"), chain_network(folder=tmp_path, seed=2):
            pass
    with chain_network(folder=tmp_path) as network:
        assert network.node.head.block_number == 1


def test_keys_and_chain_follow_from_seed_and_settings() -> None:
    with chain_network() as one, chain_network() as same, chain_network(seed=2) as other:
        assert one.founding == same.founding
        assert one.node.genesis == same.node.genesis
        assert one.node.genesis.chain_id != other.node.genesis.chain_id
        assert not set(one.founding.network.servers) & set(other.founding.network.servers)
