"""A whole network on machines of its own: three edge servers with their nodes, devices with their miners."""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bfl.network.certificates import Authority
from bfl.network.description import ChainRules, Description, DeviceMachine, EdgeMachine
from bfl.network.founding import samples_described
from bfl.network.kits import write_given
from bfl.network.making import founded_plan, machines_of
from bfl.network.own_keys import OwnKeys
from chain.client.keys import new_account
from chain.protocol.contract import events
from chain.protocol.genesis import Genesis
from clients.parameters import DataParams, TrainingParams
from edge_servers.parameters import RoundParams, Settings
from tests.lan.asking import ask_rpc
from tests.lan.lan import Lan
from tests.lan.machine import Machine
from tests.lan.process import MachineProcess

BFL = [sys.executable, "-m", "bfl", "network"]
STUBS = [sys.executable, "-m", "tests.lan.stubs"]
PASSWORD = "of the test"  # noqa: S105 - of keys that are made here and gone with the test
NODE_PORT, OWNER_PORT, DEVICES_PORT = 8545, 8546, 9100
SHORT: dict[str, Any] = {
    "scheme": "bfl", "planner": "all-local", "filter": "none", "phi": "2", "plan_s": 4.0, "deadline_s": 12.0,
    "close_s": 4.0, "gossip_s": 1.5, "verify_s": 2.0, "model_s": 2.0, "seal_s": 10.0, "sign_s": 3.0,
}  # fmt: skip
"""Offsets of deadlines for tests: rounds that fail cost seconds, not minutes"""


def _names(kind: str, count: int) -> list[str]:
    return [f"{kind}-{number}" for number in range(count)]


@dataclass
class LanNetwork:
    """A founded network whose parts run as processes on a LAN's machines."""

    lan: Lan
    edges: int
    devices: int
    settings: Settings
    genesis: Genesis
    processes: dict[str, MachineProcess] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    """Of the keys, by machine."""

    @classmethod
    def found(
        cls, lan: Lan, edges: int = 3, devices: int = 6, rounds: int = 1000, hashes_per_s: int = 2000, **changes: Any
    ) -> "LanNetwork":
        """Make keys, found the network, and hand every machine its kit."""
        settings = Settings(
            RoundParams(**{**SHORT, "edges": edges, **changes}),
            DataParams(dataset="synthetic", devices=devices, data_per_round="all"),
            TrainingParams(hidden="8", iterations=2, batch=25),
        )
        edge_names, device_names = _names("edge", edges), _names("device", devices)
        homes = [edge_names[number % edges] for number in range(devices)]
        description = Description(
            "lan",
            tuple(EdgeMachine(name, lan[name].address) for name in edge_names),
            tuple(DeviceMachine(name, home, offload="never") for name, home in zip(device_names, homes, strict=True)),
            settings,
            ChainRules(devices * hashes_per_s, retarget=False),
        )
        machines = machines_of(description)
        keys = {each.name: OwnKeys.create(isinstance(each, DeviceMachine)) for each in machines}
        public = {name: each.public for name, each in keys.items()}
        samples, authority = samples_described(description), Authority.create("lan")
        plan = founded_plan(description, public, samples, authority, new_account(), time.time())
        for machine in machines:
            folder = lan[machine.name].folder
            keys[machine.name].save(folder, PASSWORD, work=2)
            write_given(folder, plan.files_of(machine))
            config = folder / "config.toml"
            config.write_text(config.read_text().replace("rounds = 0", f"rounds = {rounds}"))
            if isinstance(machine, DeviceMachine):
                (folder / "rate").write_text(str(hashes_per_s))
        addresses = {name: str(each.address) for name, each in public.items()}
        return cls(lan, edges, devices, settings, plan.founded.genesis, addresses=addresses)

    @property
    def edge_names(self) -> list[str]:
        return _names("edge", self.edges)

    @property
    def device_names(self) -> list[str]:
        return _names("device", self.devices)

    def home_of(self, device: str) -> str:
        """The edge whose server orders a device to train."""
        return self.edge_names[self.device_names.index(device) % self.edges]

    # --- processes

    def start(self, machine_name: str, part: str) -> MachineProcess:
        """node, edge-server, device-stub or miner on a machine."""
        machine = self.lan[machine_name]
        env: Mapping[str, str] = {"BFL_KEY_PASSWORD": PASSWORD, "OMP_NUM_THREADS": "1"}
        program = STUBS if part in ("edge-server", "device-stub") else BFL
        process = machine.start(part, [*program, *self._command(machine, machine_name, part)], env)
        self.processes[f"{machine_name} {part}"] = process
        return process

    def _command(self, machine: Machine, name: str, part: str) -> list[str]:
        urls = [f"http://{self.lan[each].address}:{NODE_PORT}" for each in self.edge_names]
        if part == "node":
            own = f"http://{machine.address}:{NODE_PORT}"
            peers = [word for url in urls if url != own for word in ("--peer", url)]
            ports = ["--port", str(NODE_PORT), "--owner-port", str(OWNER_PORT)]
            return ["node", "--host", machine.address, *ports, "--allow-plain", *peers]
        if part == "miner":
            nodes = [word for url in urls for word in ("--node", url)]
            rate = (machine.folder / "rate").read_text()
            return ["miner", *nodes, "--key", "key.json", "--hashes-per-s", rate]
        if part == "edge-server":
            return [part, ".", f"{machine.address}:{DEVICES_PORT}"]
        return [part, ".", f"http://{self.lan[self.home_of(name)].address}:{DEVICES_PORT}"]

    def start_all(self) -> None:
        """Every part of every machine."""
        for name in self.edge_names:
            self.start(name, "node")
        for name in self.edge_names:
            self.start(name, "edge-server")
        for name in self.device_names:
            self.start(name, "device-stub")
            self.start(name, "miner")

    def ask(self, edge: str, method: str, *params: Any) -> Any:
        """A question to an edge's node, from its own machine."""
        machine = self.lan[edge]
        return ask_rpc(machine, f"http://{machine.address}:{NODE_PORT}", method, *params)

    def final(self, edge: str) -> int:
        """Number of the last final block of an edge's node."""
        return int(self.ask(edge, "eth_getBlockByNumber", "finalized", False)["number"], 16)

    def safe_final(self, edge: str) -> int:
        """The same; 0 where the node does not answer."""
        return max(0, self._final_or_none(edge))

    def count_events(self, name: str) -> int:
        """How many events of a kind the registry has logged, in sealed blocks and pending."""
        topic = "0x" + events()[name].topic.hex()
        asked = {"fromBlock": "0x0", "toBlock": "pending", "topics": [topic]}
        return max(len(self.ask(edge, "eth_getLogs", asked)) for edge in self.edge_names)

    def hash_of(self, edge: str, number: int) -> str:
        """Hash of a block at an edge's node."""
        return str(self.ask(edge, "eth_getBlockByNumber", hex(number), False)["hash"])

    def wait_for_round(
        self, round_: int, timeout_s: float, edges: list[str] | None = None, look_s: float = 0.2
    ) -> float:
        """Until a round is final at all these edges; returns how long it took. To look costs every node some time."""
        began, left = time.monotonic(), list(edges or self.edge_names)
        while left:
            left = [each for each in left if self._final_or_none(each) < round_ + 1]
            waited = time.monotonic() - began
            if left and waited > timeout_s:
                told = {each: self._final_or_none(each) - 1 for each in left}
                raise AssertionError(f"round {round_} is not final after {waited:.0f} s: {told}")
            if left:
                time.sleep(look_s)
        return time.monotonic() - began

    def _final_or_none(self, edge: str) -> int:
        try:
            return self.final(edge)
        except Exception:  # noqa: BLE001 - a node that is killed, stopped or partitioned answers somehow or not at all
            return -1
