"""What goes together to a peer: small news in one request, a block and what is large alone, everything in its order."""

import pytest

from chain.peers import outbox
from chain.peers.outbox import Outbox
from chain.wire.sidecar import Sidecar


def sent(box: Outbox, requests: int) -> list[list[str]]:
    """The methods of the next requests."""
    return [[call[0] for call in box.next_calls()] for _ in range(requests)]


def test_a_block_goes_alone_and_nothing_overtakes_it() -> None:
    box = Outbox()
    for kind in ("transaction", "endorsement", "block", "block", "pass", "transaction"):
        assert box.put(kind, b"raw", ())
    assert sent(box, 5) == [
        ["bfl_sendPost", "bfl_sendEndorsement"], ["bfl_importBlock"], ["bfl_importBlock"],
        ["bfl_sendPass", "bfl_sendPost"], [],
    ]  # fmt: skip


def test_what_is_large_goes_alone_and_with_its_payloads_unless_they_are_very_large() -> None:
    box = Outbox()
    large = Sidecar(bytes(outbox._TOGETHER_BYTES))
    for beside in ((), (large,), (Sidecar(bytes(outbox._PUSHED_BYTES + 1)),)):
        box.put("transaction", b"raw", beside)
    first, second, third = (box.next_calls() for _ in range(3))
    assert first == [("bfl_sendPost", "0x" + b"raw".hex())]
    assert second == [("bfl_sendPost", "0x" + b"raw".hex(), ["0x" + large.payload.hex()])]
    assert third == first, "whoever misses it fetches it in ranges"


def test_a_request_has_so_many_news_and_a_full_box_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "_MOST", 40)
    box = Outbox()
    assert [box.put("pass", b"", ()) for _ in range(41)] == [True] * 40 + [False]
    assert [len(box.next_calls()) for _ in range(3)] == [outbox._TOGETHER, 40 - outbox._TOGETHER, 0]
