"""Every word that the page explains is one that something says."""

from typing import get_args

from bfl.dashboard.facts import TERMS, Status
from bfl.dashboard.pages.views import words
from chain.protocol.slots import Slot


def test_every_status_term_and_slot_has_its_words() -> None:
    assert set(words.STATUS) == set(get_args(Status))
    assert set(words.TERMS) == set(words.TERM_NAMES) == {*TERMS, "T", "T_wall"}
    known = {slot.name.lower() for slot in Slot} - {"endorse"}
    assert known == set(words.OFFENCES)


def test_what_this_page_does_not_know_is_shown_by_its_name() -> None:
    assert words.offence_name("iterate") == "wrong iterate"
    assert words.offence_name("odd_thing") == "odd thing"
    assert words.offence_meaning("odd_thing")
    assert (words.reason_meaning("late") != "", words.reason_meaning("odd")) == (True, "")
