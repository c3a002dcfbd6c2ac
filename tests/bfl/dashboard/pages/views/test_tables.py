"""Tables and their pages."""

from bfl.dashboard.pages.views.links import Links
from bfl.dashboard.pages.views.tables import Cell, bar, device, hash_cell, server, several, slice_of, who


def test_a_list_is_cut_into_pages() -> None:
    assert [(each.first, each.end, each.number) for each in (slice_of(120, n) for n in (1, 3, 9, 0))] == [
        (0, 50, 1), (100, 120, 3), (100, 120, 3), (0, 50, 1),
    ]  # fmt: skip
    pager = slice_of(120, 2).pager(Links("r"), "/rounds")
    assert (pager.told, pager.previous, pager.next) == (
        "51 to 100 of 120", "/rounds?page=1&run=r", "/rounds?page=3&run=r",
    )  # fmt: skip
    assert slice_of(0, 5).pager(Links(), "/rounds").told == ""


def test_participants_have_signs_and_links() -> None:
    to = Links()
    assert who("server 4", to) == Cell("server 4", "/server/4", "server", 4)
    assert device(3, to) == Cell("device 3", "/device/3", "device")
    assert server(None, to).text == server(-1, to).text == "–"
    assert who("0x" + "a" * 40, to) == Cell("0x" + "a" * 10 + "…", title="0x" + "a" * 40)
    assert [each.text for each in several([f"device {n}" for n in range(5)], to, 3).rest] == [
        "device 0", "device 1", "device 2", "and 2 more",
    ]  # fmt: skip


def test_a_bar_has_its_share() -> None:
    assert (bar(3, 12).share, bar(0, 0).share, bar(3, 12).text) == (0.25, 0.0, "3")
    assert hash_cell("0x" + "1" * 64).title == "0x" + "1" * 64
