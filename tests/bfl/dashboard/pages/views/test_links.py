"""Addresses of the page."""

import pytest

from bfl.dashboard.pages.views.links import Links


def test_a_link_keeps_its_run() -> None:
    assert Links()("/round/3") == "/round/3"
    assert Links("a&b")("/blocks", page=2) == "/blocks?page=2&run=a%26b"
    assert Links()('/offence/"><') == "/offence/%22%3E%3C"


@pytest.mark.parametrize("path", ["javascript:alert(1)", "//elsewhere", "https://elsewhere", "/a?b", '/"', "", "/a b"])
def test_a_path_of_a_stranger_leads_nowhere(path: str) -> None:
    assert Links().told(path) == ""


def test_a_participant_has_a_page_and_nobody_else() -> None:
    assert Links("r").who("server 1") == "/server/1?run=r"
    assert [Links().who(name) for name in ("device x", "0xabc", "", "leader 3", "device ٣")] == [""] * 5
