"""What one liar cannot do to a round, a node or an audit: one sentence per attack that was once tried with success."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

from bfl.attacks.conduct import Conduct
from chain.errors import LedgerError, RevertedError, RoundRefusedError
from chain.node.access import LocalLedger
from chain.protocol.round_check import RoundBody
from chain.protocol.slots import Slot, iterate_slot
from chain.wire.address import Address
from chain.wire.blocks import encode_block
from chain.wire.sidecar import Sidecar
from clients.errors import ParameterError
from clients.replies import SignedReply, read_reply
from clients.training import local_updates
from edge_servers.devices.admission import believed_refusals
from edge_servers.errors import BoardError, PlanError, ReplayError
from edge_servers.learning.filters import close_list, make_filters
from edge_servers.learning.gradients import Close, Refusal
from edge_servers.learning.verdicts import judged_by
from edge_servers.ledger.block_check import RoundChecker, body_of
from edge_servers.ledger.referee import Referee
from edge_servers.parameters import RoundParams
from edge_servers.replay.admitted import Admitted, admitted_gradients
from edge_servers.replay.closing import closed_gradients
from edge_servers.replay.plan_check import check_plan
from edge_servers.replay.record import GradientReader
from tests.clients.messages import sent
from tests.edge_servers.chain_network import ChainNetwork, chain_network, follower, misbehave, only, with_fields
from tests.edge_servers.round_records import posts_of, with_close, with_payload


@pytest.fixture(scope="module")
def sealed() -> Iterator[ChainNetwork]:
    """Two honest rounds."""
    with chain_network() as network:
        network.run(2)
        yield network


def ledger_of(network: ChainNetwork, server: int) -> LocalLedger:
    """The ledger with a server's key, for posts that no honest server makes."""
    ledger = network.board(server).ledger.signed_by(network.hosting.account("server", server))
    assert isinstance(ledger, LocalLedger)
    return ledger


# --- the closed list --------------------------------------------------------------------------------------------------


def refusing(network: ChainNetwork, reason: str, kept: int) -> Conduct:
    """A leader whose list keeps so many gradients and says of the others what it likes."""
    name = network.founding.network.name

    def change(close: Close) -> Close:
        rest = tuple(Refusal(name(sender), reason, "") for sender in close.accepted[kept:])
        return replace(close, accepted=close.accepted[:kept], refused=rest)

    return only("close", change)


def test_a_loss_where_no_filter_measures_it_is_no_reason_and_its_leader_is_flagged() -> None:
    with chain_network(filter="none") as network:
        leader = network.leader
        misbehave(network.servers[leader], refusing(network, "loss", kept=1))
        (report,) = network.run()
        assert [(o.name, o.kind) for o in report.offences] == [(f"server {leader}", "close")]
        assert report.excluded == (leader,)
        assert (report.failed_leaders, report.training_nodes) == ((leader,), 6), "the next attempt counts them"
        assert {each.slot for each in network.record(1).flags} == {Slot.CLOSE}


def test_a_gradient_that_comes_late_does_not_make_an_honest_list_a_wrong_one() -> None:
    """Krum over all that a node has seen would take out others than Krum over what the leader had."""
    with chain_network(filter="krum", planner="fixed:none") as network:
        network.run()
        record, founding = network.record(1), network.founding
        everybody = dict(admitted_gradients(record, GradientReader(founding)).good)
        for late in sorted(everybody):
            seen = {sender: gradient for sender, gradient in everybody.items() if sender != late}
            honest = close_list(seen, [], make_filters("krum"), judged_by(None))
            hashes = tuple(everybody[sender].transaction_hash for sender in honest.accepted)
            refused = [(each.node, each.reason) for each in honest.refused]
            listed = with_close(record, hashes, *refused, rolls=())
            leaders = closed_gradients(listed, founding, Admitted(seen, {}))
            others = closed_gradients(listed, founding, Admitted(everybody, {}))
            assert [g.sender for g in others.counted] == [g.sender for g in leaders.counted] == list(honest.accepted)
            assert leaders.omitted == others.omitted == (), "it was in no roll that the leader had"
            cited = closed_gradients(with_close(record, hashes, *refused), founding, Admitted(everybody, {}))
            assert [g.sender for g in cited.omitted] == [late], "one that cites its roll had it"


def test_a_list_that_names_another_outlier_than_the_filter_does_costs_its_leader_the_attempt() -> None:
    with chain_network(filter="krum", planner="fixed:none") as network:
        leader = network.leader

        def other_outlier(close: Close) -> Close:
            """The outlier counts, and somebody else goes for it."""
            network_, (outlier,) = network.founding.network, close.refused
            back = next(d.address for d in network_.devices if f"device {d.index}" == outlier.node)
            gone, *rest = close.accepted
            return Close(tuple(sorted([*rest, back])), (Refusal(network_.name(gone), "krum", ""),))

        misbehave(network.servers[leader], only("close", other_outlier))
        (report,) = network.run()
        assert report.failed_leaders == (leader,)


# --- what a server says of others -------------------------------------------------------------------------------------


def test_a_servers_word_counts_for_its_own_cluster_and_not_with_the_leaders_reasons(sealed: ChainNetwork) -> None:
    words = [
        Refusal("device 3", "late", ""),  # at home at server 0
        Refusal("server 0", "failed", ""),
        Refusal("device 1", "late", ""),
        Refusal("server 1", "late", ""),
        Refusal("device 3", "loss", ""),
        Refusal("device 3", "krum", ""),
        Refusal("device 3", "unavailable", ""),  # only the leader knows what it does not hold
    ]
    homes = sealed.founding.network.serving(())
    assert believed_refusals(0, words, "krum", homes) == words[:2]
    assert believed_refusals(0, words, "krum+loss", homes) == words[:2]
    assert believed_refusals(0, words[1:], "none", homes) == [words[1], words[5]]  # no filter: nobody's reason
    assert believed_refusals(1, words, "none", homes) == words[2:4]
    one_at_standby = [2 if n == 1 else home for n, home in enumerate(homes)]
    assert believed_refusals(1, words, "none", one_at_standby) == words[3:4]
    assert believed_refusals(2, words, "none", one_at_standby) == words[2:3]


def test_no_word_of_a_server_makes_a_closed_list_too_large(sealed: ChainNetwork) -> None:
    words = [Refusal("device 3", "x" * 20_000, ""), *(Refusal("device 3", f"late-{c}", "") for c in "abc")]
    assert believed_refusals(0, words, "krum", sealed.founding.network.serving(())) == words[1:2]


@pytest.mark.parametrize("reason", ["krum", "late", "unavailable"])
def test_a_server_that_slanders_others_changes_nothing(reason: str) -> None:
    slander = [Refusal(f"device {n}", reason, "") for n in range(6)]
    with chain_network(filter="krum", planner="fixed:none") as calm:
        calm.run()
        honest, model = calm.record(1).closed_list, calm.model(1)
    with chain_network(filter="krum", planner="fixed:none") as network:
        liar = network.ranked[1]
        misbehave(network.servers[liar], only("roll", lambda roll: replace(roll, refused=tuple(slander))))
        (report,) = network.run()
        assert (report.offences, report.failed_leaders) == ((), ())
        assert network.record(1).closed_list.accepted == honest.accepted
        assert network.model(1).tobytes() == model.tobytes()


# --- plans ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["power_w", "bandwidth_hz", "cpu_hz", "hash_rate"])
def test_a_number_that_no_float_can_hold_costs_its_leader_the_attempt_and_ends_nothing(field: str) -> None:
    """The audit and a node that imports such a block are in `test_audit`."""
    with chain_network() as network:
        leader, following = network.ranked[:2]
        misbehave(network.servers[leader], only("plan", with_fields(**{field: (10**400,) * 6})))
        (report,) = network.run()
        assert (report.failed_leaders, report.leader) == ((leader,), following)
        assert [(o.name, o.kind) for o in report.offences] == [(f"server {leader}", "plan")]


@pytest.mark.parametrize("samples", [(1, 1, 1, 40, 40, 40), (39,) * 6, (40,) * 5 + (41,)])
def test_a_plan_with_other_samples_than_the_seed_gives_is_refused(
    sealed: ChainNetwork, samples: tuple[int, ...]
) -> None:
    wrong = next(n for n in range(6) if samples[n] != 40)
    plan = replace(sealed.record(2).plan, samples=samples)
    with pytest.raises(PlanError, match=f"found {samples[wrong]} samples of device {wrong}, expected 40"):
        check_plan(plan, sealed.founding, 2)


def test_what_the_seed_gives_is_another_share_in_every_round_where_the_state_says_so(sealed: ChainNetwork) -> None:
    """A sample of 2**21 bytes: the data of a round are a few of them, drawn anew for each."""
    settings = sealed.founding.settings
    data = replace(settings.data, data_per_round="state")
    founding = replace(sealed.founding, settings=replace(settings, data=data), sample_bytes=2**21)
    with pytest.raises(PlanError, match=r"plan: found 40 samples of device 0, expected \d+"):
        check_plan(sealed.record(2).plan, founding, 2)


@pytest.mark.parametrize(
    ("attack", "changes", "told"),
    [
        ("", {"divergence": 7.5}, "plan: found divergence 7.5 of the round before, expected "),
        ("iterate-noise@1:server=2,step=1", {"assignment": (-1, -1, 2, -1, -1, -1)}, "plan: device 2 may not offload"),
    ],
)
def test_a_node_refuses_a_block_whose_plan_names_a_false_divergence_or_an_excluded_server(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    attack: str,
    changes: dict[str, Any],
    told: str,
) -> None:
    """Servers that look away do not get it sealed."""
    with chain_network(attack=attack) as network:
        network.run()
        monkeypatch.setattr(Referee, "check_plan", lambda self, plan, leader: None)
        for server in network.servers:
            misbehave(server, only("plan", with_fields(**changes)))
        with pytest.raises(BoardError, match=r"round 2: all \d leaders have failed, each 2 times"):
            network.run()
        assert network.node.head.block_number == 2
    assert f"cannot propose a block: block 3: {told}" in caplog.text


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["bfl", "bfl-no-consensus"])
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"phi": "101"}, "phi: found up to 101 steps, expected at most 100"),
        ({"phi": "auto:101", "max_phi": 1}, "phi: found up to 101 steps"),
        ({"phi": "auto", "max_phi": 101}, "phi: found up to 101 steps"),
        ({"edges": 70}, "edges: found 70, a registry takes at most 64"),
    ],
)
def test_settings_that_a_registry_cannot_hold_are_refused_on_the_chain_alone(
    scheme: str, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(ParameterError, match=told):
        RoundParams(scheme=scheme, **changes)
    assert RoundParams(scheme="consensus-no-chain", **changes).scheme == "consensus-no-chain"


def test_payloads_are_kept_of_all_rounds_or_of_some() -> None:
    assert RoundParams().kept_rounds is None
    assert RoundParams(keep_payloads="3").kept_rounds == 3
    for found in ("0", "-1", "1.5", "ten", ""):
        with pytest.raises(
            ParameterError, match=f"keep-payloads: found '{found}', expected all, or a number from 1 on"
        ):
            RoundParams(keep_payloads=found)


def test_the_largest_that_a_registry_holds_is_taken() -> None:
    assert RoundParams(scheme="bfl", phi="100", edges=64).edges == 64


# --- gradients --------------------------------------------------------------------------------------------------------


def test_a_device_that_offloaded_and_posts_a_gradient_of_its_own_does_not_count_twice() -> None:
    with chain_network(planner="fixed:0") as network:
        network.walk("plan", "plan")
        (order,) = (each for each in network.servers[0].orders() if each.device == 0)
        (wallet,) = network.hosted.wallets([network.hosting.account("device", 0)])
        device = replace(network.devices[0], wallet=wallet)  # one that remembers nothing of it
        (update,) = local_updates([device.training_node(order)], device.network, network.servers[0].recipe)
        reply = read_reply(device.report(order, update, sent(order)))
        assert isinstance(reply, SignedReply)
        network.walk("train", "train")
        network.node.submit(reply.transaction, [Sidecar(reply.payload)])
        network.walk("close", "seal")
        replayed = network.replayed(1)
        assert {g.node for g in replayed.counted} == {"server 0", *(f"device {n}" for n in range(1, 6))}
        assert sum(g.samples for g in replayed.counted) == sum(network.record(1).plan.samples)
        assert replayed.refused == (("device 0", "wrong-weight"),)
        assert replayed.offences == ()


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_device_that_shows_its_server_a_post_with_another_payload_makes_nobody_a_liar(nodes: int) -> None:
    """The server cannot take it as it is; then the device posts the same transaction with its payload by itself."""
    replies: list[SignedReply] = []

    def showing(reply: Message) -> Message:
        if reply.metadata.message_type == "train":
            signed = read_reply(reply)
            assert isinstance(signed, SignedReply)
            replies.append(signed)
            about: Any = reply.content["about"]
            about["payload"] = signed.payload[:-1] + bytes([signed.payload[-1] ^ 1])
        return reply

    with chain_network(planner="fixed:none", faults={3: showing}, nodes=nodes) as network:
        network.walk("plan", "train")
        (signed,) = replies
        network.hosted.nodes[-1].submit(signed.transaction, [Sidecar(signed.payload)])
        leader = network.leader
        network.walk("close", "seal")
        assert network.leader_of(1) == leader
        assert [server.oversight.offences for server in network.servers] == [[], [], []]
        replayed = network.replayed(1)
        assert (len(replayed.counted), replayed.offences) == (6, ())
        assert network.record(1).closed_list.refused == (("device 3", "malformed"),)  # its server's word; it counts
        assert network.servers[0].standing.excluded == ()


@pytest.mark.parametrize(("samples", "refused"), [(40, []), (41, ["device 3"]), (80, ["device 3"])])
def test_an_offloader_whose_data_the_server_does_not_count_may_train(
    sealed: ChainNetwork, samples: int, refused: list[str]
) -> None:
    """Devices 0 and 3 were to offload to server 0; device 3 posts, so there is room for 40 samples at the server."""
    record, key = sealed.record(2), sealed.key(0)
    plan = replace(record.plan, assignment=(0, -1, -1, 0, -1, -1))
    planned = with_payload(record, Slot.PLAN, plan.payload)
    weighed = [
        replace(post, arguments=replace(post.arguments, arguments={**post.arguments.arguments, "samples": samples}))
        if post.slot == Slot.GRADIENT and post.sender == key
        else post
        for post in posts_of(planned)
    ]
    found = admitted_gradients(type(record).of(2, weighed), GradientReader(sealed.founding))
    assert [sealed.founding.network.name(sender) for sender in found.refused] == refused
    assert {error.reason for error in found.refused.values()} <= {"wrong-weight"}


def test_a_server_whose_gradient_comes_late_does_not_make_a_list_with_its_offloaders_a_wrong_one(
    sealed: ChainNetwork,
) -> None:
    """Device 3 did not hand over and trained; then server 0 posts, to some nodes, that it counts device 3's data."""
    record, founding = sealed.record(2), sealed.founding
    key, device = sealed.key(0), sealed.founding.network.devices[3]
    plan = replace(record.plan, assignment=(-1, -1, -1, 0, -1, -1))  # device 3 trained, as the ledger has it
    full = with_payload(record, Slot.PLAN, plan.payload)
    early = type(record).of(2, [p for p in posts_of(full) if (p.slot, p.sender) != (Slot.GRADIENT, key)])
    seen = admitted_gradients(early, GradientReader(founding))
    accepted = tuple(seen.good[sender].transaction_hash for sender in sorted(seen.good))
    late = admitted_gradients(full, GradientReader(founding))
    assert late.refused[device.address].reason == "wrong-weight"
    leaders = closed_gradients(with_close(early, accepted, rolls=()), founding, seen)
    others = closed_gradients(with_close(full, accepted, rolls=()), founding, late)
    assert [g.sender for g in others.counted] == [g.sender for g in leaders.counted]
    assert device.address in {g.sender for g in others.counted}
    assert others.omitted == ()  # as any gradient in no roll that the leader had


def test_a_list_that_counts_data_at_the_device_and_at_its_server_is_refused(sealed: ChainNetwork) -> None:
    record, founding = sealed.record(2), sealed.founding
    plan = replace(record.plan, assignment=(-1, -1, -1, 0, -1, -1))
    forged = with_payload(record, Slot.PLAN, plan.payload)
    with pytest.raises(ReplayError, match="round 2: the closed list counts data of a device and at the server"):
        closed_gradients(forged, founding, admitted_gradients(forged, GradientReader(founding)))


# --- posts ------------------------------------------------------------------------------------------------------------


def test_a_second_post_that_says_the_same_is_no_conflict_and_does_not_save_a_liar() -> None:
    """Its evidence would be refused by the registry, and the flag for the lie itself would never be posted."""
    with chain_network() as network:
        liar = next(m for m in range(3) if m != network.leader)
        misbehave(network.servers[liar], only("iterate", lambda x: x + np.int32(1000)))
        network.walk("plan", "gossip")
        ledger = ledger_of(network, liar)
        post = ledger.posts(1, iterate_slot(2))[network.key(liar)]
        with pytest.raises(RevertedError):
            ledger._send("iterate", 1, 0, 2, ledger.close_digest(), post.digest, post.size)
        assert list(ledger.conflicts()) == []
        network.walk("verify", "seal")
        name = network.founding.network.name
        assert {(name(o.offender), o.kind) for o in network.replayed(1).offences} == {(f"server {liar}", "iterate")}
        assert network.servers[0].standing.excluded == (network.founding.network.servers[liar],)


def test_a_flag_that_cannot_be_posted_does_not_end_the_round(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(self: LocalLedger, *arguments: Any) -> None:
        raise LedgerError("the pool is full")

    monkeypatch.setattr(LocalLedger, "submit_flag", full)
    with chain_network() as network:
        liar = next(m for m in range(3) if m != network.leader)
        misbehave(network.servers[liar], only("iterate", lambda x: x + 1))
        (report,) = network.run()
        assert {o.name for o in report.offences} == {f"server {liar}"}
        assert (report.excluded, network.node.head.block_number) == ((), 2)
    assert "cannot flag" in caplog.text


# --- nodes ------------------------------------------------------------------------------------------------------------


def checker_of(network: ChainNetwork, round_: int) -> tuple[RoundChecker, RoundBody]:
    """A node's checker that has replayed a round already, and that round."""
    checker = RoundChecker(GradientReader(network.founding))
    body = body_of(network.block(round_), network.node)
    checker(body, network.node)
    assert checker.replayed(body, network.node) is checker.replayed(body, network.node)
    return checker, body


def test_the_same_transactions_with_other_statuses_are_replayed_anew(sealed: ChainNetwork) -> None:
    checker, body = checker_of(sealed, 2)
    is_close = [post.call is not None and post.call.name == "close" for post in body.posts]
    other = replace(body, statuses=tuple(0 if close else 1 for close in is_close))
    with pytest.raises(RoundRefusedError, match="round 2 is not closed"):
        checker(other, sealed.node)


def test_a_leader_that_is_no_server_of_the_founding_is_refused_and_not_stumbled_over(sealed: ChainNetwork) -> None:
    _, body = checker_of(sealed, 2)
    stranger = Address(b"\x05" * 20)
    posts = tuple(
        replace(post, sender=stranger) if post.call is not None and post.call.name == "model" else post
        for post in body.posts
    )
    checker = RoundChecker(GradientReader(sealed.founding))
    with pytest.raises(RoundRefusedError, match=f"found 0x{'05' * 20}, expected a server of the founding"):
        checker(replace(body, header=replace(body.header, coinbase=stranger), posts=posts), sealed.node)


def test_a_node_knows_from_its_chain_what_a_round_starts_from() -> None:
    with chain_network(attack="iterate-noise@2:server=2,step=1") as network:
        reports = network.run(3)
        checker = RoundChecker(GradientReader(network.founding))
        found = [checker.before(network.header(round_), network.node) for round_ in range(4)]
        assert [each.divergence for each in found] == [0.0, *(report.divergence for report in reports)]
        liar = (network.founding.network.servers[2],)
        assert [each.excluded for each in found] == [(), (), liar, liar]
        for round_, each in enumerate(found):
            assert each.model.tobytes() == network.model(round_).tobytes()


def test_a_node_reads_who_is_excluded_from_the_branch_that_a_block_is_on(sealed: ChainNetwork) -> None:
    """Nobody is excluded on the branch that the node follows; on the one that it is shown, a server is."""
    liar = next(m for m in range(3) if m != sealed.leader_of(1))
    with chain_network(attack=f"iterate-noise@1:server={liar},step=1") as other:
        other.run()
        assert other.header(0).hash == sealed.header(0).hash
        shown = other.block(1)
    node = follower(sealed, checked=True)
    newest = sealed.block(2)
    for block in (shown, newest):
        node.import_block(encode_block(block.header, block.transactions))
    assert node.head == newest.header
    checker = RoundChecker(GradientReader(sealed.founding))
    assert checker.before(shown.header, node).excluded == (sealed.founding.network.servers[liar],)
    assert checker.before(newest.header, node).excluded == ()
    node.close()
