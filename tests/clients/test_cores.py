"""Pieces of work on all cores: the order, the number of threads, and what goes wrong in one of them."""

import threading
from collections.abc import Iterator

import pytest
import torch

from clients.cores import map_on_cores


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_results_come_in_the_order_of_the_pieces() -> None:
    first_waits = threading.Event()

    def work(piece: int) -> int:
        if piece == 0:
            assert first_waits.wait(10)
        first_waits.set()
        return piece * 10

    assert map_on_cores(work, [0, 1, 2, 3, 4, 5]) == [0, 10, 20, 30, 40, 50]


def test_all_pieces_together_have_the_threads_that_torch_may_use(subtests: pytest.Subtests) -> None:
    cases: list[tuple[int, list[int]]] = [(0, []), (1, [4]), (2, [2, 2]), (3, [1, 1, 1]), (9, [1] * 9)]
    for pieces, each in cases:
        with subtests.test(pieces=pieces, each=each):
            assert map_on_cores(lambda _: torch.get_num_threads(), range(pieces)) == each


def test_the_number_of_threads_is_as_before_here_and_in_later_threads() -> None:
    map_on_cores(lambda _: None, range(3))
    later: list[int] = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert [torch.get_num_threads(), *later] == [4, 4]


def test_the_trouble_of_one_piece_is_everybodys() -> None:
    def work(piece: int) -> int:
        return 1 // piece

    with pytest.raises(ZeroDivisionError):
        map_on_cores(work, [1, 0, 2])
    assert torch.get_num_threads() == 4
