"""From what somebody names on the command line to what is shown."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bfl.dashboard.errors import DashboardError
from bfl.dashboard.facts import About, Kind
from bfl.dashboard.index.sources import RunSource, Source
from bfl.sweeps.folder import is_sweep

if TYPE_CHECKING:  # of these some take a second to import; a run folder is shown before that
    from bfl.dashboard.reading.feeds import Feed
    from bfl.network.kits import DeviceKit, EdgeKit

_METRICS, _CONFIG = "metrics.jsonl", "config.toml"


def newest_run(folder: Path) -> Path:
    """Of the runs in a folder the one that was written to last."""
    found = [path.parent for path in folder.glob(f"*/{_METRICS}")]
    if not found:
        raise DashboardError(
            f"found no run under {folder}/, expected a folder with a {_METRICS}; "
            "start one with `bfl simulate`, or name a run folder, --rpc URL or --kit KIT"
        )
    return max(found, key=lambda path: (path / _METRICS).stat().st_mtime)


def run_sources(folders: Sequence[Path]) -> list[Source]:
    """Run folders, by names that differ."""
    for folder in folders:
        if not folder.is_dir():
            raise DashboardError(f"found no folder {folder}, expected a run folder; `bfl simulate` makes one")
        if not (folder / _CONFIG).is_file():
            raise DashboardError(f"{folder} is no run folder: found no {_CONFIG} in it")
    names: dict[str, Path] = {}
    for folder in dict.fromkeys(each.resolve() for each in folders):
        names[_free(_name_of(folder), names)] = folder
    return [RunSource(name, folder) for name, folder in names.items()]


def _name_of(folder: Path) -> str:
    """A folder's name; of a run of a sweep with its cell's, for all cells have the same seeds."""
    cell = folder.parent
    return f"{cell.name},{folder.name}" if is_sweep(cell.parent) else folder.name


def _free(name: str, used: dict[str, Path]) -> str:
    count = 1
    while (told := name if count == 1 else f"{name}-{count}") in used:
        count += 1
    return told


def node_source(url: str, token: str) -> Source:
    """A node of ours."""
    from bfl.config import TOKEN_VARIABLE
    from bfl.dashboard.index.sources import ChainSource
    from bfl.dashboard.reading.feeds import NodeFeed
    from bfl.dashboard.reading.machines import watch_of_node

    found = urlsplit(url)
    if found.scheme not in ("http", "https") or not found.hostname:
        raise DashboardError(f"found --rpc {url!r:.80}, expected http:// or https:// and a host")
    watch = watch_of_node(url, token)
    secrets = {TOKEN_VARIABLE: token} if token else {}
    place = found.netloc.rpartition("@")[2]  # nobody else is to see a name and password in it
    about = _about("node", place, f"{found.scheme}://{place}")
    return ChainSource(about, None, partial(NodeFeed, url, token), watch, ("rpc", url), secrets)


def kit_source(folder: Path) -> Source:
    """A machine of a network: an edge shows what it has measured and its own chain, a device asks the edges."""
    from bfl.dashboard.index.sources import ChainSource
    from bfl.dashboard.reading.machines import watch_of_kit
    from bfl.dashboard.reading.metrics_tail import MetricsTail
    from bfl.network.kits import EdgeKit, read_kit
    from bfl.network.status import LOCK

    kit = read_kit(folder)
    about = _about("kit", kit.config.name, str(folder))
    feed, watch, lock = feeds_of_kit(kit), watch_of_kit(kit), folder / LOCK
    if isinstance(kit, EdgeKit):
        tail = MetricsTail(folder / _METRICS, is_real=True)
        return ChainSource(about, folder, feed, watch, ("file", str(kit.database)), {}, tail, lock)
    return ChainSource(about, folder, feed, watch, ("kit", str(folder)), {}, None, lock)


def feeds_of_kit(kit: "EdgeKit | DeviceKit") -> "Callable[[], Feed]":
    """How the chain is read that a machine knows: an edge's own file, or the first edge that answers a device."""
    from bfl.dashboard.reading.feeds import FileFeed, NodeFeed, first_that_answers
    from bfl.network.kits import EdgeKit

    if isinstance(kit, EdgeKit):
        return partial(FileFeed, kit.database)
    return partial(first_that_answers, [partial(NodeFeed, each.node_url, "", kit.tls) for each in kit.config.edges])


def _about(kind: Kind, name: str, place: str) -> About:
    return About(kind, name, place, "", "", "", "", None, None, 0, 0, (), None, False)
