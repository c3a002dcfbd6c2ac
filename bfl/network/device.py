"""A device as a process of its own (D2): it takes what its SuperNode has for it, and needs nobody else to start."""

import threading
from collections.abc import Callable
from contextlib import closing

import torch
from eth_account.signers.local import LocalAccount

from bfl.network.kits import FOUNDING, UNUSED, DeviceKit
from bfl.network.parts import read_secret
from clients.consent import Consent
from clients.executor import serve_orders
from clients.flower_tasks import DeviceTasks, Place
from clients.joined import OwnChoice, open_device, read_joined
from clients.memory import keep_freed_memory
from clients.wallet_memory import Start

MEMORY = "device.json"


def run_device(kit: DeviceKit, account: LocalAccount, stop: threading.Event, say: Callable[[str], None]) -> None:
    """Until it is stopped."""
    keep_freed_memory()
    torch.set_num_threads(1)
    config = kit.config
    choice = OwnChoice(Consent(config.offload), config.data, config.allow_plugins)
    joined = read_joined(kit.folder / FOUNDING)
    memory, unused = kit.folder / MEMORY, kit.folder / UNUSED
    lost = None if memory.exists() or unused.exists() else Start()
    device, training = open_device(joined, config.index, account, choice, memory, lost)
    unused.unlink(missing_ok=True)  # after the memory is there
    if lost is not None:
        say(f"found no {MEMORY}: it signs nothing until a round that begins from now on (D5)")
    place = Place(f"127.0.0.1:{config.node_port}", read_secret(kit.folder))
    say(f"{config.name} is device {config.index} with {len(device.share)} samples, at home at {config.home}")
    with closing(DeviceTasks(place)) as tasks:
        serve_orders(device, tasks, training, stop, say)
