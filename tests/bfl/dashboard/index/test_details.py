"""What is read when somebody opens it: blocks, posts, evidence, models, of a run that was really made."""

import io
import shutil
import sqlite3
from pathlib import Path

import pytest
import torch

from bfl.dashboard.errors import DashboardError, NotFoundError
from bfl.dashboard.index.dashboard import Dashboard
from tests.bfl.dashboard.made import attacked_run, opened


@pytest.fixture(scope="module")
def shown() -> Dashboard:
    """A run in whose second round server 1 lies."""
    return opened(attacked_run())


def test_a_block_is_told_by_names_with_links(shown: Dashboard) -> None:
    opened_block = shown.details.block("3")
    assert opened_block.fact.hash == shown.snapshot.blocks[3].hash
    assert shown.details.block(opened_block.fact.hash) == opened_block
    said = {each.name: each for each in opened_block.rows}
    assert said["leader"].value.startswith(f"{opened_block.fact.leader} 0x")
    assert said["leader"].link == f"/server/{opened_block.fact.leader.removeprefix('server ')}"
    assert (said["parent"].link, said["difficulty"].value) == ("/block/2", "1 hash on average")
    assert opened_block.post_count == len(opened_block.posts) == sum(opened_block.fact.posts.values())
    assert {each.phase for each in opened_block.posts} >= {"plan", "train", "close", "gossip", "verify", "model"}
    flag = next(each for each in opened_block.posts if each.what == "flag")
    assert "offender server 1" in flag.says
    assert "about iterate 1" in flag.says
    assert flag.sender_link in ("/server/0", "/server/2")
    assert set(opened_block.signers) <= {"server 0", "server 1", "server 2"}


def test_genesis_has_neither_leader_nor_parent_to_go_to(shown: Dashboard) -> None:
    said = {each.name: each for each in shown.details.block("0").rows}
    assert (said["leader"].value, said["parent"].link) == ("-", "")


def test_a_transaction_is_told_with_units_events_and_payloads(shown: Dashboard) -> None:
    posts = shown.details.block("3").posts
    gradient = next(each for each in posts if each.what == "gradient")
    found = shown.details.transaction(gradient.hash)
    said = {each.name: each for each in found.said}
    assert (found.block, found.round, found.phase, found.is_accepted) == (3, 2, "train", True)
    assert said["round"].link == "/round/2"
    assert said["payload size"].value.endswith("B")
    assert found.events[0].name == "GradientPosted"
    assert found.payloads[0].is_here
    assert (found.sender, found.sender_link) == (gradient.sender, gradient.sender_link)
    flag = shown.details.transaction(next(each for each in posts if each.what == "flag").hash)
    told = {each.name: each.value for each in flag.said}
    assert told["about"] == "iterate 1"
    assert told["offender"].startswith("server 1 0x")


@pytest.mark.parametrize(
    "which", ["6", "-1", "1e3", "", "0x12", "0x" + "0" * 64, "٣", "9" * 50, "../../etc/passwd", "<script>", "3 "]
)
def test_a_block_that_is_none_is_not_found(shown: Dashboard, which: str) -> None:
    with pytest.raises(NotFoundError, match="found block"):
        shown.details.block(which)


@pytest.mark.parametrize("which", ["", "0x", "0x" + "0" * 64, "0x" + "g" * 64, "1" * 64, "0x" + "1" * 63])
def test_a_transaction_that_is_none_is_not_found(shown: Dashboard, which: str) -> None:
    with pytest.raises(NotFoundError):
        shown.details.transaction(which)


def test_evidence_has_both_digests_the_flags_and_what_followed(shown: Dashboard) -> None:
    offence = shown.snapshot.offences[0]
    found = shown.details.evidence(offence.id)
    assert (found.source, found.block, found.verdict) == ("chain", 3, "")
    assert set(found.flagged_by) <= {"server 0", "server 2"}
    assert len(found.flagged_by) == len(found.flags) == 2
    assert found.posted != found.expected
    assert {each.expected for each in found.flags} == {found.expected}
    assert (found.excluded_from, found.excluded_through) == (3, 12)
    assert shown.details.transaction(found.transaction).what == "iterate"
    for flag in found.flags:
        assert shown.details.transaction(flag.transaction).sender == flag.server
    assert [each.name for each in found.steps][-2:] == ["sealed", "excluded"]


@pytest.mark.parametrize("which", ["", "2", "2-server-1", "9-server-1-1", "2-server-1-1-2", "x", "-1-server-1-1"])
def test_an_offence_that_is_none_is_not_found(shown: Dashboard, which: str) -> None:
    with pytest.raises(NotFoundError, match="found offence"):
        shown.details.evidence(which)


def test_a_model_is_the_one_on_the_chain(shown: Dashboard) -> None:
    content = torch.load(io.BytesIO(shown.details.model_file(4)), weights_only=True)
    saved = torch.load(attacked_run() / "model.pt", weights_only=True)
    assert content["block"] == shown.snapshot.blocks[5].hash
    assert all(torch.equal(content["state_dict"][name], saved[name]) for name in content["state_dict"])


@pytest.mark.parametrize("round_", [-1, 5, 10**9])
def test_a_model_that_is_none_is_not_found(shown: Dashboard, round_: int) -> None:
    with pytest.raises(NotFoundError, match="expected 0 to 4"):
        shown.details.model_file(round_)


def test_a_pruned_model_says_so(shown: Dashboard, tmp_path: Path) -> None:
    shutil.copytree(attacked_run(), tmp_path / "pruned")
    with sqlite3.connect(tmp_path / "pruned" / "chain.db") as database:
        database.execute("DELETE FROM part")
    with pytest.raises(NotFoundError, match="model 3 was pruned here"):
        opened(tmp_path / "pruned").details.model_file(3)


def test_a_block_of_a_damaged_file_is_told(tmp_path: Path) -> None:
    shutil.copytree(attacked_run(), tmp_path / "damaged")
    dashboard = opened(tmp_path / "damaged")
    with sqlite3.connect(tmp_path / "damaged" / "chain.db") as database:
        database.execute("UPDATE block SET body = X'c0ffee' WHERE number = 3")
    with pytest.raises(DashboardError, match="the chain cannot be read"):
        dashboard.details.block("3")


def test_blocks_that_are_replaced_are_noticed(tmp_path: Path) -> None:
    shutil.copytree(attacked_run(), tmp_path / "run")
    dashboard = opened(tmp_path / "run")
    with sqlite3.connect(tmp_path / "run" / "chain.db") as database:
        database.execute("UPDATE meta SET value = (SELECT hash FROM block WHERE number = 4) WHERE name = 'head'")
        database.execute("UPDATE block SET canonical = 0 WHERE number = 5")
    dashboard.tailer.look()
    assert (len(dashboard.snapshot.blocks), dashboard.snapshot.reorganised) == (5, 1)


# --- search


@pytest.mark.parametrize(
    ("asked", "urls"),
    [
        ("3", ["/round/3", "/block/3", "/device/3"]),
        ("block 3", ["/block/3"]),
        ("Round#2", ["/round/2"]),
        ("server 1", ["/server/1"]),
        ("device 99", []),
        ("2-server-1-1", ["/offence/2-server-1-1"]),
        ("part", ["/participants"]),
        ("", []),
        ("<script>alert(1)</script>", []),
        ("'; DROP TABLE block; --", []),
        ("9" * 5000, []),
    ],
)
def test_search_finds_places(shown: Dashboard, asked: str, urls: list[str]) -> None:
    assert [each.url for each in shown.search(asked)] == urls


def test_search_finds_hashes_and_addresses_by_their_beginning(shown: Dashboard) -> None:
    block, someone = shown.snapshot.blocks[4], shown.snapshot.participants[3]
    assert shown.search(block.hash[:14])[0].url == "/block/4"
    assert shown.search(block.hash[2:14].upper())[0].url == "/block/4"
    assert shown.search(someone.address)[0].url == f"/{someone.role}/{someone.index}"
    post = shown.details.block("3").posts[0]
    assert shown.search(post.hash)[0].url == f"/tx/{post.hash}"
