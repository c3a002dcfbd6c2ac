"""Verdicts by the root set (P7) on the chain: a leader that judges falsely is seen by whoever can judge."""

import re
from dataclasses import replace

import pytest

from bfl.attacks.conduct import Conduct
from chain.wire.documents import read_canonical_json
from edge_servers.errors import ReplayError
from edge_servers.founding.parameters import read_founding_parameters
from edge_servers.learning.gradients import Close, Refusal
from edge_servers.learning.jury import RootJury
from edge_servers.replay.record import GradientReader
from edge_servers.replay.replay import check_verdicts
from tests.edge_servers.chain_network import ChainNetwork, chain_network, misbehave, only
from tests.edge_servers.round_records import with_close


def refusing(network: ChainNetwork, reason: str, kept: int) -> Conduct:
    """A leader whose list keeps so many gradients and says of the others what it likes."""
    name = network.founding.network.name

    def change(close: Close) -> Close:
        rest = tuple(Refusal(name(sender), reason, "") for sender in close.accepted[kept:])
        return replace(close, accepted=close.accepted[:kept], refused=rest)

    return only("close", change)


@pytest.mark.parametrize(
    ("filters", "kept", "told"),
    [
        ("loss", 1, "takes out 5 of 6 gradients, expected less than half"),
        ("loss", 3, "takes out 3 of 6 gradients, expected less than half"),
        ("loss", 5, "the verdict loss takes out .*, which nothing speaks against"),
        ("direction:0.9+loss:0.9", 4, "the verdict loss:0.9 takes out .*, which nothing speaks against"),
    ],
)
def test_a_leader_that_takes_out_honest_gradients_by_a_false_verdict_is_flagged_and_passed_over(
    filters: str, kept: int, told: str
) -> None:
    with chain_network(filter=filters, planner="fixed:none") as network:
        leader, following = network.ranked[:2]
        misbehave(network.servers[leader], refusing(network, "loss", kept))
        (report,) = network.run()
        assert (report.failed_leaders, report.leader, report.training_nodes) == ((leader,), following, 6)
        assert re.search(told, report.offences[0].detail)
        assert report.excluded == (leader,)


def test_a_leader_that_spares_a_liar_is_flagged_and_the_next_one_takes_the_liar_out() -> None:
    def spared(close: Close) -> Close:
        everybody = tuple(sorted(device.address for device in network.founding.network.devices))
        return replace(close, accepted=everybody, refused=())

    attack = "model-replacement@all:device=3,strength=40"
    with chain_network(filter="harm", planner="fixed:none", attack=attack) as network:
        leader = network.leader
        misbehave(network.servers[leader], only("close", spared))
        (report,) = network.run()
        assert report.failed_leaders == (leader,)
        assert re.search(
            "the verdict harm leaves in 0x.*, which the root set speaks against", report.offences[0].detail
        )
        assert [(each.node, each.reason) for each in report.refused] == [("device 3", "harm")]


def test_whoever_has_no_root_set_believes_what_a_majority_has_endorsed_and_whoever_has_it_sees_the_lie() -> None:
    with chain_network(filter="loss", planner="fixed:none") as network:
        network.run()
        record, founding, model = network.record(1), network.founding, network.model(0)
        sender, *rest = record.closed_list.accepted
        who = next(who for who, post in record.gradient_posts().items() if post.transaction_hash == sender)
        false = with_close(record, tuple(rest), (founding.network.name(who), "loss"))
        check_verdicts(false, model, GradientReader(founding))
        jury = network.hosted.checker.reader.jury
        assert jury is not None
        check_verdicts(record, model, GradientReader(founding, jury))
        with pytest.raises(ReplayError, match="which nothing speaks against"):
            check_verdicts(false, model, GradientReader(founding, jury))


def test_the_founding_names_the_root_set_by_its_digest_where_a_filter_judges_by_it() -> None:
    with chain_network(filter="krum") as plain, chain_network(filter="direction+loss") as judged:
        assert (plain.founding.root, "root-set" in read_canonical_json(plain.founding.encode())["settings"]) == (
            "",
            False,
        )
        jury = judged.hosted.checker.reader.jury
        assert isinstance(jury, RootJury)
        assert judged.founding.root == jury.digest
        assert read_founding_parameters(judged.founding.encode()).root == jury.digest
