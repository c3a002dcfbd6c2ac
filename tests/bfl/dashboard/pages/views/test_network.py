"""The drawing of the network: who stands where, and what is said of them."""

import math
from dataclasses import replace

import pytest

from bfl.dashboard.facts import Participant, RefusedNode
from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.network import (
    HEIGHT,
    MOST_DRAWN,
    WIDTH,
    curve,
    network_view,
    places_in_sector,
    places_of_servers,
)  # fmt: skip
from tests.bfl.dashboard.pages.browsing import fact, lie, snapshot


def test_servers_stand_in_the_middle_of_their_sectors() -> None:
    assert places_of_servers(1) == [(190.0, 141.0)]
    assert places_of_servers(2) == [(256.0, 141.0), (124.0, 141.0)]
    assert places_of_servers(0) == []


@pytest.mark.parametrize(("number", "servers", "radius"), [(4, 2, 9.0), (40, 3, 7.0), (200, 5, 2.0), (1000, 1, 2.0)])
def test_devices_stand_beside_each_other_within_the_drawing(number: int, servers: int, radius: float) -> None:
    found = places_in_sector(number, 0, servers, radius)
    assert len(set(found)) == len(found) == number
    assert all(radius < x < WIDTH - radius and radius < y < HEIGHT - radius for x, y in found)
    nearest = min(math.dist(a, b) for n, a in enumerate(found) for b in found[n + 1 :])
    assert nearest > radius


def test_a_line_bends_to_one_side() -> None:
    assert curve((0.0, 0.0), (100.0, 0.0)) == "M0 0Q50.0 16.0 100 0"


def test_a_round_is_drawn_as_it_was() -> None:
    refused = (RefusedNode("device 3", "late"),)
    rounds = [fact(1, excluded=(1,)), fact(2, refused=refused, offences=(lie(2, "server 0"),)), fact(3)]
    view = network_view(snapshot(rounds), Links(), 2)
    first, second = view.servers
    assert (first.is_leader, first.is_excluded, first.is_offender) == (True, False, True)
    assert (second.is_leader, second.is_excluded, second.is_offender) == (False, True, False)
    assert [each.target for each in view.devices] == [0, -1, 1, 0]
    assert [each.home for each in view.devices] == [0, 1, 0, 1]
    assert view.devices[1].title == "device 1: trains itself, sealed the block"
    assert view.devices[3].title == "device 3: offloads to server 0, refused: late"
    assert view.seal.startswith(f"M{view.devices[1].x:g} ")
    assert view.crosses.count("M") == 1
    assert view.joints == ((*places_of_servers(2)[0], *places_of_servers(2)[1]),)
    assert len(view.arcs) == 2
    assert (view.leader, view.winner, view.previous, view.next) == (
        "S0", "device 1", "/network?round=1", "/network?round=3",
    )  # fmt: skip
    assert view.told == (
        "2 edge servers and 4 devices in round 2: 3 devices offload, server 0 leads, device 1 sealed the block, "
        "server 1 is excluded, 1 gradient refused."
    )
    assert [[each.text for each in row[:2]] for row in view.table.rows] == [
        ["server 0", "leads"],
        ["server 1", "excluded"],
    ]
    assert [each.text for each in view.table.rows[0][2].rest] == ["0", "3"]


def test_before_the_first_round_everybody_stands_there() -> None:
    view = network_view(snapshot(), Links())
    assert (view.round, len(view.servers), len(view.devices), view.previous, view.next) == (0, 2, 4, "", "")
    assert view.told == "2 edge servers and 4 devices; no round is finished yet."


def test_of_very_many_devices_the_first_are_drawn() -> None:
    known = snapshot([fact(1, None)])
    many = tuple(Participant(f"device {n}", "device", n, "", n % 2, 0) for n in range(MOST_DRAWN + 5))
    view = network_view(replace(known, participants=many), Links())
    assert (len(view.devices), view.has_labels) == (MOST_DRAWN, False)
    assert view.note == "The first 2,000 of 2,005 devices are drawn."


def test_from_the_fourth_server_on_colours_are_not_all() -> None:
    known = snapshot([fact(1)])
    view = network_view(replace(known, about=replace(known.about, edges=7)), Links())
    assert [each.is_hatched for each in view.servers] == [False] * 3 + [True] * 4
    assert [each.colour for each in view.servers] == [0, 1, 2, 3, 4, 5, 0]
