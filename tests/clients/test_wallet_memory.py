"""What a device remembers: one order per round, a few answers, one signature, over restarts too (Q5)."""

import multiprocessing
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from chain.wire.documents import canonical_json
from clients import wallet_memory
from clients.errors import OrderError, WalletError
from clients.wallet_memory import Remembered, WalletMemory

FRESH = Remembered("11" * 32, "0x" + "22" * 20, "11" * 32)
A, B = "aa" * 32, "bb" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "device.json"


# --- what it allows ---------------------------------------------------------------------------------------------------


def test_an_order_is_answered_so_often_and_no_more() -> None:
    known = FRESH
    for count in (1, 2, 3):
        known = known.answering(4, A, 3)
        assert (known.answered_round, known.order, known.answers) == (4, A, count)
    with pytest.raises(OrderError, match="has answered it 3 times, at most 3 are allowed"):
        known.answering(4, A, 3)


def test_another_order_of_the_same_round_is_refused() -> None:
    with pytest.raises(OrderError, match="has answered another order of round 4 already"):
        FRESH.answering(4, A, 3).answering(4, B, 3)


def test_the_next_round_is_new_and_an_earlier_one_is_over() -> None:
    known = FRESH.answering(4, A, 1).answering(5, B, 1)
    assert (known.answered_round, known.answers) == (5, 1)
    with pytest.raises(OrderError, match="found round 4, this device has answered in round 5"):
        known.answering(4, A, 1)


def test_a_round_has_one_signature() -> None:
    known = FRESH.signing(4, A)
    assert known.signing(4, A) == known
    assert known.signing(5, B).signed == B
    for round_, signed in ((4, B), (3, A)):
        with pytest.raises(OrderError, match="has signed another gradient for round 4 already"):
            known.signing(round_, signed)


def test_who_is_known_to_have_joined_is_not_forgotten_over_a_restart(path: Path) -> None:
    one, two = "33" * 20, "44" * 20
    WalletMemory(FRESH, path).change(lambda known: known.knowing(3, A, [two]))
    WalletMemory(FRESH, path).change(lambda known: known.knowing(4, B, [one]))
    assert WalletMemory(FRESH, path).now.joined == (one, two)
    assert FRESH.knowing(4, A, [one]).knowing(3, B, [two]).joined == (one,)


def test_proven_blocks_go_forward_only() -> None:
    known = FRESH.knowing(3, A)
    assert (known.proven_round, known.proven_hash) == (3, A)
    assert known.knowing(2, B) == known
    assert known.knowing(4, B).proven_hash == B


# --- in a file --------------------------------------------------------------------------------------------------------


def answered(known: Remembered) -> Remembered:
    return known.answering(4, A, 3)


def test_without_a_file_it_is_kept_as_long_as_the_process() -> None:
    memory = WalletMemory(FRESH)
    memory.change(answered)
    assert memory.now.answers == 1


def test_a_file_outlives_the_process_and_is_its_owners_alone(path: Path) -> None:
    WalletMemory(FRESH, path).change(answered)
    again = WalletMemory(FRESH, path)
    assert again.now == FRESH.answering(4, A, 3)
    assert path.stat().st_mode & 0o777 == 0o600
    again.change(answered)
    assert WalletMemory(FRESH, path).now.answers == 2


def test_what_is_refused_is_not_written(path: Path) -> None:
    memory = WalletMemory(FRESH, path)
    memory.change(answered)
    before = path.read_bytes()
    with pytest.raises(OrderError):
        memory.change(lambda known: known.answering(4, B, 3))
    assert (path.read_bytes(), memory.now.answers) == (before, 1)


def test_what_cannot_be_written_is_not_answered(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = WalletMemory(FRESH, path)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WalletError, match="cannot be written: No space left on device"):
        memory.change(answered)
    assert not path.exists()
    assert memory.now == FRESH


def test_what_a_killed_process_left_beside_is_in_nobodys_way(path: Path) -> None:
    part = path.with_name("device.json.part")
    part.write_bytes(b"half")
    part.chmod(0o644)
    WalletMemory(FRESH, path).change(answered)
    assert not part.exists()
    assert path.stat().st_mode & 0o777 == 0o600


def test_two_processes_of_a_device_do_not_forget_each_others_answers(path: Path) -> None:
    first, second = WalletMemory(FRESH, path), WalletMemory(FRESH, path)
    first.change(answered)
    second.change(answered)
    assert WalletMemory(FRESH, path).now.answers == 2
    with pytest.raises(OrderError, match="another order"):
        second.change(lambda known: known.answering(4, B, 3))


def _answer_often(path: Path) -> None:
    memory = WalletMemory(FRESH, path)
    for _ in range(10):
        memory.change(lambda known: known.answering(4, A, 1_000))


def test_processes_at_the_same_time_count_every_answer(path: Path) -> None:
    processes = [multiprocessing.get_context("spawn").Process(target=_answer_often, args=(path,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert WalletMemory(FRESH, path).now.answers == 20


def test_a_file_that_is_gone_is_written_again_from_what_the_process_knows(path: Path) -> None:
    memory = WalletMemory(FRESH, path)
    memory.change(answered)
    path.unlink()
    memory.change(answered)
    assert WalletMemory(FRESH, path).now.answers == 2


def test_a_memory_in_use_is_waited_for_and_then_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wallet_memory, "_LONGEST_WAIT_S", 0.01)
    memory = WalletMemory(FRESH, path)

    def meanwhile(known: Remembered) -> Remembered:
        with pytest.raises(WalletError, match="is in use by another process of this device"):
            WalletMemory(FRESH, path)
        return known

    memory.change(meanwhile)


@pytest.mark.parametrize("change", [{"network": "33" * 32}, {"device": "0x" + "44" * 20}], ids=str)
def test_the_memory_of_another_device_or_network_is_refused(path: Path, change: dict[str, Any]) -> None:
    WalletMemory(FRESH, path).change(answered)
    with pytest.raises(WalletError, match="another network"):
        WalletMemory(replace(FRESH, **change), path)


def test_a_memory_that_others_can_open_is_refused(path: Path) -> None:
    WalletMemory(FRESH, path).change(answered)
    path.chmod(0o640)
    with pytest.raises(WalletError, match=r"open to others \(mode 640\); run: chmod 600"):
        WalletMemory(FRESH, path)


def test_a_folder_that_is_not_there_is_named_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(WalletError, match="cannot be kept: there is no folder"):
        WalletMemory(FRESH, tmp_path / "none" / "device.json")
    assert list(tmp_path.iterdir()) == []


def test_a_memory_that_is_a_folder_is_named(path: Path) -> None:
    path.mkdir()
    with pytest.raises(WalletError, match="cannot be read: Is a directory"):
        WalletMemory(FRESH, path)


WHOLE = canonical_json(asdict(FRESH))
DAMAGE: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "half": lambda: WHOLE[:-9],
    "no text": lambda: b"\xff\xfe",
    "deep": lambda: b"[" * 4_000,
    "long": lambda: WHOLE + b" " * 5_000,
    "a space": lambda: WHOLE + b" ",
    "a key less": lambda: canonical_json({k: v for k, v in asdict(FRESH).items() if k != "answers"}),
    "a key more": lambda: canonical_json({**asdict(FRESH), "extra": 1}),
    "a negative count": lambda: canonical_json({**asdict(FRESH), "answers": -1}),
    "a huge count": lambda: canonical_json({**asdict(FRESH), "answers": 2**64}),
    "a count in words": lambda: canonical_json({**asdict(FRESH), "answers": "1"}),
    "a short hash": lambda: canonical_json({**asdict(FRESH), "signed": "ab"}),
    "a line end": lambda: canonical_json({**asdict(FRESH), "signed": A + "\n"}),
    "capitals": lambda: canonical_json({**asdict(FRESH), "order": "AB" * 32}),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_memory_is_not_forgotten_but_refused(path: Path, name: str) -> None:
    path.write_bytes(DAMAGE[name]())
    path.chmod(0o600)
    with pytest.raises(WalletError, match="is no device's memory: "):
        WalletMemory(FRESH, path)
    assert path.read_bytes() == DAMAGE[name]()


def test_no_more_of_a_memory_is_read_than_a_device_writes(path: Path) -> None:
    path.write_bytes(WHOLE + b" " * 9_000)
    path.chmod(0o600)
    with pytest.raises(WalletError, match="found more than 8192 bytes"):
        WalletMemory(FRESH, path)
