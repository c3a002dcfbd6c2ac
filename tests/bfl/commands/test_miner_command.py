"""`bfl network miner` as a process of its own: it mines where there is work, and ends at Ctrl-C."""

import re
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from bfl.network.devices.hash_share import SHARE_FILE, note_share
from chain.client.keys import address_of, save_key
from tests.bfl.runs import environment
from tests.chain.network import Network
from tests.chain.rpc.served import served_node, wait_until

NETWORK = Network()
PASSWORD = "for tests only"  # noqa: S105
DEAD = "http://127.0.0.1:9"


@pytest.mark.slow
def test_a_miner_seals_what_one_of_its_nodes_has_and_ends_at_ctrl_c(tmp_path: Path) -> None:
    save_key(tmp_path / "device.json", NETWORK.devices[0], PASSWORD, work=2)
    with ExitStack() as stack:
        node, url = served_node(stack)
        NETWORK.found(node)
        leader = NETWORK.leader(node)
        NETWORK.post_plan(node, leader)
        node.propose(address_of(leader))
        options = ["--node", DEAD, "--node", url, "--key", "device.json", "--hashes-per-s", "100000"]
        note_share(tmp_path, 1, 0, 0.5)
        options += ["--share-file", SHARE_FILE]
        command = [sys.executable, "-m", "bfl", "network", "miner", *options]
        running = subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment(BFL_KEY_PASSWORD=PASSWORD),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        killer = threading.Timer(60, running.kill)
        killer.start()
        wait_until(lambda: node.head.block_number == 2, 60)
        running.send_signal(signal.SIGINT)
        said, errors = running.communicate()
        killer.cancel()
    assert (running.returncode, errors) == (0, "")
    lines = [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in said.splitlines()]
    assert lines[0] == (
        f"device {NETWORK.devices[0].address} asks 2 nodes for work, at most 100000 hashes per second. Ctrl-C stops it."
    )
    assert "limit: 50000 hashes per second (0.50 of its owner's 100000 hashes/s, by the plan of round 1)" in lines
    assert any(line.startswith(f"node {DEAD}: no node answers") for line in lines)
    assert any(re.fullmatch(rf"mining block 2 of 0x\w+, difficulty \d+: {url}", line) for line in lines)
    assert any(re.fullmatch(rf"sealed block 0x\w+ after \d+ hashes: {url}", line) for line in lines)
    assert re.fullmatch(r"stopped: 1 blocks sealed, \d+ hashes, \d+ per second", lines[-1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--node", "nonsense"], "found --node 'nonsense', expected http:// or https://"),
        (["--node", DEAD, "--node", DEAD], "found the same --node twice"),
        (["--node", DEAD], "device.json"),
    ],
)
def test_what_cannot_be_mined_with_is_refused(tmp_path: Path, arguments: list[str], message: str) -> None:
    command = [sys.executable, "-m", "bfl", "network", "miner", *arguments, "--key", "device.json"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(BFL_KEY_PASSWORD=PASSWORD), capture_output=True, text=True
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
