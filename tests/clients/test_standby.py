"""To which edge a device comes: a majority of all edges says it, and nobody alone."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from chain.client.asking import web3_over_http
from chain.client.keys import address_of
from chain.errors import ChainError, IdentityError, NodeAwayError
from chain.node.node import Node
from chain.rpc.limits import ServerParams
from chain.rpc.server import RpcServer
from chain.wire.address import Address
from chain.wire.identity import Identity
from clients.standby import IsDormant, Whereabouts, dormancy_at, only
from tests.chain.network import Network, founded_node

HOME, STANDBY = Address(b"h" * 20), Address(b"s" * 20)


class Nodes:
    """What each of some nodes says: its dormant servers, or nothing."""

    def __init__(self, *said: tuple[Address, ...] | None) -> None:
        self.said, self.now_s = list(said), 0.0
        self.device = Whereabouts([self._asked(n) for n in range(len(said))], HOME, STANDBY, 1.0, lambda: self.now_s)

    def _asked(self, number: int) -> IsDormant:
        def is_dormant(server: Address) -> bool:
            said = self.said[number]
            if said is None:
                raise NodeAwayError("off")
            return server in said

        return is_dormant

    def moves(self, *said: tuple[Address, ...] | None) -> bool:
        """Whether the device moves once all have been asked."""
        self.said = list(said) or self.said
        for number in range(len(self.said)):
            self.device.ask(number)
        return self.device.decide()


OFF, AWAKE, ASLEEP, BOTH = None, (), (HOME,), (HOME, STANDBY)


def test_it_goes_when_a_majority_says_that_home_is_dormant_and_comes_back_when_one_says_otherwise() -> None:
    nodes = Nodes(OFF, AWAKE, AWAKE)
    assert not nodes.moves()
    assert nodes.moves(OFF, ASLEEP, ASLEEP)
    assert not nodes.device.is_at_home
    assert not nodes.moves()
    assert nodes.moves(AWAKE, AWAKE, ASLEEP)
    assert nodes.device.is_at_home


@pytest.mark.parametrize(
    "said",
    [
        (OFF, AWAKE, ASLEEP),  # a lone liar, or a node that is behind
        (OFF, OFF, ASLEEP),  # the silence of the others is no word
        (OFF, BOTH, BOTH),  # nobody is at the standby either: it waits
        (OFF, OFF, OFF),
        (OFF, OFF, ASLEEP, ASLEEP),  # half is no majority
    ],
)
def test_less_than_a_majority_of_all_moves_nobody(said: tuple[tuple[Address, ...] | None, ...]) -> None:
    assert not Nodes(*said).moves()
    there = Nodes(*(ASLEEP for _ in said))
    assert there.moves()
    back = [AWAKE if each is ASLEEP else each if each is OFF else ASLEEP for each in said]
    assert not there.moves(*back)
    assert not there.device.is_at_home


def test_it_goes_home_when_its_standby_falls_asleep_as_well() -> None:
    nodes = Nodes(OFF, ASLEEP, ASLEEP)
    assert nodes.moves()
    assert nodes.moves(OFF, BOTH, BOTH)
    assert nodes.device.is_at_home


def test_an_old_word_counts_for_nothing() -> None:
    nodes = Nodes(OFF, ASLEEP, AWAKE)
    assert not nodes.moves()
    nodes.now_s += 10.0
    assert not nodes.moves(OFF, OFF, ASLEEP), "the first has been silent for long"
    nodes.now_s += 1.0
    assert nodes.moves(OFF, ASLEEP, OFF), "the second a moment ago"


def test_changes_are_told_until_it_is_stopped() -> None:
    nodes, stop, moved = Nodes(OFF, ASLEEP, ASLEEP), threading.Event(), threading.Event()
    places: list[bool] = []

    def tell(is_at_home: bool) -> None:
        places.append(is_at_home)
        nodes.said = [AWAKE, AWAKE, AWAKE]
        if is_at_home:
            moved.set()

    watched = Whereabouts([nodes._asked(n) for n in range(3)], HOME, STANDBY, 0.02)
    thread = threading.Thread(target=watched.follow, args=(stop, tell))
    thread.start()
    try:
        assert moved.wait(20)
    finally:
        stop.set()
        thread.join(20)
    assert places[:2] == [False, True]


# --- a node's word


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_node_is_asked_for_the_round_that_is_running(stack: ExitStack) -> None:
    network = Network()
    node: Node = founded_node(network)
    stack.callback(node.close)
    url = stack.enter_context(RpcServer(node, ServerParams(port=0)))
    ask = dormancy_at(web3_over_http(url), node.genesis.registry)
    servers = [Address(address_of(each)) for each in network.servers]
    assert [ask(server) for server in servers] == [False] * len(servers)
    with pytest.raises(ChainError):
        dormancy_at(web3_over_http(url), b"\7" * 20)(servers[0])


def test_one_servers_certificate_is_no_other_servers_word() -> None:
    check = only(Identity(7, HOME))
    check(Identity(7, HOME))
    for other in (Identity(7, STANDBY), Identity(8, HOME)):
        with pytest.raises(IdentityError, match=f"found the certificate of {other.uri}"):
            check(other)
