"""What a rehearsal describes is a network that an operator could have described."""

from pathlib import Path

from bfl.network.description import read_description
from bfl.network.lab.params import LabParams, describe


def test_what_it_describes_is_a_network(tmp_path: Path) -> None:
    for namespaces in (False, True):
        path = tmp_path / f"{namespaces}.toml"
        path.write_text(describe(LabParams(tmp_path, 3, 4, namespaces=namespaces, settings={"planner": "all-local"})))
        found = read_description(path)
        assert [edge.name for edge in found.edges] == ["edge-1", "edge-2", "edge-3"]
        assert [device.home for device in found.devices] == ["edge-1", "edge-2", "edge-3", "edge-1"]
        assert [device.offload for device in found.devices] == ["any", "any", "any", "never"]
        assert found.settings.rounds.planner == "all-local"
        assert len({edge.address for edge in found.edges}) == (3 if namespaces else 1)


def test_without_namespaces_all_ports_differ_and_are_none_that_the_system_gives_away(tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    path.write_text(describe(LabParams(tmp_path, 9, 30)))
    found = read_description(path)
    ports = [port for edge in found.edges for port in edge.ports] + [device.node_port for device in found.devices]
    first_given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert len(set(ports)) == len(ports) == 9 * 5 + 30
    assert all(1024 <= port < first_given for port in ports)


def test_a_single_device_may_hand_over_its_data(tmp_path: Path) -> None:
    path = tmp_path / "network.toml"
    path.write_text(describe(LabParams(tmp_path, 1, 1)))
    assert [device.offload for device in read_description(path).devices] == ["any"]
