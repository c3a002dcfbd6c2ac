"""Seeds as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfl.errors import ConfigError
from bfl.sweeps.seeds import read_seeds, seeds_text


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("0-4", (0, 1, 2, 3, 4)), ("0,3,7", (0, 3, 7)), ("0-1, 7", (0, 1, 7)), ("5", (5,)), ("1,1,0-1", (1, 0))],
)
def test_ranges_and_lists(text: str, seeds: tuple[int, ...]) -> None:
    assert read_seeds(text, "--seeds") == seeds


def test_a_list_or_a_number_of_a_file() -> None:
    assert read_seeds([3, 1], "seeds") == (3, 1)
    assert read_seeds(4, "seeds") == (4,)


@pytest.mark.parametrize("bad", ["", "a", "3-1", "-1", "0-", "0--4", "1.5", "0-1000", [True], [-1], [], 1.5, None, -1])
def test_what_is_no_seeds_is_told_with_what_was_found(bad: object) -> None:
    with pytest.raises(ConfigError, match=r"--seeds: found .*expected"):
        read_seeds(bad, "--seeds")


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20, unique=True))
def test_the_text_of_seeds_reads_back(seeds: list[int]) -> None:
    assert read_seeds(seeds_text(tuple(seeds)), "seeds") == tuple(seeds)
