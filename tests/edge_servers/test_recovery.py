"""A report made up from the block says what the report of the running round said."""

from typing import Any

import pytest

from bfl.attacks.conduct import WITHHELD
from chain.protocol.slots import Slot
from edge_servers.errors import ReplayError
from tests.edge_servers.chain_network import chain_network, metrics_line, misbehave, only, recovered, with_fields


def with_plain_offences(line: dict[str, Any]) -> dict[str, Any]:
    """Offences by who and what: of a leader whose attempt failed no block tells what exactly was wrong or missing."""
    plain = [
        (each["offender"], each["kind"], each["step"], "" if each["step"] is None else each["detail"])
        for each in line["offences"]
    ]
    return line | {"offences": sorted(plain, key=str)}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"phi": "auto:1", "xi": 1e-4, "planner": "random:0.5"},
        {"scheme": "bfl-no-consensus", "edges": 2},
        {"nodes": 3, "phi": "0"},
        {"filter": "krum", "planner": "fixed:none"},
        {"evaluate_every": 2},
        {"attack": "inflated-samples@1:device=3; inflated-weight@2:server=0"},
        {"attack": "omitted-gradient@2:device=3"},
        {"attack": "iterate-noise@2:server=1,step=1", "exclusion_rounds": 1},
        {"attack": "withheld-iterate@1:server=2,step=0; lying-aggregate@1:server=0", "edges": 5, "graph": "complete"},
        {"attack": "equivocation@2:server=2,step=1"},
        {"attack": "wrong-model@2"},
        {"attack": "silent-leader@2:phase=plan"},
        {"attack": "silent-leader@1:phase=close; silent-leader@2:phase=model", "edges": 5},
        {"attack": "silent-leader@2:phase=model", "edges": 2},
    ],
    ids=str,
)
def test_every_line_of_metrics_can_be_made_up_from_the_chain(changes: dict[str, Any]) -> None:
    with chain_network(**changes) as network:
        lines = [with_plain_offences(metrics_line(report)) for report in network.run(3)]
        assert [with_plain_offences(recovered(network, round_)) for round_ in (1, 2, 3)] == lines


def test_of_a_wrong_plan_and_a_wrong_list_everything_but_the_detail_can_be_made_up() -> None:
    """They are in no block: what exactly was wrong with them nobody can tell from the chain."""
    with chain_network(edges=5, graph="ring") as network:
        first, second = network.ranked[:2]
        misbehave(network.servers[first], only("plan", with_fields(phi=1)))
        misbehave(network.servers[second], only("close", lambda close: WITHHELD))
        (report,) = network.run()
        told, again = metrics_line(report), recovered(network, 1)
        kinds = [[(o["offender"], o["kind"], o["step"]) for o in each.pop("offences")] for each in (told, again)]
        assert kinds == [[(f"server {first}", "plan", None)]] * 2
        assert told == again
        assert again["failed-leaders"] == [first, second]


def test_of_two_servers_the_lie_is_told_and_the_model_that_followed_from_it() -> None:
    """One flag per offender and round, about the model that ended the attempt; the lie itself is in the block."""
    with chain_network(attack="iterate-noise@1-3:server=1,step=0", edges=2) as network:
        for report in network.run(3):
            told, again = (
                with_plain_offences(each) for each in (metrics_line(report), recovered(network, report.round))
            )
            assert again == told
        assert again["failed-leaders"] or network.leader_of(3) == 0


def test_a_leader_without_a_block_is_told_as_absent() -> None:
    with chain_network(attack="silent-leader@1:phase=seal") as network:
        (report,) = network.run()
        told, again = metrics_line(report), recovered(network, 1)
        assert (again["offences"], again["failed-leaders"]) == ([], list(report.failed_leaders))
        assert again | {"offences": told["offences"]} == told


def test_a_false_flag_is_no_offence_of_whom_it_accuses() -> None:
    with chain_network() as network:
        network.run()
        victim, liar = [m for m in range(3) if m != network.leader]
        network.walk("plan", "verify")
        accused, server = network.founding.network.servers[victim], network.servers[liar].address
        network.board(liar).ledger_of(server).submit_flag(2, accused, Slot.MODEL, b"\1" * 32, bytes(32))
        network.walk("model", "seal")
        found = recovered(network, 2)
        assert (found["offences"], found["failed-leaders"]) == ([], [])


def test_a_round_that_was_not_sealed_cannot_be_made_up() -> None:
    with chain_network() as network:
        network.run()
        for round_ in (0, 2):
            with pytest.raises(ReplayError, match=f"the chain has no round {round_}"):
                recovered(network, round_)
