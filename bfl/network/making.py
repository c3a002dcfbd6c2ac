"""Makes the kits of a network (D6): what every machine is given, and, in a lab, the keys that it would make itself.

    kits/network.toml       as it was described
    kits/operator/          ca.key, ca.crt, founder.json: stays with whoever runs the network
    kits/edge-a/, kits/pi-1/, ...

`make_kits` makes all keys in one place: a lab's way. Whoever has that folder has the network.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bfl.errors import BflError
from bfl.network.certificates import Authority
from bfl.network.description import RESERVED, Description, DeviceMachine, EdgeMachine, read_description
from bfl.network.founding import Founded, Members, found_described, samples_described
from bfl.network.kits import (
    AUTHORITY,
    CERTIFICATE,
    CONFIG,
    DATABASE,
    DEVICE,
    EDGE,
    FOUNDING,
    GENESIS,
    UNUSED,
    DeviceConfig,
    EdgeConfig,
    EdgePlace,
    KnownDevice,
    config_text,
    write_given,
)
from bfl.network.own_keys import OwnKeys, PublicKeys
from bfl.network.units import CONTAINER, UNIT, container_file, service_unit
from chain.client.keys import new_account, save_key
from chain.wire.identity import Identity
from policy.files import making

DESCRIPTION = "network.toml"
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Plan:
    """A network whose members are known: what each of their kits needs."""

    description: Description
    keys: Mapping[str, PublicKeys]
    founded: Founded
    authority: Authority
    database: bytes
    """With the founding block; every node begins with it."""
    allows_plugins: bool = False

    def files_of(self, machine: EdgeMachine | DeviceMachine) -> dict[str, bytes]:
        """What a machine is given: nothing in it is secret."""
        keys, role = self.keys[machine.name], EDGE if isinstance(machine, EdgeMachine) else DEVICE
        hosts = [machine.address, _LOOPBACK] if isinstance(machine, EdgeMachine) else [_LOOPBACK]
        identity = Identity(self.founded.genesis.chain_id, keys.address)
        files = {
            AUTHORITY: self.authority.pem,
            CERTIFICATE: self.authority.certify(machine.name, hosts, identity, keys.tls),
            GENESIS: (self.founded.genesis.canonical_json() + "\n").encode(),
            UNUSED: b"",
            UNIT: service_unit(role, machine.name),
            CONTAINER: container_file(role),
        }
        if isinstance(machine, EdgeMachine):
            return files | {CONFIG: config_text(self._edge(machine)), DATABASE: self.database}
        joined = self.founded.joined([self.keys[edge.name].chain for edge in self.description.edges])
        return files | {CONFIG: config_text(self._device(machine)), FOUNDING: joined.to_json().encode()}

    def _common(self, role: str, name: str, index: int) -> dict[str, Any]:
        return {
            "network": self.description.name,
            "role": role,
            "name": name,
            "index": index,
            "chain_id": self.founded.genesis.chain_id,
            "registry": str(self.founded.genesis.registry),
            "founding_block": "0x" + self.founded.block_hash.hex(),
            "key_address": str(self.keys[name].address),
        }

    def _edge(self, edge: EdgeMachine) -> EdgeConfig:
        devices = tuple(
            KnownDevice(each.name, n, self.keys[each.name].flower)
            for n, each in enumerate(self.description.devices)
            if edge.name == each.home or edge == self.description.standby_of(each)
        )
        return EdgeConfig(
            **self._common(EDGE, edge.name, self.description.edge_index(edge.name)),
            address=edge.address,
            node_port=edge.node_port,
            owner_port=edge.owner_port,
            devices_port=edge.devices_port,
            edge_port=edge.edge_port,
            link_port=edge.link_port,
            data_dir=self.description.settings.data.data_dir,
            allow_plugins=self.allows_plugins,
            peers=tuple(each for each in self._places() if each.name != edge.name),
            devices=devices,
        )

    def _device(self, device: DeviceMachine) -> DeviceConfig:
        standby = self.description.standby_of(device)
        return DeviceConfig(
            **self._common(DEVICE, device.name, self.description.devices.index(device)),
            home=device.home,
            standby="" if standby is None else standby.name,
            node_port=device.node_port,
            data=device.data,
            offload=self.description.consent(device).text,
            hashes_per_s=device.hashes_per_s,
            allow_plugins=self.allows_plugins,
            edges=tuple(self._places()),
        )

    def _places(self) -> list[EdgePlace]:
        return [
            EdgePlace(
                edge.name,
                edge.address,
                edge.node_port,
                edge.devices_port,
                edge.edge_port,
                str(self.keys[edge.name].address),
            )
            for edge in self.description.edges
        ]


def machines_of(description: Description) -> list[EdgeMachine | DeviceMachine]:
    """Edges first."""
    return [*description.edges, *description.devices]


def make_kits(
    description_file: Path,
    out: Path,
    password: str,
    now_s: float,
    work: int | None = None,
    allow_plugins: bool = False,
    before: Path | None = None,
) -> list[str]:
    """Found the network and write everybody's kit; what to tell about it. Made already, nothing is done. `before`: the
    chain that it goes on from.
    """
    description, text = read_description(description_file, allow_plugins), description_file.read_bytes()
    if out.exists():
        return [_made_before(out, text)]
    if not out.absolute().parent.is_dir():
        raise BflError(f"{out.parent} does not exist; make it, or choose another --out")
    with making(out) as made:  # half a set of kits is none
        founded = _write_all(description, made, password, now_s, work, allow_plugins, before)
        (made / DESCRIPTION).write_bytes(text)
    told = f"{len(machines_of(description))} kits in {out}, and {out / RESERVED} for you alone"
    return [*founded.beginning, told, *description.warnings]


def _made_before(out: Path, text: bytes) -> str:
    made = out / DESCRIPTION
    if not made.is_file():
        raise BflError(f"{out} exists and has no kits; choose another --out")
    if made.read_bytes() != text:
        raise BflError(f"{out} has the kits of another description ({made}); choose another --out, or remove it")
    return f"the kits of this network are in {out} already"


def _write_all(
    description: Description,
    out: Path,
    password: str,
    now_s: float,
    work: int | None,
    allow_plugins: bool,
    before: Path | None,
) -> Founded:
    machines = machines_of(description)
    keys = {each.name: OwnKeys.create(isinstance(each, DeviceMachine)) for each in machines}
    public = {name: each.public for name, each in keys.items()}
    operator = out / RESERVED
    operator.mkdir(mode=0o700)
    authority, founder = Authority.create(description.name), new_account()
    authority.save(operator)
    save_key(operator / "founder.json", founder, password, work)
    samples = samples_described(description)
    plan = founded_plan(description, public, samples, authority, founder, now_s, allow_plugins, before)
    for machine in machines:
        folder = out / machine.name
        folder.mkdir(mode=0o700)
        keys[machine.name].save(folder, password, work)
        write_given(folder, plan.files_of(machine))
    return plan.founded


def founded_plan(
    description: Description,
    keys: Mapping[str, PublicKeys],
    samples: Mapping[str, int],
    authority: Authority,
    founder: Any,
    now_s: float,
    allow_plugins: bool = False,
    before: Path | None = None,
) -> Plan:
    """Found a network whose members are known."""
    members = Members({name: each.address for name, each in keys.items()}, samples)
    with tempfile.TemporaryDirectory() as scratch:
        database = Path(scratch) / DATABASE
        founded = found_described(description, members, founder, database, now_s, before)
        return Plan(description, keys, founded, authority, database.read_bytes(), allow_plugins)
