"""`bfl doctor --device KIT`, and what a kit brings to run as a service."""

import configparser
import json
import shutil
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bfl.cli import app
from bfl.network import checkup
from bfl.network.checkup import examine_kit
from bfl.network.making import make_kits
from bfl.network.parts import check_ports
from bfl.network.status import NodeState
from tests.bfl.network.described import SMALL, write
from tests.clients.idx_files import write_mnist


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kits")
    make_kits(write(folder), folder / "kits", "of a test", time.time(), work=2)
    return folder / "kits"


def found_in(kit: Path) -> dict[str, str]:
    return {check.name: check.status for check in examine_kit(kit)}


@pytest.fixture(autouse=True)
def nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "nodes_of", lambda _: [NodeState("edge-a", None, trouble="does not answer")])
    monkeypatch.setattr(checkup, "_ASK_S", 0.2)
    monkeypatch.setattr(checkup, "check_ports", lambda _: None)  # 10.0.0.1 is no address of this machine


def test_a_kit_whose_others_are_away_is_fit_to_start(kits: Path) -> None:
    device = found_in(kits / "pi-1")
    assert {name: device[name] for name in ("kit", "Flower", "data", "node of edge-a", "clock", "home", "standby")} == {
        "kit": "ok", "Flower": "ok", "data": "ok", "node of edge-a": "warn", "clock": "warn", "home": "warn",
        "standby": "warn",
    }  # fmt: skip
    edge = found_in(kits / "edge-a")
    assert (edge["data"], edge["ports"]) == ("ok", "ok"), "what its models are tested on is here"


def test_clocks_and_data_that_do_not_fit_fail(kits: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(checkup, "nodes_of", lambda _: [NodeState("edge-a", 3, 9.0), NodeState("edge-b", 3)])
    checks = {check.name: check for check in examine_kit(kits / "pi-1")}
    assert (checks["clock"].status, checks["clock"].do) == ("fail", "install chrony")
    founding = kits / "pi-2" / "founding.json"
    told = json.loads(founding.read_text())
    told["work"]["shares"] = [7, 7]
    founding.write_text(json.dumps(told))
    assert {check.name: check.do for check in examine_kit(kits / "pi-2")}["data"] == "is it the right data folder?"
    assert found_in(tmp_path) == {"kit": "fail"}


def test_an_edge_without_the_data_of_its_tests_is_told(kits: Path, tmp_path: Path) -> None:
    text = SMALL.replace('dataset = "synthetic"', f'dataset = "fashion-mnist"\ndata-dir = "{tmp_path}/data"')
    write_mnist(tmp_path / "data", train=40)
    make_kits(write(tmp_path, text), tmp_path / "kits", "of a test", time.time(), work=2)
    assert found_in(tmp_path / "kits" / "edge-a")["data"] == "ok"
    shutil.rmtree(tmp_path / "data")
    checks = {check.name: check for check in examine_kit(tmp_path / "kits" / "edge-a")}
    assert (checks["data"].status, checks["data"].do) == ("fail", "correct data-dir in config.toml")


def test_ports_and_addresses_that_are_not_free_fail(kits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "check_ports", check_ports)
    check = {check.name: check for check in examine_kit(kits / "edge-a")}["ports"]
    assert check.status == "fail"
    assert "found no address 10.0.0.1 on this machine" in check.found


def test_the_command_ends_with_1_where_something_is_wrong(tmp_path: Path, kits: Path) -> None:
    ran = CliRunner().invoke(app, ["doctor", "--device", str(tmp_path)])
    assert ran.exit_code == 1
    assert "is no kit" in " ".join(ran.output.split())
    assert CliRunner().invoke(app, ["doctor", "--device", str(kits / "edge-a")]).exit_code == 0


def test_every_kit_has_a_unit_and_a_container_file_of_its_own_command(kits: Path) -> None:
    for name, role in (("edge-a", "edge"), ("pi-1", "device")):
        unit = configparser.ConfigParser(strict=False)
        unit.read_string((kits / name / "bfl.service").read_text())
        assert unit["Service"]["execstart"].endswith(f"bfl network {role} /var/lib/bfl/{name}")
        assert unit["Service"]["readwritepaths"] == f"/var/lib/bfl/{name}"
        assert unit["Service"]["nonewprivileges"] == "yes"
        assert f'["bfl", "network", "{role}", "/kit"]' in (kits / name / "Containerfile").read_text()
