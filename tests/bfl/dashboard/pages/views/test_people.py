"""Participants and machines."""

import pytest

from bfl.dashboard.errors import NotFoundError
from bfl.dashboard.facts import MachineFact, RefusedNode, Snapshot
from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.people import machine_table, participants_page, person_view, short_participants
from tests.bfl.dashboard.pages.browsing import fact, lie, snapshot

TO = Links()
LATE = RefusedNode("device 3", "late", "after 5 s")


def known() -> Snapshot:
    rounds = [
        fact(1),
        fact(2, refused=(LATE,), offences=(lie(2),), excluded=(1,)),
        fact(3, [-1] * 4, absent=("server 1",), failed_leaders=(1,)),
    ]
    return snapshot(rounds)


def test_credit_is_blocks_sealed_and_a_bar_of_the_most() -> None:
    table = short_participants(known(), TO)
    assert [[each.text for each in row] for row in table.rows] == [
        ["device 0", "server 0", "100", "67 %", "0"],
        ["device 1", "server 1", "100", "0 %", "3"],
        ["device 2", "server 0", "100", "67 %", "0"],
        ["device 3", "server 1", "100", "67 %", "0"],
    ]
    assert [row[4].share for row in table.rows] == [0.0, 1.0, 0.0, 0.0]


def test_devices_and_servers_have_tables_of_their_own() -> None:
    devices = participants_page(known(), TO, 1, "device")
    assert [row[4].text for row in devices.rows] == ["", "", "", "1"]
    servers = participants_page(known(), TO, 1, "server")
    assert [[each.text for each in row] for row in servers.rows] == [
        ["server 0", "", "", "", "", "0x0000000000…", "3"],
        ["server 1", "1", "1", "1", "", "0x0000000000…", "0"],
    ]


def test_a_device_is_told_with_its_rounds() -> None:
    view = person_view(known(), "device", 3, TO, 1)
    facts = {name: value.text for name, value, _ in view.facts}
    assert (facts["offloaded"], facts["gradients refused"], facts["blocks sealed"]) == ("2 of 3 rounds", "1", "0")
    assert [[each.text for each in row] for row in view.rounds.rows] == [
        ["3", "itself", "", ""],
        ["2", "server 0", "", "late: came after the deadline of the plan after 5 s"],
        ["1", "server 0", "", ""],
    ]
    assert (view.previous, view.next) == ("/device/2", "")


def test_a_server_is_told_with_its_offences() -> None:
    view = person_view(known(), "server", 1, TO, 1)
    facts = {name: value.text for name, value, _ in view.facts}
    assert (facts["home of"], facts["rounds led"], facts["offences"], facts["absent"]) == (
        "2 devices",
        "0",
        "1",
        "1 round",
    )
    assert [[row[0].text, row[2].text, row[3].text] for row in view.rounds.rows] == [
        ["3", "0", "excluded"], ["2", "1", ""], ["1", "1", ""],
    ]  # fmt: skip
    assert view.rounds.rows[1][4].rest[0].href == "/offence/2-server-1-3"
    assert len(view.offences.rows) == 1


def test_nobody_is_refused() -> None:
    with pytest.raises(NotFoundError, match="found server 2, expected server 0 to 1"):
        person_view(known(), "server", 2, TO, 1)


def test_machines_are_shown_as_this_one_sees_them() -> None:
    well = MachineFact("edge 0", "edge", "block 41", True, 41, 2, 5, "0.9.0", 0.1, 1_700_000_000.0)
    away = MachineFact("edge 1", "edge", "does not answer", False, head=39)
    table = machine_table(snapshot(machines=(well, away)))
    assert [each.text for each in table.rows[0]] == [
        "edge 0", "well", "block 41", "41", "0", "2", "5", "+0.1 s", "0.9.0", "22:13:20",
    ]  # fmt: skip
    assert [each.text for each in table.rows[1]] == [
        "edge 1", "look at it", "does not answer", "39", "2", "–", "–", "–", "–", "never",
    ]  # fmt: skip
    assert (table.rows[0][1].tone, table.rows[1][1].tone) == ("good", "warn")


def test_a_device_that_is_set_aside_is_told_without_a_word_of_blame() -> None:
    rounds = [fact(1, filtered=(3,)), fact(2, filtered=(3,)), fact(3, aside=((3, 12),))]
    view = person_view(snapshot(rounds), "device", 3, TO, 1)
    told = {name: cell.text for name, cell, _ in view.facts}
    assert (told["filtered"], told["set aside"], told["set aside now"]) == ("2 rounds", "1 round", "through round 12")
    assert next(row[1].text for row in view.rounds.rows) == "set aside"
    assert "set aside" not in {name for name, *_ in person_view(snapshot(rounds), "device", 1, TO, 1).facts}
