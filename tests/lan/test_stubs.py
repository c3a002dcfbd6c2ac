"""Devices over plain HTTP: an order stays until it is answered, and only by whom it is for."""

import threading
from collections.abc import Iterator

import pytest
import requests
from flwr.app import ConfigRecord, Message, RecordDict

from clients.flower import identify_process, message_bytes, read_message
from tests.lan.stub_grid import StubGrid

NODE = 103


@pytest.fixture
def grid() -> Iterator[StubGrid]:
    with StubGrid("127.0.0.1", 0, [3, 5]) as opened:
        yield opened


def order(round_: int) -> Message:
    return Message(RecordDict({"order": ConfigRecord({"round": round_})}), NODE, "train")


def url(grid: StubGrid, what: str, device: int = 3) -> str:
    host, port = grid.address
    return f"http://{host}:{port}/{what}/{device}"


def fetch(grid: StubGrid) -> Message:
    return read_message(requests.post(url(grid, "orders"), timeout=20).content)


def reply_to(message: Message) -> bytes:
    identify_process(1, NODE)
    return message_bytes(Message(RecordDict({"said": ConfigRecord({"round": 1})}), reply_to=message))


def test_an_order_is_handed_out_again_until_it_is_answered(grid: StubGrid) -> None:
    (sent,) = grid.push_messages([order(1)])
    first, again = fetch(grid), fetch(grid)
    assert first.metadata.message_id == again.metadata.message_id == sent

    assert requests.post(url(grid, "replies"), data=reply_to(again), timeout=20).status_code == 204

    (answer,) = grid.pull_messages([sent])
    assert answer.metadata.reply_to_message_id == sent
    assert list(grid.pull_messages([sent])) == []


def test_a_stub_that_asks_first_gets_the_order_when_there_is_one(grid: StubGrid) -> None:
    found: list[Message] = []
    asking = threading.Thread(target=lambda: found.append(fetch(grid)))
    asking.start()
    (sent,) = grid.push_messages([order(1)])
    asking.join(20)
    assert found[0].metadata.message_id == sent


def test_a_new_order_takes_the_place_of_an_older_whose_answer_comes_too_late(grid: StubGrid) -> None:
    (old,) = grid.push_messages([order(1)])
    late = fetch(grid)
    (new,) = grid.push_messages([order(2)])

    requests.post(url(grid, "replies"), data=reply_to(late), timeout=20)

    assert list(grid.pull_messages([old, new])) == []
    assert fetch(grid).metadata.message_id == new


@pytest.mark.parametrize(
    ("what", "device", "data"),
    [
        ("orders", 4, b""),
        ("replies", 3, b"no message"),
        ("replies", 5, None),
        ("orders", -1, b""),
        ("nothing/x", 3, b""),
    ],
)
def test_what_is_none_of_its_devices_is_refused(grid: StubGrid, what: str, device: int, data: bytes | None) -> None:
    (sent,) = grid.push_messages([order(1)])
    body = reply_to(fetch(grid)) if data is None else data  # of device 3, in the name of 5

    assert requests.post(url(grid, what, device), data=body, timeout=20).status_code == 400
    assert list(grid.pull_messages([sent])) == []
