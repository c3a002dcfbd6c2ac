"""A device as a process that stays (D2): it takes what its SuperNode has for it, and needs nobody else to start."""

import threading
from collections.abc import Callable
from contextlib import closing

from eth_account.signers.local import LocalAccount

from bfl.network.devices.opening import opened_device
from bfl.network.kits import DeviceKit
from bfl.network.parts import read_secret
from clients.executor import serve_orders
from clients.flower_tasks import DeviceTasks, Place

_FREE_S = 5.0
"""One that was killed may still be ending"""


def run_device(kit: DeviceKit, account: LocalAccount, stop: threading.Event, say: Callable[[str], None]) -> None:
    """Until it is stopped."""
    config = kit.config
    with opened_device(kit, account, say, _FREE_S) as (device, training):
        place = Place(f"127.0.0.1:{config.node_port}", read_secret(kit.folder))
        say(f"{config.name} is device {config.index} with {len(device.share)} samples, at home at {config.home}")
        with closing(DeviceTasks(place)) as tasks:
            serve_orders(device, tasks, training, stop, say)
