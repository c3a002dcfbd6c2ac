"""Blocks and transactions, by names and with units."""

from dataclasses import replace

from bfl.dashboard.decoded import BlockDetail, EventDetail, PayloadDetail, PostDetail, Said, TransactionDetail
from bfl.dashboard.pages.views.chain import block_view, blocks_page, posts_text, said_cell, transaction_view
from bfl.dashboard.pages.views.links import Links
from tests.bfl.dashboard.pages.browsing import block, fact, snapshot

TO = Links()
HASH = "0x" + "ab" * 32


def test_posts_are_counted_in_words() -> None:
    assert (
        posts_text({"gradient": 7, "iterate": 18, "plan": 1, "close": 1, "model": 1}) == "28: 7 gradients, 18 iterates"
    )
    assert posts_text({"gradient": 1}) == "1: 1 gradient"
    assert (posts_text({}), posts_text({"register": 13})) == ("none", "13")


def test_blocks_come_newest_first() -> None:
    table = blocks_page(snapshot(blocks=[block(n) for n in range(3)]), TO, 1, 2)
    assert [each.text for each in table.rows[0]] == [
        "2", "1", "0x0000000000…", "server 0", "device 1", "16: 3 gradients, 12 iterates", "1.00 MB", "final", "2,000",
        "22:13:22",
    ]  # fmt: skip
    assert [row[0].href for row in table.rows] == ["/block/2", "/block/1"]
    waiting = blocks_page(snapshot(blocks=[block(0, is_final=False, attempt=2)]), TO, 1)
    assert [waiting.rows[0][n].text for n in (1, 5, 7)] == ["–", "16: 3 gradients, 12 iterates, attempt 2", "not yet"]


def opened(number: int, **changes: object) -> BlockDetail:
    post = PostDetail(0, HASH, "train", "begin_attempt", "device 1", "/device/1", "samples 600", 369, False)
    made = replace(block(number), **changes)  # type: ignore[arg-type]
    return BlockDetail(made, HASH, (Said("hash", HASH), Said("time (UTC)", "now")), (post,), 1, ("server 0",))


def test_a_block_says_what_it_is_and_whether_it_is_final() -> None:
    known = snapshot([fact(1)], [block(n) for n in range(3)])
    view = block_view(opened(2), known, TO, 1)
    assert (view.title, view.tone, view.round_href) == ("Block 2: round 1", "good", "/round/1")
    assert view.finality == "final: 2 of 2 servers signed it, and no honest one leaves it"
    assert (view.previous, view.next, view.model) == ("/block/1", "", "/api/v1/models/1")
    assert [each.text for each in view.posts.rows[0]] == [
        "0", "train", "begin attempt", "device 1", "samples 600 (the registry did not take it)", "369 B",
        "0xababababab…",
    ]  # fmt: skip
    assert view.size == "1.5 KB, and 998.5 KB of payloads that it names"
    early = block_view(opened(0, is_final=False, endorsements=1), known, TO, 1)
    assert early.title == "Block 0: genesis, the rules of this network"
    assert early.finality == "not final yet: 1 of 2 servers signed it, more than half are needed"
    assert "founding" in block_view(opened(1), known, TO, 1).title


def test_a_transaction_says_who_what_and_what_came_of_it() -> None:
    detail = TransactionDetail(
        HASH, 3, HASH, 4, 2, "train", "gradient", "device 1", "/device/1", True, 369,
        (Said("samples", "600"), Said("model", HASH)), (EventDetail("Posted", (Said("round", "2", "/round/2"),)),),
        (PayloadDetail(HASH, 43_700, False),),
    )  # fmt: skip
    view = transaction_view(detail, TO)
    facts = dict(view.facts)
    assert view.title == "gradient of device 1"
    assert (facts["sent by"].href, facts["round"].href, facts["block"].href) == ("/device/1", "/round/2", "/block/3")
    assert facts["result"].text == "accepted by the registry"
    assert dict(view.said)["samples"].text == "600"
    assert view.events[0][1][0][1].href == "/round/2"
    assert [each.text for each in view.payloads.rows[0]] == ["0xababababab…", "43.7 KB", "no: pruned, or not fetched"]
    refused = transaction_view(replace(detail, is_accepted=False, round=None), TO)
    assert dict(refused.facts)["result"].tone == "warn"
    assert "round" not in dict(refused.facts)


def test_a_long_value_in_hexadecimal_is_cut_and_a_hash_is_not() -> None:
    assert said_cell(Said("hash", HASH), TO).text == HASH
    assert said_cell(Said("data", "0x" + "1" * 200), TO).text == "0x1111111111…"
    assert said_cell(Said("about", "x", "javascript:1"), TO).href == ""
