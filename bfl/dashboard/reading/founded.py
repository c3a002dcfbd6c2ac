"""Who a network was founded with, as its founding block tells: data to show, checked against its digest alone."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from bfl.dashboard.facts import About, Participant
from bfl.dashboard.reading.clean import index, listed, text, whole
from bfl.dashboard.reading.round_lines import MOST_DEVICES, MOST_SERVERS
from bfl.show.names import Names, founding_content, names_of
from chain.audit.archive import Archive
from chain.errors import ChainError
from chain.wire.address import Address
from edge_servers.founding.simulated import START_S

_MOST_GRAPH_EDGES = 4096


@dataclass(frozen=True)
class Founded:
    """The parts of the founding parameters that a page shows; empty where they are of another kind."""

    chain_id: int
    servers: tuple[str, ...]
    """Addresses by number."""
    devices: tuple[tuple[str, int, int, str], ...]
    """(address, home, samples, consent) by number."""
    graph: tuple[tuple[int, int], ...]
    settings: Mapping[str, str | int | float]
    names: Names
    is_simulated: bool
    """As its clock shows; an audit looks at the keys too."""

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {address: number for number, address in enumerate(self.servers)} | {
            each[0]: number for number, each in enumerate(self.devices)
        }

    def number_of(self, address: bytes) -> int | None:
        """Of a server or device."""
        return self._numbers.get(f"0x{address.hex()}")

    def name_of(self, address: bytes) -> str:
        """A name, or the address where there is none."""
        return self.names.find(address) or f"0x{address.hex()}"

    @cached_property
    def participants(self) -> tuple[Participant, ...]:
        """Servers, then devices."""
        servers = [Participant(f"server {m}", "server", m, each, m, 0) for m, each in enumerate(self.servers)]
        devices = [
            Participant(f"device {n}", "device", n, address, home, samples, consent)
            for n, (address, home, samples, consent) in enumerate(self.devices)
        ]
        return (*servers, *devices)

    def told(self, about: About) -> About:
        """What a source is about, with what its chain says; what the source itself says counts first."""
        settings = self.settings
        return replace(
            about,
            scheme=about.scheme or str(settings.get("scheme", "")),
            dataset=about.dataset or str(settings.get("dataset", "")),
            partition=about.partition or str(settings.get("partition", "")),
            planner=about.planner or str(settings.get("planner", "")),
            seed=whole(settings["seed"]) if about.seed is None and "seed" in settings else about.seed,
            devices=len(self.devices) or about.devices,
            edges=len(self.servers) or about.edges,
            graph=self.graph or about.graph,
            chain_id=self.chain_id,
            is_simulated=about.is_simulated or self.is_simulated,
            settings=about.settings or settings,
        )


def read_founded(archive: Archive) -> Founded:
    """What the founding block of a chain tells; a network that is not founded yet has nobody."""
    content = founding_content(archive)
    names = names_of(content)
    servers = tuple(map(_address, listed(content.get("servers"), MOST_SERVERS)))
    devices = tuple(_device(each) for each in listed(content.get("devices"), MOST_DEVICES))
    if not names or not all(servers):
        servers, devices = (), ()
    pairs = [_pair(each, len(servers)) for each in listed(content.get("graph"), _MOST_GRAPH_EDGES)]
    settings = content.get("settings")
    return Founded(
        chain_id=archive.genesis.chain_id,
        servers=servers,
        devices=devices,
        graph=tuple(each for each in pairs if each is not None),
        settings=_settings(settings if isinstance(settings, dict) else {}),
        names=names,
        is_simulated=archive.genesis.timestamp == START_S,
    )


def _settings(found: Mapping[str, Any]) -> dict[str, str | int | float]:
    told = {text(key, 60): text(each) if isinstance(each, str) else each for key, each in list(found.items())[:200]}
    return {key: each for key, each in told.items() if isinstance(each, str | int | float)}


def _address(found: Any) -> str:
    try:
        return str(Address(found))
    except (ChainError, TypeError):
        return ""


def _device(found: Any) -> tuple[str, int, int, str]:
    address, home, samples, consent, *_ = [*listed(found, 4), None, None, None, None]
    return _address(address), whole(home, 0, 0, MOST_SERVERS), whole(samples), text(consent, 80) or "any"


def _pair(found: Any, servers: int) -> tuple[int, int] | None:
    first, second, *_ = [*(index(each) for each in listed(found, 2)), None, None]
    if first is None or second is None or max(first, second) >= servers:
        return None
    return first, second
