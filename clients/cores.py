"""Independent pieces of torch work side by side, each on its own core."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def map_on_cores(work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> list[Result]:
    """`work` on every piece, in the order of `pieces`, with as many threads altogether as torch may use.

    Pieces meet once, at the end; one piece that is split over the cores meets at every operation. The threads live for
    this call only: a process may fork between two calls.
    """
    threads = torch.get_num_threads()
    workers = min(threads, len(pieces))
    if workers < 2:
        return [work(piece) for piece in pieces]
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,)) as pool:
            return list(pool.map(work, pieces))
    finally:
        torch.set_num_threads(threads)  # a worker's number would also be that of every later thread
