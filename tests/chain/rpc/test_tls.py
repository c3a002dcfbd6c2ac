"""Certificates speak for addresses of the registry: a server's opens the peers' door, a device's the devices'."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from chain.client.asking import request, web3_over_http
from chain.client.keys import address_of
from chain.client.tls import TlsClient, TlsFiles
from chain.errors import ChainError, DoorError, IdentityError, LedgerError, NodeAwayError, NodeUnreachableError
from chain.node.node import Node
from chain.peers.peers import Peers
from chain.rpc.connections import Greetings
from chain.rpc.doors import AUDITORS, MEMBERS, Door, Doorkeeper
from chain.rpc.limits import ServerParams
from chain.rpc.server import RpcServer
from chain.wire.address import Address
from chain.wire.identity import Identity, identity_in, read_identity
from tests.chain.certificates import Authority
from tests.chain.network import CHAIN_ID, Clock, Network, founded_node, genesis, seal
from tests.chain.rpc.served import wait_until

NETWORK = Network()
SERVER, DEVICE = address_of(NETWORK.servers[0]), address_of(NETWORK.devices[0])


def uri(address: bytes, chain_id: int = CHAIN_ID) -> str:
    return Identity(chain_id, Address(address)).uri


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def node() -> Iterator[Node]:
    node = founded_node(NETWORK)
    yield node
    node.close()


def served(stack: ExitStack, node: Node, files: TlsFiles, **changes: object) -> str:
    params = replace(ServerParams(port=0, doors=MEMBERS, tls=files), **changes)  # type: ignore[arg-type]
    return stack.enter_context(RpcServer(node, params))


def ask(url: str, files: TlsFiles, method: str = "eth_blockNumber", *params: object) -> object:
    return request(web3_over_http(url, timeout_s=5.0, tls=TlsClient(files)), method, *params)


def test_a_server_and_a_device_have_different_doors(stack: ExitStack, node: Node, authority: Authority) -> None:
    url = served(stack, node, authority.issue("node", uri(SERVER)))
    assert url.startswith("https://")
    server, device = authority.issue("server", uri(SERVER)), authority.issue("device", uri(DEVICE))
    leader = NETWORK.leader(node)
    NETWORK.post_plan(node, leader)
    node.propose(address_of(leader))
    work = "0x" + DEVICE.hex()
    assert ask(url, device, "bfl_getWork", work)
    with pytest.raises(DoorError):
        ask(url, server, "bfl_getWork", work)
    raw = node.raw_block(1)
    assert raw is not None
    assert ask(url, server, "bfl_importBlock", "0x" + raw.hex())
    with pytest.raises(DoorError):
        ask(url, device, "bfl_importBlock", "0x" + raw.hex())
    for files in (server, device):
        with pytest.raises(DoorError):
            ask(url, files, "bfl_propose", leader.address)


@pytest.mark.parametrize(
    "uris",
    [
        [uri(b"\7" * 20)],
        [uri(SERVER, chain_id=CHAIN_ID + 1)],
        [],
        [uri(SERVER), uri(DEVICE)],
        [uri(SERVER).upper()],
    ],
    ids=["nobody's address", "another chain", "no name", "two names", "another spelling"],
)
def test_a_certificate_of_nobody_opens_nothing(
    stack: ExitStack, node: Node, authority: Authority, uris: list[str]
) -> None:
    url = served(stack, node, authority.issue("node", uri(SERVER)))
    with pytest.raises(DoorError, match="nobody's"):
        ask(url, authority.issue("visitor", *uris))


def test_another_authority_and_no_certificate_are_not_heard(
    stack: ExitStack, node: Node, authority: Authority, tmp_path: Path
) -> None:
    url = served(stack, node, authority.issue("node", uri(SERVER)))
    stranger = Authority(tmp_path / "other", "authority").issue("server", uri(SERVER))
    with pytest.raises(NodeUnreachableError):
        ask(url, replace(stranger, authority=authority.file))
    with pytest.raises(NodeUnreachableError):
        request(web3_over_http(url, timeout_s=5.0), "eth_blockNumber")
    with pytest.raises(NodeUnreachableError):
        request(web3_over_http(url.replace("https", "http"), timeout_s=5.0), "eth_blockNumber")


def test_a_node_that_is_not_who_it_says_is_not_asked(stack: ExitStack, node: Node, authority: Authority) -> None:
    me = authority.issue("device", uri(DEVICE))
    of_another = served(stack, node, authority.issue("elsewhere", uri(SERVER), host="127.0.0.9"))
    with pytest.raises(NodeUnreachableError):
        ask(of_another, me)
    nameless = served(stack, node, authority.issue("nameless"))
    with pytest.raises(IdentityError, match="found 0 names"):
        ask(nameless, me)
    device = served(stack, node, authority.issue("posing", uri(DEVICE)))
    keeper = Doorkeeper(node)
    with pytest.raises(IdentityError, match="expected a server of this network"):
        request(web3_over_http(device, tls=TlsClient(me, keeper.check_peer)), "eth_blockNumber")


def test_a_visitor_that_is_refused_is_not_taken_for_an_absence(
    stack: ExitStack, node: Node, authority: Authority
) -> None:
    """Who is not of the network is told at once, and not asked again and again."""
    nameless = served(stack, node, authority.issue("nameless"))
    with pytest.raises(ChainError) as caught:
        ask(nameless, authority.issue("device", uri(DEVICE)))
    assert not isinstance(caught.value, NodeAwayError)


def test_auditors_need_no_certificate(stack: ExitStack, node: Node, authority: Authority) -> None:
    url = served(stack, node, authority.issue("node", uri(SERVER)), doors=AUDITORS)
    me = authority.issue("anybody")
    assert ask(url, me) == "0x1"
    with pytest.raises(DoorError):
        ask(url, me, "bfl_getWork", "0x" + DEVICE.hex())


def test_a_visitor_that_stays_does_not_delay_the_end(node: Node, authority: Authority) -> None:
    """TLS says goodbye on both sides; who does not answer is not waited for."""
    files = authority.issue("node", uri(SERVER))
    server = RpcServer(node, ServerParams(port=0, doors=MEMBERS, tls=files))
    web3 = web3_over_http(server.start(), tls=TlsClient(files))
    assert request(web3, "eth_blockNumber") == "0x1"
    before_s = time.monotonic()
    server.stop()
    assert time.monotonic() - before_s < 3


def test_peers_with_certificates_stay_in_step(stack: ExitStack, authority: Authority) -> None:
    urls, nodes, keys = [], [], [authority.issue(f"peer {i}", uri(address_of(NETWORK.servers[i]))) for i in range(2)]
    for files in keys:
        node = Node.in_memory(genesis(), now=Clock())
        stack.callback(node.close)
        nodes.append(node)
        urls.append(served(stack, node, files))
    for i in range(2):
        tls = TlsClient(keys[i], Doorkeeper(nodes[i]).check_peer)
        stack.enter_context(Peers(nodes[i], [urls[1 - i]], pull_s=0.05, tls=tls))
    NETWORK.found(nodes[0])
    wait_until(lambda: nodes[1].head.block_number == 1)
    leader = NETWORK.leader(nodes[1])
    NETWORK.post_plan(nodes[1], leader)
    wait_until(lambda: len(nodes[0].pending()) == 1)
    nodes[0].propose(address_of(leader))
    seal(nodes[0], DEVICE)
    wait_until(lambda: nodes[1].head.hash == nodes[0].head.hash)


def test_before_the_founding_whoever_has_a_certificate_is_a_peer() -> None:
    keeper = Doorkeeper(Node.in_memory(genesis(), now=Clock()))
    assert keeper.doors_of(Identity(CHAIN_ID, Address(SERVER))) == {Door.PEER}
    assert keeper.doors_of(Identity(CHAIN_ID + 1, Address(SERVER))) == frozenset()


def test_who_is_registered_later_is_known_at_the_next_head() -> None:
    node = Node.in_memory(genesis(), now=Clock())
    keeper, device = Doorkeeper(node), Identity(CHAIN_ID, Address(DEVICE))
    assert keeper.doors_of(device) == {Door.PEER}
    NETWORK.found(node)
    assert keeper.doors_of(device) == {Door.DEVICE}


def test_an_identity_has_one_spelling() -> None:
    assert read_identity(uri(SERVER)) == Identity(CHAIN_ID, Address(SERVER))
    for wrong in ("", "bfl:", uri(SERVER).upper(), uri(SERVER) + " ", "bfl:07:0x" + "1" * 40, "bfl:1:0x" + "1" * 39):
        with pytest.raises(IdentityError, match=r"expected bfl:CHAIN-ID:0x"):
            read_identity(wrong)
    with pytest.raises(IdentityError, match="found 0 names"):
        identity_in(None)


def test_files_that_are_no_certificates_are_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("nonsense")
    with pytest.raises(LedgerError, match="cannot be used for TLS"):
        TlsFiles(tmp_path / "a", tmp_path / "a", tmp_path / "a").server_context()


def is_kept(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def test_who_says_nothing_to_tls_keeps_few_places_and_none_of_others(
    stack: ExitStack, node: Node, authority: Authority
) -> None:
    files = authority.issue("node", uri(SERVER))
    url = served(stack, node, files)
    port = int(url.rpartition(":")[2])

    def silent(address: str) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(address, 0))
        return stack.enter_context(made)

    other = silent("127.0.0.2")
    mine = [silent("127.0.0.1") for _ in range(200)]
    wait_until(lambda: sum(map(is_kept, mine)) <= 32)
    assert is_kept(other)
    assert ask(url, files) == "0x1"
    many = [silent(f"127.0.0.{n}") for n in range(3, 13) for _ in range(20)]
    wait_until(lambda: sum(map(is_kept, [*mine, *many])) <= 128)
    assert ask(url, files) == "0x1"


def test_a_greeting_that_is_over_holds_no_place() -> None:
    now = 0.0
    greetings = Greetings(longest_s=10.0, now=lambda: now)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        greetings.begin(("10.0.0.1", 1), ours)
        greetings.begin(("10.0.0.1", 2), ours)
        greetings.end(("10.0.0.1", 2))
        assert (len(greetings), is_kept(theirs)) == (1, True)
        now = 11.0
        greetings.begin(("10.0.0.2", 1), ours)
        assert (len(greetings), is_kept(theirs)) == (1, False)
