"""Makes exact_arithmetic.json: one round by P8-P10 in plain Python, with no numpy and none of our code.

python -m tests.vectors.make_exact_arithmetic
"""

import json
import random
import struct
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("exact_arithmetic.json")
EDGES = [(0, 1), (1, 2)]
WEIGHT = 2048  # d = 1/2, the optimal weight of a line of three
PHI = 3
LEARNING_RATE = 0.1
NODES = [  # (address, server, samples, iterations)
    ("0x30", 0, 600, 10),
    ("0x10", 0, 1234, 10),
    ("0x20", 1, 77, 3),
    ("0x05", 2, 2551, 10),
    ("0x40", 2, 638, 7),
]
SIZE = 8


def float32(value: float) -> float:
    """The nearest float32, as a float64."""
    result: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return result


def round_half_away(numerator: int, bits: int) -> int:
    """numerator / 2^bits, halves away from zero."""
    sign = -1 if numerator < 0 else 1
    return sign * ((abs(numerator) * 2 + (1 << bits)) >> (bits + 1))


def make() -> dict[str, Any]:
    """Inputs and every intermediate result of one round."""
    rng = random.Random(20261116)
    gradients = {address: [float32(rng.gauss(0, 3)) for _ in range(SIZE)] for address, *_ in NODES}
    gradients["0x30"][0] = 50.0
    model = [float32(rng.uniform(-0.3, 0.3)) for _ in range(SIZE)]
    total = sum(samples for _, _, samples, _ in NODES)
    aggregates = []
    for server in range(3):
        x = [0.0] * SIZE
        for address, home, samples, iterations in sorted(NODES):
            if home == server:
                coefficient = samples / (total * iterations)
                x = [a + coefficient * b for a, b in zip(x, gradients[address], strict=True)]
        aggregates.append(x)
    steps = [[[round(value * 2**24) for value in x] for x in aggregates]]  # Python rounds halves to even
    for _ in range(PHI):
        old = steps[-1]
        new = [list(x) for x in old]
        for i, j in EDGES:
            for v in range(SIZE):
                f = round_half_away(WEIGHT * (old[i][v] - old[j][v]), 12)
                new[i][v] -= f
                new[j][v] += f
        steps.append(new)
    b = sum(samples * iterations for _, _, samples, iterations in NODES) / total
    models = [
        [float32(w - LEARNING_RATE * b * 3 * x / 2.0**24) for w, x in zip(model, final, strict=True)]
        for final in steps[-1]
    ]
    return {
        "edges": EDGES, "weight": WEIGHT, "phi": PHI, "learning-rate": LEARNING_RATE, "nodes": NODES,
        "gradients": gradients, "model": model, "total": total, "aggregates": aggregates, "iterates": steps,
        "boost": b, "next-models": models,
    }  # fmt: skip


if __name__ == "__main__":
    PATH.write_text(json.dumps(make(), indent=1) + "\n")
