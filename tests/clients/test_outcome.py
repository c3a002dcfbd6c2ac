"""What a device says of each order, in one line of its log. The chain is real, and in memory."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from eth_hash.auto import keccak

from clients.orders import Order
from clients.outcome import told_of
from clients.replies import SignedReply, read_reply
from edge_servers.planning.proposal import LOCAL
from edge_servers.round import begin, plan
from tests.clients.chain_device import answer, joined, order_to
from tests.clients.messages import sent
from tests.edge_servers.small_network import SmallChain, small_chain


@pytest.fixture(scope="module")
def second() -> Iterator[SmallChain]:
    """A network that is in its second round."""
    chain = small_chain()
    chain.federation.run_round()
    begin(chain.federation.servers)
    plan(chain.federation.servers)
    yield chain
    chain.hosted.close()


def planned(chain: SmallChain, offloads: bool) -> Order:
    """To a device that the plan lets offload, or train."""
    assignment = chain.federation.servers[0].current.plan.assignment
    return order_to(chain, next(n for n, target in enumerate(assignment) if (target != LOCAL) == offloads))


def test_what_was_trained_names_the_block_that_proves_its_model_and_the_gradient(second: SmallChain) -> None:
    order = planned(second, offloads=False)
    device = joined(second, order.device)
    reply = answer(device, order)
    signed = read_reply(reply)
    assert isinstance(signed, SignedReply)
    block = second.federation.servers[0].standing.block_hash.hex()
    assert told_of(device, sent(order), reply) == (
        f"round 2: model 1 is proven by block 2 0x{block}; trained on {order.samples:,} samples, {order.iterations} "
        f"iterations, gradient 0x{keccak(signed.transaction).hex()}"
    )


def test_what_was_handed_over_names_the_server(second: SmallChain) -> None:
    order = planned(second, offloads=True)
    device = joined(second, order.device)
    told = told_of(device, sent(order), answer(device, order))
    assert told.endswith(f"; handed over {order.samples:,} samples for server {order.offload_to}")


def test_a_refusal_names_its_reason(second: SmallChain) -> None:
    order = replace(planned(second, offloads=False), round=3)
    device = joined(second, order.device)
    assert told_of(device, sent(order), answer(device, order)).startswith("round 3: refused: OrderError: order: ")
