"""Data between edges, over mTLS: sealed to the target, relayed by home, for a receipt; and what is refused."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import requests
from eth_account.signers.local import LocalAccount
from numpy.typing import NDArray

from bfl.network.certificates import Authority
from bfl.network.own_keys import OwnKeys
from chain.client.keys import public_key_of
from chain.client.tls import TlsFiles
from chain.protocol.endorsements import Domain
from chain.wire.address import Address
from chain.wire.identity import Identity
from chain.wire.plan import Plan
from clients.consent import Consent
from clients.models import network_for
from clients.parameters import TrainingParams
from clients.replies import DataReply, SealedReply, data_bytes
from clients.sealing import associated, seal
from edge_servers.founding.network import DeviceRecord, LearningTask, Network
from edge_servers.learning.graph import make_graph
from edge_servers.ledger.running_round import RunningRound
from edge_servers.remote import relay as relay_module
from edge_servers.remote.inbox import Inbox, NotWantedError
from edge_servers.remote.relay import Relay, edge_api
from tests.bfl.network.described import free_ports
from tests.edge_servers.small_network import small_dataset

CHAIN, SAMPLES = 7, 4
HOMES = (0, 0)
"""By device, the server that orders it"""
DOMAIN = Domain(CHAIN, Address(b"r" * 20))
DATASET = small_dataset()
TASK = LearningTask(network_for(DATASET, TrainingParams(hidden="8"), 0), DATASET.train, DATASET.classes)
IMAGES, LABELS = DATASET.train.inputs.numpy()[:SAMPLES], DATASET.train.labels.numpy()[:SAMPLES]


@dataclass
class Edges:
    """Two edges; the device of the first is to offload to the second."""

    keys: list[OwnKeys]
    device: LocalAccount
    network: Network
    plan: Plan
    inboxes: list[Inbox]
    relays: list[Relay]
    places: dict[int, str]
    files: list[TlsFiles]

    def sealed(
        self, to: int = 1, about_plan: str = "", by: LocalAccount | None = None, labels: NDArray[np.int64] = LABELS
    ) -> SealedReply:
        about = associated(CHAIN, self.plan.round, 0, to, about_plan or self.plan.digest)
        key = public_key_of(self.keys[to].account)
        return SealedReply(0, 1, seal(data_bytes(IMAGES, labels), by or self.device, key, about))


@pytest.fixture
def edges(tmp_path: Path) -> Iterator[Edges]:
    keys = [OwnKeys.create(is_device=False) for _ in range(2)]
    owners = [OwnKeys.create(is_device=True) for _ in range(2)]
    devices = tuple(DeviceRecord(n, each.public.address, 0, SAMPLES, Consent()) for n, each in enumerate(owners))
    network = Network(tuple(key.public.address for key in keys), devices, make_graph("line", 2), 1)
    plan = Plan(
        round=1, state_digest="", assignment=(1, -1), samples=(SAMPLES,) * 2, iterations=(1, 1),
        server_iterations=(1, 1), phi=1, deadline_s=60.0, divergence=0.0, policy_digest="",
    )  # fmt: skip
    authority = Authority.create("test")
    files = [certified(authority, key, tmp_path / str(m)) for m, key in enumerate(keys)]
    ports = free_ports(2)
    places = {m: f"https://127.0.0.1:{port}" for m, port in enumerate(ports)}
    with ExitStack() as stack:
        inboxes = [Inbox(m, keys[m].account, network, TASK, DOMAIN, time.monotonic) for m in range(2)]
        for m in range(2):
            stack.enter_context(edge_api(inboxes[m], network, CHAIN, "127.0.0.1", ports[m], files[m]))
        relays = [Relay(m, inboxes[m], places, network, DOMAIN, files[m], time.sleep) for m in range(2)]
        for relay in relays:
            stack.enter_context(closing(relay))
            relay.open(plan, 0, 20.0, HOMES)
        yield Edges(keys, owners[0].account, network, plan, inboxes, relays, places, files)


def certified(authority: Authority, keys: OwnKeys, folder: Path, chain: int = CHAIN) -> TlsFiles:
    folder.mkdir()
    keys.save(folder, "of a test", work=2)
    identity = Identity(chain, keys.public.address)
    (folder / "tls.crt").write_bytes(authority.certify("edge", ["127.0.0.1"], identity, keys.public.tls))
    (folder / "ca.crt").write_bytes(authority.pem)
    return TlsFiles(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")


def test_data_reach_the_server_that_the_plan_names_and_home_has_its_signature(edges: Edges) -> None:
    assert edges.relays[0].hand_over(0, 1, edges.sealed(), {}) == ""
    assert edges.relays[0].hand_over(0, 1, edges.sealed(), {}) == "", "once more is the same"
    found = edges.relays[1].fetch([0])
    assert np.array_equal(found[0].inputs, IMAGES)
    assert np.array_equal(found[0].labels, LABELS)


def test_home_cannot_read_what_is_for_another(edges: Edges) -> None:
    """Tried with every key there is but the right one."""
    sealed = edges.sealed(to=1).sealed
    strangers = [OwnKeys.create(is_device=False).account for _ in range(3)]
    for account in (edges.keys[0].account, *strangers):
        for index in (0, 1):
            nosy = Inbox(index, account, edges.network, TASK, DOMAIN, time.monotonic)
            with pytest.raises(NotWantedError, match="not sealed to this server"):
                nosy.unseal(edges.plan, 0, sealed)
    assert edges.inboxes[1].unseal(edges.plan, 0, sealed).device == 0
    assert bytes(LABELS.tobytes()) not in sealed


def test_home_cannot_put_anything_in_the_place_of_its_device_s_data(edges: Edges) -> None:
    for by in (edges.keys[0].account, OwnKeys.create(is_device=True).account):
        told = edges.relays[0].hand_over(0, 1, edges.sealed(by=by), {})
        assert "expected the device's own signature" in told
    edges.relays[0].decline(0, 1)
    assert edges.relays[1].fetch([0]) == {}


def test_a_receipt_is_for_the_data_that_count(edges: Edges) -> None:
    """A device that answers twice has one of its answers used, and gets no signature for the other."""
    assert edges.relays[0].hand_over(0, 1, edges.sealed(), {}) == ""
    other = edges.sealed(labels=(LABELS + 1) % DATASET.classes)
    assert "other data of device 0" in edges.relays[0].hand_over(0, 1, other, {})
    assert np.array_equal(edges.relays[1].fetch([0])[0].labels, LABELS)


def test_data_for_home_itself_are_opened_there(edges: Edges) -> None:
    plan = replace(edges.plan, assignment=(0, -1))
    edges.relays[0].open(plan, 0, 20.0, HOMES)
    work = RunningRound(plan, "")
    about = associated(CHAIN, 1, 0, 0, plan.digest)
    sealed = SealedReply(
        0, 1, seal(data_bytes(IMAGES, LABELS), edges.device, public_key_of(edges.keys[0].account), about)
    )
    assert edges.relays[0].hand_over(0, 0, sealed, {0: work}) == ""
    assert np.array_equal(work.data[0].labels, LABELS)


def test_whoever_waits_goes_on_when_all_have_come_or_said_that_they_will_not(edges: Edges) -> None:
    declining = threading.Timer(0.2, edges.relays[0].decline, (0, 1))
    declining.start()
    began = time.monotonic()
    assert edges.relays[1].fetch([0]) == {}
    assert 0.1 < time.monotonic() - began < 10
    declining.join()  # a server asks another one thing at a time
    told = edges.relays[0].hand_over(0, 1, edges.sealed(), {})
    assert "too late: this server trains already" in told


def test_what_was_not_planned_is_refused_with_the_reason(edges: Edges) -> None:
    home = edges.relays[0]
    for told, change in (
        ("which this server is not at", {"round": 2}),
        ("which the plan does not send here", {"assignment": (0, -1)}),
    ):
        home.open(replace(edges.plan, **change), 0, 20.0, HOMES)
        if "assignment" in change:
            edges.inboxes[1].open(replace(edges.plan, **change), 0, 20.0, HOMES)
        assert told in home.hand_over(0, 1, edges.sealed(), {}), told
    home.open(edges.plan, 0, 20.0, HOMES)
    edges.inboxes[1].open(edges.plan, 1, 20.0, HOMES)
    assert "which this server is not at" in home.hand_over(0, 1, edges.sealed(), {})
    edges.inboxes[1].open(edges.plan, 0, 20.0, HOMES)
    assert "not sealed to this server" in home.hand_over(0, 1, edges.sealed(about_plan="00" * 32), {})
    assert "found data that are not sealed" in home.hand_over(0, 1, DataReply(0, 1, IMAGES, LABELS), {})
    fewer = replace(edges.sealed(), sealed=edges.sealed().sealed[:-9])
    assert "not sealed to this server" in home.hand_over(0, 1, fewer, {})


def test_only_the_server_that_orders_a_device_brings_its_data(edges: Edges) -> None:
    """Home, or its standby in a round in which home is dormant: never both."""
    inbox, (home, standby) = edges.inboxes[1], edges.network.servers
    for serving, brings, other in (((0, 0), home, standby), ((1, 0), standby, home)):
        inbox.open(edges.plan, 0, 20.0, serving)
        with pytest.raises(NotWantedError, match=f"from {other}, which does not order it in this round"):
            inbox.take(1, 0, 0, other, edges.sealed().sealed)
        with pytest.raises(NotWantedError, match="which does not order it"):
            inbox.decline(1, 0, 0, other)
        assert inbox.take(1, 0, 0, brings, edges.sealed().sealed).device == 0


def test_a_target_that_is_away_or_signs_for_something_else_is_told(edges: Edges) -> None:
    away = Relay(0, edges.inboxes[0], {1: "https://127.0.0.1:1"}, edges.network, DOMAIN, edges.files[0], time.sleep)
    away.open(edges.plan, 0, 20.0, HOMES)
    assert "server 1: " in away.hand_over(0, 1, edges.sealed(), {})
    away.decline(0, 1)
    swapped = replace(edges.network, servers=edges.network.servers[::-1])
    wrong = Relay(0, edges.inboxes[0], edges.places, swapped, DOMAIN, edges.files[0], time.sleep)
    wrong.open(edges.plan, 0, 20.0, HOMES)
    assert "signed for something else" in wrong.hand_over(0, 1, edges.sealed(), {})


@pytest.fixture
def dripping(edges: Edges) -> Iterator[str]:
    """An edge with a certificate of its own that begins to answer whoever asks, and never ends."""
    context, over = edges.files[1].server_context(), threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        while not over.is_set():
            try:
                raw, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(raw,), daemon=True).start()

    def answer(raw: socket.socket) -> None:
        with suppress(OSError), context.wrap_socket(raw, server_side=True) as secured:
            secured.recv(1 << 16)
            secured.sendall(b"HTTP/1.1 200 OK\r\n")
            while not over.wait(0.05):
                secured.sendall(b"x: y\r\n")

    threading.Thread(target=drip, daemon=True).start()
    yield f"https://127.0.0.1:{listening.getsockname()[1]}"
    over.set()
    listening.close()


def test_a_target_that_drips_holds_up_no_other(edges: Edges, dripping: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "_TOTAL_S", 0.3)
    places = {1: edges.places[1], 2: dripping}
    with closing(Relay(0, edges.inboxes[0], places, edges.network, DOMAIN, edges.files[0], time.sleep)) as relay:
        for attempt in range(12):
            relay.open(edges.plan, attempt, 20.0, HOMES)
            assert "server 2: " in relay.hand_over(0, 2, edges.sealed(), {})
        relay.open(edges.plan, 0, 20.0, HOMES)
        monkeypatch.setattr(relay_module, "_TOTAL_S", 20.0)
        assert relay.hand_over(0, 1, edges.sealed(), {}) == ""


def test_strangers_are_refused(edges: Edges, tmp_path: Path) -> None:
    authority = Authority.create("other")
    stranger = certified(authority, OwnKeys.create(is_device=False), tmp_path / "stranger")
    url = f"{edges.places[1]}/offloaded/1/0/0"
    trust = str(edges.files[0].authority)
    with pytest.raises(requests.RequestException):
        requests.post(url, data=b"x", cert=(str(stranger.certificate), str(stranger.key)), verify=trust, timeout=20)
    own = edges.files[0]
    for path, code in (("/offloaded/1/0/x", 404), ("/", 404), ("/offloaded/1/0/5", 409)):
        found = requests.post(
            edges.places[1] + path, data=b"x", cert=(str(own.certificate), str(own.key)),
            verify=str(own.authority), timeout=20,
        )  # fmt: skip
        assert found.status_code == code, path
    large = requests.post(
        url, data=b"x" * (1 << 20), cert=(str(own.certificate), str(own.key)), verify=str(own.authority), timeout=20
    )
    assert large.status_code == 413


def test_what_is_over_is_gone(edges: Edges) -> None:
    edges.relays[0].hand_over(0, 1, edges.sealed(), {})
    edges.inboxes[1].open(replace(edges.plan, round=2), 0, 0.0, HOMES)
    assert edges.relays[1].fetch([0]) == {}
    edges.inboxes[1].close()
    assert edges.relays[1].fetch([0]) == {}
