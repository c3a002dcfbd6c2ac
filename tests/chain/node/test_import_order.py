"""docs/chain.md says in which order a block is checked: of two faults the one that stands first there is named."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chain.errors import ChainError, DifficultyError, InvalidSealError, UnknownParentError
from chain.node.node import Node
from chain.wire.blocks import encode_block
from chain.wire.seal import find_nonce
from tests.chain.network import Clock
from tests.chain.small_chain import story

DOCUMENT = Path(__file__).parents[3] / "docs" / "chain.md"
PARENT: dict[str, Any] = {"parent_hash": b"\7" * 32}
NUMBER: dict[str, Any] = {"block_number": 9}
DIFFICULTY: dict[str, Any] = {"difficulty": 3}


def documented_order() -> list[str]:
    found = re.search(r"in this order: (.*?), and `check_round`", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return re.split(r",\s+", " ".join(found[1].split()))


@pytest.mark.parametrize(
    ("first", "then", "changes", "is_sealed", "error", "message"),
    [
        ("seal", "known parent", PARENT, False, InvalidSealError, "expected at most"),
        ("known parent", "block number", PARENT | NUMBER, True, UnknownParentError, "is unknown"),
        ("seal", "block number", NUMBER, False, InvalidSealError, "expected at most"),
        ("block number", "difficulty", NUMBER | DIFFICULTY, True, UnknownParentError, "names parent"),
        ("difficulty", "time", DIFFICULTY | {"timestamp": 1}, True, DifficultyError, "has difficulty 3"),
    ],
)
def test_a_block_is_checked_in_the_order_of_the_document(
    first: str, then: str, changes: dict[str, Any], is_sealed: bool, error: type[ChainError], message: str
) -> None:
    order = documented_order()
    assert order.index(first) < order.index(then)
    block = story().blocks[1]
    header = replace(block.header, **changes)
    if is_sealed:
        header = header.with_nonce(find_nonce(header.mining_hash, header.difficulty) or b"")
    else:
        header = replace(header, difficulty=2**255)
    node = Node.in_memory(story().genesis, now=Clock())
    with pytest.raises(error, match=message):
        node.import_block(encode_block(header, block.transactions))
    node.close()
