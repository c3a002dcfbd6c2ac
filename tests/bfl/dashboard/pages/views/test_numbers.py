"""Numbers as people read them."""

from bfl.dashboard.pages.views import numbers


def test_numbers_have_as_many_digits_as_matter() -> None:
    assert [numbers.seconds(each) for each in (None, 0.0441, 1.256, 12.3, 1234.5)] == [
        "–",
        "0.044",
        "1.26",
        "12.30",
        "1,234",
    ]
    assert numbers.seconds_text(2) == "2.00 s"
    assert numbers.percent(0.84838) == "84.84"
    assert [numbers.figure(each) for each in (None, 0.0, 0.4094, 1e-6, 2.5e9)] == [
        "–",
        "0.000",
        "0.409",
        "1e-06",
        "2.5e+09",
    ]
    assert numbers.size(1_980_000) == ("1.98", "MB")
    assert numbers.size(None) == ("–", "")
    assert numbers.whole(12345) == "12,345"
    assert (numbers.count(1, "round"), numbers.count(0, "round"), numbers.count(2, "box", "boxes")) == (
        "1 round", "0 rounds", "2 boxes",
    )  # fmt: skip


def test_times_are_utc_and_impossible_ones_are_shown_as_they_are() -> None:
    assert numbers.clock(1_700_000_000) == "22:13:20"
    assert numbers.moment(1_700_000_000) == "2023-11-14 22:13:20 UTC"
    assert numbers.clock(10**18) == "1000000000000000000"


def test_a_hash_is_cut() -> None:
    assert numbers.short_hash("0x" + "ab" * 32) == "0xababababab…"
    assert numbers.short_hash("0x12") == "0x12"
