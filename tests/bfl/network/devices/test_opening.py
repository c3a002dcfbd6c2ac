"""A kit's device: one process with its key, one memory, and what it notes for its miner."""

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message

from bfl.errors import BflError
from bfl.network.devices import opening
from bfl.network.devices.hash_share import read_share
from bfl.network.devices.opening import opened_device
from bfl.network.kits import read_device_kit
from bfl.network.making import make_kits
from chain.client.keys import load_key
from clients.device import answer
from clients.orders import Order
from policy.parameters import LatencyParams
from policy.world.rounds import hash_caps
from tests.bfl.network.described import write
from tests.bfl.network.kit_orders import order_of_round_1
from tests.clients.messages import sent

PASSWORD = "of a test"  # noqa: S105
LEADER = "edge-b"
RATES = (2e11, 3e11)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("operator")
    make_kits(write(folder), folder / "kits", PASSWORD, time.time(), work=2)
    return folder / "kits"


@pytest.fixture
def kits(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "kits"))


def order(kits: Path, **says: Any) -> Order:
    return order_of_round_1(kits, PASSWORD, leader=LEADER, **says)


def answered(kits: Path, asked: Order, told: list[str] | None = None) -> Message:
    """By a process that opens the kit, and ends."""
    kit = read_device_kit(kits / "pi-1")
    say = (told if told is not None else []).append
    with opened_device(kit, load_key(kit.key_file, PASSWORD), say, 0.1) as (device, training):
        return answer(device, sent(asked), training)


def test_each_opening_knows_what_was_signed_by_the_one_before(kits: Path) -> None:
    first = answered(kits, order(kits))
    assert not first.has_error(), first.error.reason
    assert "another order of round 1, attempt 0 already" in str(answered(kits, order(kits, phi=2)).error.reason)
    assert not answered(kits, order(kits)).has_error()


def test_a_lost_memory_is_lost_for_the_next_process_too(kits: Path) -> None:
    memory, lost = kits / "pi-1" / "device.json", kits / "pi-1" / "memory-lost"
    assert not answered(kits, order(kits)).has_error()
    memory.unlink()
    told: list[str] = []
    waits = ["found no device.json: it signs nothing until a round that begins from now on (D5)"]
    for _ in range(2):
        assert "this device has lost its memory" in str(answered(kits, order(kits, phi=2), told).error.reason)
        assert told == waits
    for nonsense in ("soon", "nan", "", "another-boot 0.0", f"{opening._boot()} 1e30"):
        lost.write_text(nonsense)
        assert "this device has lost its memory" in str(answered(kits, order(kits, phi=2), told).error.reason)
        assert set(told) == set(waits)
        assert opening._noted_s(lost) is not None
    assert not memory.exists()


def test_who_has_a_memory_waits_for_nothing(kits: Path) -> None:
    lost = kits / "pi-1" / "memory-lost"
    assert not answered(kits, order(kits)).has_error()
    lost.write_text(f"{opening._boot()} 1.0")  # of a process that was killed between its memory and this file
    assert not answered(kits, order(kits)).has_error()
    assert not lost.exists()


def test_a_second_process_with_the_key_is_refused(kits: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from bfl.network.devices.opening import _alone\n"
        "with _alone(Path(sys.argv[1]), 1.0): print('mine', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(kits / "pi-1")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mine\n"
        with pytest.raises(BflError, match="another process has its key, expected none"):
            answered(kits, order(kits))
        other.kill()
        other.wait()
        assert not answered(kits, order(kits)).has_error()


def test_the_share_of_an_accepted_plan_is_noted_and_that_of_a_refused_one_is_not(kits: Path) -> None:
    path = kits / "pi-1" / "hash-share.json"
    forged = order_of_round_1(kits, PASSWORD, leader="pi-2", hash_rate=RATES)
    assert answered(kits, forged).has_error()
    assert not path.exists()
    assert not answered(kits, order(kits, hash_rate=RATES)).has_error()
    share = read_share(path)
    assert share is not None
    assert share.share == pytest.approx(RATES[0] / hash_caps(LatencyParams(devices=2), 0, 1)[0])
    assert answered(kits, order(kits, hash_rate=(9e11, 9e11))).has_error(), "another plan of the same attempt"
    assert read_share(path) == share


def test_a_share_that_cannot_be_noted_costs_no_answer(kits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(opening, "note_share", full)
    assert not answered(kits, order(kits, hash_rate=RATES)).has_error()
