"""`audit check --round K`: the model of one round from the one before it, and in one line what was left out."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from bfl.auditing.findings import audit_rounds
from bfl.auditing.one_round import audit_round
from bfl.errors import BflError
from chain.errors import InspectionError
from chain.node.node import Node
from chain.rpc.server import RpcServer, ServerParams
from chain.wire.blocks import Block
from chain.wire.headers import Header
from chain.wire.receipts import Receipt
from edge_servers.replay.audit import AuditError, PrunedModelError
from tests.bfl.conftest import Command
from tests.chain.network import Clock
from tests.chain.small_chain import StoredChain, forged
from tests.edge_servers.audited_chain import LIES, Chain, chain, rewritten, with_other_model
from tests.edge_servers.forged_receipts import written_with_state


class Counted(StoredChain):
    """Notes what is read of a chain."""

    def __init__(self, of: Chain) -> None:
        super().__init__(of.blocks, of.genesis, payloads=of.payloads)
        self.whole: list[int] = []
        self.payloads: set[bytes] = set()

    def block(self, number: int) -> Block:
        self.whole.append(number)
        return super().block(number)

    def header(self, number: int) -> Header:
        return StoredChain.block(self, number).header

    def receipts(self, header: Header) -> tuple[Receipt, ...]:
        return StoredChain.block(self, header.block_number).receipts

    def payload(self, digest: bytes) -> bytes | None:
        self.payloads.add(digest)
        return super().payload(digest)


def rows(shown: str) -> dict[str, str]:
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if line.startswith("│")]
    return {name: value for name, value, *_ in cells if name}


def digests(of: Chain, number: int, kind: str) -> set[bytes]:
    posts = of.posts(number)
    return {each.digest for post in posts if post.call and post.call.name == kind for each in post.commitments}


@pytest.mark.parametrize("round_", [1, 2, 3])
@pytest.mark.parametrize("attack", ["", LIES])
def test_a_round_by_itself_is_what_it_is_in_the_whole_chain(round_: int, attack: str) -> None:
    found = audit_round(chain(attack).archive, round_)
    assert found.round == audit_rounds(chain(attack).archive, execute=False).rounds[round_ - 1]
    assert (found.head, found.simulated) == (chain(attack).blocks[-1].header, "simulated keys and clock")


def test_only_the_founding_the_block_before_and_its_own_are_read_whole() -> None:
    archive = Counted(chain())
    audit_round(archive, 3)
    assert archive.whole == [0, 1, 3, 4]
    assert not archive.payloads & digests(chain(), 2, "gradient")
    archive = Counted(chain())
    audit_round(archive, 1)
    assert archive.whole == [0, 1, 2]


def test_it_is_executed_on_the_state_in_the_file(command: Command, tmp_path: Path) -> None:
    run = written_with_state(chain(), tmp_path)
    told = {}
    for round_ in (1, 2, 3):
        answer = command("audit", "check", str(run), "--round", str(round_))
        assert (answer.code, answer.err) == (0, "")
        told[round_] = rows(answer.out)
    assert [told[k]["verdict"] for k in told] == ["fits"] * 3
    assert told[1]["not looked at"] == "executed: block 2 alone; after block 2 headers only"
    assert told[3]["not looked at"] == (
        "model 2 is taken as sealed; rounds 1 to 2 not derived, receipts believed; executed: block 4 alone"
    )
    assert told[3]["checked"].endswith("receipts, state root, plan, model")
    assert told[3]["led by"] == chain().leader
    answer = command("audit", "check", str(run), "--round", "3", "--no-execute")
    assert answer.code == 0
    assert rows(answer.out)["not looked at"].endswith("not executed: --no-execute")


def test_over_rpc_it_is_not_executed_and_says_so(command: Command, tmp_path: Path) -> None:
    rewritten(chain(), {}, tmp_path / "chain.db")
    node = Node.open(tmp_path / "chain.db", now=Clock())
    with RpcServer(node, ServerParams(port=0)) as url:
        answer = command("audit", "check", "--rpc", url, "--round", "2")
        wanted = command("audit", "check", "--rpc", url, "--round", "2", "--execute")
    node.close()
    assert answer.code == 0
    assert "round 1 not derived, receipts believed; not executed: the state is in a node's database" in answer.out
    assert wanted.code == 2
    assert wanted.err.startswith("error: block 3 cannot be executed: the state is in a node's database")


def test_a_file_without_states_is_not_executed_and_says_so(command: Command, tmp_path: Path) -> None:
    answer = command("audit", "check", str(chain().written(tmp_path)), "--round", "3")
    assert answer.code == 0
    assert rows(answer.out)["not looked at"].endswith("not executed: the file has no state after block 3")


def test_a_state_node_that_somebody_replaced_is_named(command: Command, tmp_path: Path) -> None:
    run = written_with_state(chain(), tmp_path)
    root = chain().blocks[3].header.state_root
    connection = sqlite3.connect(run / "chain.db")
    with connection:
        connection.execute("UPDATE node SET value = (SELECT value FROM node WHERE key != ?1) WHERE key = ?1", (root,))
    connection.close()
    answer = command("audit", "check", str(run), "--round", "3")
    assert answer.code == 1
    assert answer.out.startswith(
        f"does not fit: block 4, executed here: the state has another node than 0x{root.hex()}"
    )
    assert command("audit", "check", str(run)).code == 0, "a whole audit reads no state of a file"


def test_a_model_that_does_not_follow_is_named() -> None:
    forged_chain = with_other_model(chain())
    with pytest.raises(AuditError, match=f"^block 4, built by {chain().leader}: round 3: the model of"):
        audit_round(forged_chain.archive, 3)


def test_what_happened_before_it_is_not_looked_at() -> None:
    """A gradient of round 1 that somebody has replaced: the whole audit names it."""
    digest = min(digests(chain(), 2, "gradient"))
    other = replace(chain(), payloads={**chain().payloads, digest: b"another"})
    audit_round(other.archive, 3)
    with pytest.raises(InspectionError, match=f"^block 2: the payload 0x{digest.hex()} has another digest"):
        audit_rounds(other.archive)


@pytest.mark.parametrize("number", [2, 4])
def test_headers_before_and_after_it_link_to_the_head(number: int) -> None:
    """Block 2 is before round 2's own (3), block 4 after it."""
    blocks = list(chain().blocks)
    blocks[number] = forged(blocks[number], timestamp=blocks[number].header.timestamp + 1)
    with pytest.raises(InspectionError):
        audit_round(StoredChain(blocks, chain().genesis, chain().blocks[-1].header, chain().payloads), 2)


def test_receipts_of_blocks_between_must_be_those_of_their_headers() -> None:
    blocks = list(chain().blocks)
    blocks[2] = replace(blocks[2], receipts=blocks[3].receipts)
    with pytest.raises(InspectionError, match=r"^block 2: its receipts are not those the header commits to$"):
        audit_round(StoredChain(blocks, chain().genesis, payloads=chain().payloads), 3)


# --- pruned


def without(number: int, *kinds: str) -> Chain:
    gone = set().union(*(digests(chain(), number, kind) for kind in kinds))
    return replace(chain(), payloads={key: value for key, value in chain().payloads.items() if key not in gone})


def test_a_pruned_round_cannot_be_derived() -> None:
    with pytest.raises(BflError, match=r"^round 2 is pruned: of it digests and signatures were checked, no more$"):
        audit_round(without(3, "gradient").archive, 2)


def test_a_round_after_a_pruned_one_stands_on_its_model() -> None:
    assert audit_round(without(3, "gradient").archive, 3).round.round == 3
    with pytest.raises(PrunedModelError, match="the model before it was pruned"):
        audit_round(without(3, "gradient", "model").archive, 3)


def test_what_is_pruned_gives_exit_code_2(command: Command, tmp_path: Path) -> None:
    run = without(3, "gradient", "model").written(tmp_path)
    for round_ in ([], ["--round", "2"], ["--round", "3"]):
        answer = command("audit", "check", str(run), *round_)
        assert answer.code == 2, round_
        assert "does not fit" not in answer.out
