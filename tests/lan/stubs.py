"""An edge server or a device of a kit, over plain HTTP instead of Flower: light enough for a whole network under test.

    python -m tests.lan.stubs edge-server KIT HOST:PORT       its devices come here
    python -m tests.lan.stubs device-stub KIT http://HOST:PORT

Everything but the way between a server and its devices is what `bfl network edge` and `device` run.
"""

import logging
import os
import sys
import threading
import time
from pathlib import Path

from bfl.commands.network import stop_by_signal
from bfl.config import PASSWORD_VARIABLE
from bfl.network.devices.opening import MEMORY
from bfl.network.edge_server import Devices, serve
from bfl.network.kits import FOUNDING, Kit, read_device_kit, read_edge_kit
from chain.client.asking import web3_over_http
from chain.client.keys import load_key
from chain.wire.address import Address
from clients.consent import Consent
from clients.joined import OwnChoice, open_device, read_joined
from clients.memory import keep_freed_memory
from clients.standby import Whereabouts, dormancy_at
from tests.lan.stub_device import serve_orders
from tests.lan.stub_grid import StubGrid


def edge_server(folder: Path, listen: str) -> None:
    kit, stop = read_edge_kit(folder), stop_by_signal()
    host, _, port = listen.rpartition(":")
    with StubGrid(host, int(port), [device.index for device in kit.config.devices]) as grid:
        say(f"devices come to {listen}. Ctrl-C stops it.")
        serve(kit, key_of(kit), Devices(grid, grid.nodes, lambda: None), stop, say)
    say("stopped")


def device_stub(folder: Path, edge: str) -> None:
    import torch

    kit, stop = read_device_kit(folder), stop_by_signal()
    keep_freed_memory()
    torch.set_num_threads(1)
    config, joined = kit.config, read_joined(kit.folder / FOUNDING)
    choice = OwnChoice(Consent(config.offload))
    device, training = open_device(joined, config.index, key_of(kit), choice, kit.folder / MEMORY)
    say(f"device {config.index} with {len(device.share)} samples asks {edge}. Ctrl-C stops it.")
    standby, places = config.standby_place, [edge]

    def moved(is_at_home: bool) -> None:
        places[0] = edge if is_at_home or standby is None else f"http://{standby.host}:{standby.devices_port}"
        say(f"from now on at {places[0]}")

    if standby is not None:
        registry = bytes.fromhex(config.registry.removeprefix("0x"))
        urls = [f"http://{each.host}:{each.node_port}" for each in config.edges]
        nodes = [dormancy_at(web3_over_http(url, timeout_s=5.0), registry) for url in urls]
        home = Address(config.home_place.key_address)
        watched = Whereabouts(nodes, home, Address(standby.key_address), every_s=1.0)
        threading.Thread(target=watched.follow, args=(stop, moved), daemon=True).start()
    serve_orders(device, lambda: places[0], training, stop, say)
    say("stopped")


def key_of(kit: Kit):  # type: ignore[no-untyped-def]
    return load_key(kit.key_file, os.environ[PASSWORD_VARIABLE])


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def main() -> None:
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.WARNING)
    for name in ("edge_servers", "bfl"):
        logging.getLogger(name).setLevel(logging.INFO)
    what, folder, where = sys.argv[1:]
    {"edge-server": edge_server, "device-stub": device_stub}[what](Path(folder), where)


if __name__ == "__main__":
    main()
