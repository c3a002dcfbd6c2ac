"""A ClientApp that opens a kit: what it refuses before it looks at a message."""

import shutil
import time
from pathlib import Path

import pytest
from flwr.app import Context, Message, RecordDict

from bfl.config import PASSWORD_VARIABLE
from bfl.network.devices.stock import app
from bfl.network.kits import read_device_kit
from bfl.network.making import make_kits
from tests.bfl.network.described import write
from tests.bfl.network.kit_orders import order_of_round_1
from tests.clients.messages import sent

PASSWORD = "of a test"  # noqa: S105


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("operator")
    make_kits(write(folder), folder / "kits", PASSWORD, time.time(), work=2)
    config = folder / "kits" / "pi-1" / "config.toml"
    config.write_text(config.read_text().replace('flower = "resident"', 'flower = "stock"'))
    return folder / "kits"


@pytest.fixture
def kits(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "kits"))


def asked(kits: Path, **node_config: str | bool) -> Message:
    message = sent(order_of_round_1(kits, PASSWORD))
    run_config: dict[str, str | bool | int | float] = {"allow-plugins": True, "data-dir": "elsewhere", "kit": "else"}
    return app(message, Context(1, 1, dict(node_config), RecordDict(), run_config))


def test_the_kit_answers_whatever_the_run_is_configured_with(kits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    assert not asked(kits, kit=str(kits / "pi-1")).has_error()


def test_what_is_wrong_with_a_kit_is_told_to_its_owner_alone(
    kits: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "another")
    cases = {
        str(kits / "pi-1"): "without its password a key is lost",
        str(kits / "pi-2"): "found flower = 'resident', expected 'stock'",
        str(kits / "edge-a"): "expected a device's",
        str(kits): "is no kit",
    }
    for folder, told in cases.items():
        with subtests.test(told):
            reply = asked(kits, kit=folder)
            assert reply.error.reason == "ClientError: this device cannot open its kit; its own log says why"
            assert told in capsys.readouterr().out
    assert asked(kits).has_error()
    assert "found kit = None in --node-config" in capsys.readouterr().out
    assert read_device_kit(kits / "pi-1").config.flower == "stock"
