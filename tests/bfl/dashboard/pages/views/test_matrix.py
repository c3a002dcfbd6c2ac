"""Who offloads where, without a script."""

from dataclasses import replace

from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.matrix import MOST_DEVICES, MOST_ROUNDS, matrix_view
from tests.bfl.dashboard.pages.browsing import fact, snapshot


def test_cells_of_one_colour_are_one_path() -> None:
    view = matrix_view(snapshot([fact(1), fact(2, [1, 1, 1, 1])]), Links())
    assert {each.name: (each.colour, each.path.count("M")) for each in view.tiles} == {
        "itself": (-1, 1), "server 0": (0, 2), "server 1": (1, 5),
    }  # fmt: skip
    assert view.tiles[0].path == "M62 11h14v9h-14z"
    assert view.winners.count("M") == 2
    assert (view.part, len(view.rows)) == ("", 4)
    assert [label for label, _, _ in view.legend] == ["server 0", "server 1"]


def test_the_table_says_the_same() -> None:
    table = matrix_view(snapshot([fact(1), fact(2, None)]), Links()).table
    assert [[each.text for each in row] for row in table.rows] == [
        ["device 0", "0", "?"], ["device 1", "· ◆", "?"], ["device 2", "1", "?"], ["device 3", "0", "?"],
    ]  # fmt: skip


def test_what_is_drawn_without_a_script_is_bounded() -> None:
    known = snapshot([fact(k, [0] * 500) for k in range(1, 201)])
    view = matrix_view(replace(known, about=replace(known.about, devices=500)), Links())
    assert sum(each.path.count("M") for each in view.tiles) == MOST_ROUNDS * MOST_DEVICES
    assert view.part == "the last 60 rounds of the first 24 devices"
    assert (view.devices, view.rounds) == (500, 200)
    assert [label for _, label in view.columns] == ["150", "160", "170", "180", "190", "200"]


def test_other_servers_are_hatched() -> None:
    view = matrix_view(snapshot([fact(1, [3, 3, 2, 4])]), Links())
    assert {each.name: each.is_hatched for each in view.tiles} == {
        "server 2": False,
        "server 3": True,
        "server 4": True,
    }
