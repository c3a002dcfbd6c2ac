"""What a device remembers outlives its process: one order per attempt, a few answers, one signature (Q5)."""

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
from clients.remembered import AnsweredAttempt, Remembered, SignedAttempt
from clients.wallet_memory import WalletMemory

FRESH = Remembered("11" * 32, "0x" + "22" * 20, "11" * 32)
A, B, WORK = "aa" * 32, "bb" * 32, "cc" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "device.json"


def test_who_is_known_to_have_joined_is_not_forgotten_over_a_restart(path: Path) -> None:
    one, two = "33" * 20, "44" * 20
    WalletMemory(FRESH, path).change(lambda known: known.knowing(3, A, [two]))
    WalletMemory(FRESH, path).change(lambda known: known.knowing(4, B, [one]))
    assert WalletMemory(FRESH, path).now.joined == (one, two)
    assert FRESH.knowing(4, A, [one]).knowing(3, B, [two]).joined == (one,)


# --- in a file --------------------------------------------------------------------------------------------------------


def answered(known: Remembered) -> Remembered:
    return known.answering(4, 1, A, WORK, 3)


def answers(memory: WalletMemory) -> int:
    (only,) = memory.now.answered
    return only.answers


def test_without_a_file_it_is_kept_as_long_as_the_process() -> None:
    memory = WalletMemory(FRESH)
    memory.change(answered)
    assert answers(memory) == 1


def test_a_file_outlives_the_process_and_is_its_owners_alone(path: Path) -> None:
    WalletMemory(FRESH, path).change(answered)
    again = WalletMemory(FRESH, path)
    assert again.now == FRESH.answering(4, 1, A, WORK, 3)
    assert path.stat().st_mode & 0o777 == 0o600
    again.change(answered)
    assert answers(WalletMemory(FRESH, path)) == 2


def test_what_is_refused_is_not_written(path: Path) -> None:
    memory = WalletMemory(FRESH, path)
    memory.change(answered)
    before = path.read_bytes()
    with pytest.raises(OrderError):
        memory.change(lambda known: known.answering(4, 1, B, WORK, 3))
    assert (path.read_bytes(), answers(memory)) == (before, 1)


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
    assert answers(WalletMemory(FRESH, path)) == 2
    with pytest.raises(OrderError, match="another order"):
        second.change(lambda known: known.answering(4, 1, B, WORK, 3))


def _answer_often(path: Path) -> None:
    memory = WalletMemory(FRESH, path)
    for _ in range(10):
        memory.change(lambda known: known.answering(4, 1, A, WORK, 1_000))


def test_processes_at_the_same_time_count_every_answer(path: Path) -> None:
    processes = [multiprocessing.get_context("spawn").Process(target=_answer_often, args=(path,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert answers(WalletMemory(FRESH, path)) == 20


def test_a_file_that_is_gone_is_written_again_from_what_the_process_knows(path: Path) -> None:
    memory = WalletMemory(FRESH, path)
    memory.change(answered)
    path.unlink()
    memory.change(answered)
    assert answers(WalletMemory(FRESH, path)) == 2


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


FULL = replace(FRESH.answering(4, 1, A, WORK, 3).giving(4, 2).signing(4, 1, B), joined=("33" * 20,))
WHOLE = canonical_json(asdict(FULL))


def changed(**changes: Any) -> bytes:
    """A memory with other fields, in canonical form."""
    return canonical_json({**asdict(FULL), **changes})


def once(**changes: Any) -> list[dict[str, Any]]:
    """An answered attempt with other fields."""
    return [{**asdict(FULL.answered[0]), **changes}]


DAMAGE: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "half": lambda: WHOLE[:-9],
    "no text": lambda: b"\xff\xfe",
    "deep": lambda: b"[" * 4_000,
    "long": lambda: WHOLE + b" " * 5_000,
    "a space": lambda: WHOLE + b" ",
    "a key less": lambda: canonical_json({k: v for k, v in asdict(FULL).items() if k != "work"}),
    "a key more": lambda: changed(extra=1),
    "no format": lambda: canonical_json({k: v for k, v in asdict(FULL).items() if k != "format"}),
    "a later format": lambda: changed(format=3),
    "a negative round": lambda: changed(signed_round=-1),
    "a huge round": lambda: changed(signed_round=2**64),
    "a round in words": lambda: changed(signed_round="1"),
    "a negative count": lambda: changed(answered=once(answers=-1)),
    "a huge attempt": lambda: changed(answered=once(attempt=2**32)),
    "a key more inside": lambda: changed(answered=once(extra=1)),
    "a key less inside": lambda: changed(signed=[{"attempt": 1}]),
    "many attempts": lambda: changed(answered=once() * 17),
    "data for nobody else": lambda: changed(data_to=-2),
    "data for a server too many": lambda: changed(data_to=64),
    "a short hash": lambda: changed(work="ab"),
    "a line end": lambda: changed(work=A + "\n"),
    "capitals": lambda: changed(answered=once(order="AB" * 32)),
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


def test_the_largest_memory_is_read_again(path: Path) -> None:
    """As many servers, attempts and answers as there may be, in the longest numbers."""
    huge, last = 2**63 - 1, 2**32 - 1
    largest = replace(
        FRESH, proven_round=huge, joined=tuple(f"{n:040x}" for n in range(64)), answered_round=huge, work=WORK,
        answered=(AnsweredAttempt(last, A, huge),) * 16, data_to=63, signed_round=huge,
        signed=(SignedAttempt(last, B),) * 16,
    )  # fmt: skip
    WalletMemory(FRESH, path).change(lambda _: largest)
    assert WalletMemory(FRESH, path).now == largest


OLD = {
    "network": FRESH.network, "device": FRESH.device, "proven_hash": A, "proven_round": 3, "joined": [],
    "answered_round": 4, "order": A, "answers": 1, "signed_round": 4, "signed": B,
}  # fmt: skip


def test_a_memory_of_before_there_were_attempts_is_refused_with_what_to_do(path: Path) -> None:
    path.write_bytes(canonical_json(OLD))
    path.chmod(0o600)
    told = "was written by an earlier version, which knew no attempts: when round 4 is over, move it away"
    with pytest.raises(WalletError, match=told):
        WalletMemory(FRESH, path)
    assert path.read_bytes() == canonical_json(OLD)
