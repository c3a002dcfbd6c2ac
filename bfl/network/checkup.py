"""`bfl doctor --device KIT`: whether a machine has what its kit needs, and reaches the others."""

import shutil
from contextlib import closing
from pathlib import Path

import httpx

from bfl.config import check_code
from bfl.doctor import Check
from bfl.errors import BflError
from bfl.network.enrolment.joining import take_grant
from bfl.network.kits import FOUNDING, STOCK, DeviceKit, EdgeKit, EdgePlace, read_kit
from bfl.network.parts import STARTED_BY_FLOWER, check_ports, find_flower
from bfl.network.status import MOST_SKEW_S, NodeState, is_running, nodes_of
from chain.audit.archive import open_archive
from chain.errors import ChainError
from chain.protocol.turns import FOUNDING_BLOCK
from clients.data import dataset_of
from clients.errors import ClientError
from clients.joined import read_joined
from clients.parameters import DataParams, read_params
from clients.partition import shares_of
from clients.root_set import held_back
from edge_servers.errors import EdgeError
from edge_servers.founding.parameters import read_founding_parameters
from edge_servers.parameters import Settings
from edge_servers.replay.record import parameters_in

_FREE_GB = 1.0
_ASK_S = 5.0


def examine_kit(folder: Path) -> list[Check]:
    """The kit, its programs, its disk, its data, the other machines and the clock."""
    try:
        take_grant(folder)
        kit = read_kit(folder)
    except BflError as error:
        return [Check("kit", "fail", str(error), "the rest is checked when that is mended")]
    config = kit.config
    told = f"{config.role} {config.name} of {config.network}, address {config.key_address}"
    nodes = nodes_of(kit)
    checks = [
        Check("kit", "ok", told),
        _programs(kit),
        _disk(folder),
        _ports(kit),
        *(_node(each, kit) for each in nodes),
        _clock(nodes),
    ]
    return [*checks, _tests(kit)] if isinstance(kit, EdgeKit) else [*checks, *_doors(kit), _data(kit)]


def _programs(kit: EdgeKit | DeviceKit) -> Check:
    name = "flower-superlink" if isinstance(kit, EdgeKit) else "flower-supernode"
    is_stock = isinstance(kit, DeviceKit) and kit.config.flower == STOCK
    try:
        found = [find_flower(each) for each in (name, *(STARTED_BY_FLOWER if is_stock else ()))]
        return Check("Flower", "ok", found[0])
    except BflError as error:
        return Check("Flower", "fail", str(error), "pip install bfl")


def _disk(folder: Path) -> Check:
    free = shutil.disk_usage(folder).free / 2**30
    is_enough = free >= _FREE_GB
    return Check("disk", "ok" if is_enough else "fail", f"{free:.1f} GB free", "" if is_enough else "make room")


def _ports(kit: EdgeKit | DeviceKit) -> Check:
    if is_running(kit.folder):
        return Check("ports", "ok", "it runs")
    try:
        check_ports(kit)
    except BflError as error:
        return Check("ports", "fail", str(error), "then look again")
    return Check("ports", "ok", "free")


def _node(node: NodeState, kit: EdgeKit | DeviceKit) -> Check:
    if node.name == kit.config.name and not is_running(kit.folder):
        return Check(f"node of {node.name}", "ok", "this machine's own: not started")
    do = "is it on? is that port open between you?" if node.trouble else ""
    return Check(f"node of {node.name}", "warn" if node.trouble else "ok", node.word, do)


def _clock(nodes: list[NodeState]) -> Check:
    known = [abs(node.skew_s) for node in nodes if not node.trouble]
    if not known:
        return Check("clock", "warn", "nobody answers to compare with", "start an edge, and look again")
    is_well = max(known) <= MOST_SKEW_S
    told = f"at most {max(known):.0f} s from the others'"
    return Check("clock", "ok" if is_well else "fail", told, "" if is_well else "install chrony")


def _doors(kit: DeviceKit) -> list[Check]:
    standby = kit.config.standby_place
    home = _door(kit, "home", kit.config.home_place)
    return [home] if standby is None else [home, _door(kit, "standby", standby)]


def _door(kit: DeviceKit, what: str, edge: EdgePlace) -> Check:
    url = f"https://{edge.host}:{edge.devices_port}"
    try:
        with httpx.Client(verify=kit.tls.client_context(), timeout=_ASK_S, trust_env=False) as client:
            client.get(url)
    except httpx.HTTPError as error:
        advice = "is it on? is that port open between you?"
        return Check(what, "warn", f"{url}: {type(error).__name__}: {error}"[:200], advice)
    return Check(what, "ok", f"{edge.name} at {url}")


def _tests(kit: EdgeKit) -> Check:
    """What its models are tested on; what its chain was founded with is read from its own file."""
    try:
        with closing(open_archive(kit.database)) as archive:
            founding = read_founding_parameters(parameters_in(archive.block(FOUNDING_BLOCK), archive))
        data = founding.settings.data
        check_code(founding.settings, kit.config.allow_plugins, "the founding")
        dataset = dataset_of(data, kit.config.data_dir)
    except (BflError, ClientError, ChainError, EdgeError) as error:
        return Check("data", "fail", str(error).splitlines()[0], "correct data-dir in config.toml")
    return Check("data", "ok", f"{len(dataset.test)} samples for its tests")


def _data(kit: DeviceKit) -> Check:
    try:
        joined = read_joined(kit.folder / FOUNDING)
        data = read_params(DataParams, joined.settings)
        check_code(Settings.read(joined.settings), kit.config.allow_plugins, "the founding")
        dataset = dataset_of(data, kit.config.data)
        index = kit.config.index
        count, registered = len(dataset.train), joined.work.shares[index]
        if not kit.config.data:
            count = len(shares_of(dataset, data, held_back(joined.settings))[index])
    except (BflError, ClientError) as error:
        return Check("data", "fail", str(error).splitlines()[0], "correct data in config.toml")
    if count != registered:
        return Check("data", "fail", f"{count} samples, {registered} are registered", "is it the right data folder?")
    return Check("data", "ok", f"{count} samples")
