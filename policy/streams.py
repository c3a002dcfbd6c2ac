"""Counter-based random streams: every draw is a function of (seed, purpose, round, who)."""

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What a stream is for. Two purposes never share numbers, so adding one leaves the others as they were."""

    MODEL = 1
    PARTITION = 2
    BATCHES = 3
    SUBSET = 4
    DATA_SIZE = 5
    PLAN = 6
    WINNER = 7
    SYNTHETIC = 8
    DROPOUT = 9
    POSITION = 10
    WORK = 11
    SERVER_WORK = 12
    FADING = 13
    CPU = 14
    HASH_RATE = 15
    VALIDATION = 16
    ATTACK = 17
    SPLIT = 23
    ABSENCE = 40
    SPEED = 41


def stream(seed: int, purpose: Purpose, round_: int = 0, who: int = 0) -> np.random.Generator:
    """The generator of one draw (L4, P23).

    Philox is counter-based: any round of any node can be drawn alone and in any order, which is what lets an auditor
    or a resumed run recompute one round without the rounds before it.
    """
    return np.random.Generator(np.random.Philox(key=[seed, int(purpose)], counter=[0, 0, round_, who]))
