"""The test network itself: what goes wrong in it goes wrong, and nothing of it stays behind."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bfl.network.lan import leftovers
from bfl.network.lan.commands import LanError, run_tool
from tests.lan.asking import ask, connect, reaches, wait_until_reaches
from tests.lan.lan import Lan
from tests.lan.machine import Machine, NeedsNamespacesError
from tests.lan.process import MachineProcess

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
PORT = 8545
SERVER = [sys.executable, "-I", "-S", str(Path(__file__).with_name("tiny_server.py"))]
EDGES = ["edge-0", "edge-1", "edge-2"]


def serve(machine: Machine) -> MachineProcess:
    process = machine.start("server", [*SERVER, machine.address, str(PORT)])
    process.wait_for("serving", 10)
    return process


def url(machine: Machine) -> str:
    return f"http://{machine.address}:{PORT}/"


def order(machine: Machine, text: str, source: Machine | None = None) -> str:
    return ask(source or machine, url(machine), text.encode()).body.decode()


@pytest.fixture(scope="module")
def opened(request: pytest.FixtureRequest) -> Iterator[Lan]:
    """Three edges that serve, and a device."""
    request.getfixturevalue("namespaced")
    with Lan.open([*EDGES, "device-0"], namespaces=True) as lan:
        for name in EDGES:
            serve(lan[name])
        yield lan


@pytest.fixture
def lan(opened: Lan) -> Iterator[Lan]:
    """The same, as good as new."""
    yield opened
    opened.heal()
    for machine in opened.machines.values():
        machine.lose(percent=0)
        machine.limit(rate=None)
        machine.plug()
        machine.empty_disk()


def reached(lan: Lan) -> set[tuple[str, str]]:
    """Who reaches whom, all asked at once."""
    pairs = [(source, edge) for source in lan.machines for edge in EDGES if source != edge]
    with ThreadPoolExecutor(len(pairs)) as pool:
        answers = list(pool.map(lambda pair: reaches(lan[pair[0]], url(lan[pair[1]]), 0.6), pairs))
    return {pair for pair, is_answered in zip(pairs, answers, strict=True) if is_answered}


def test_machines_reach_each_other_on_the_same_port(namespaces: bool) -> None:
    with Lan.open(["edge-0", "edge-1"], namespaces=namespaces) as lan:
        first, second = lan["edge-0"], lan["edge-1"]
        for machine in (first, second):
            serve(machine)
        assert ask(first, url(second), b"take").body == b"taken"
        assert ask(second, url(first), b"take").body == b"taken"
        assert order(first, "write here 3", source=second) == "written"
        assert (first.folder / "here").read_bytes() == bytes(3)
        assert not (second.folder / "here").exists()


def test_nobody_answers_at_a_machines_loopback_not_even_programs_of_this_computer(lan: Lan) -> None:
    assert not reaches(lan["edge-1"], f"http://127.0.0.1:{PORT}/")


def test_a_partition_stops_both_directions_and_healing_restores_them(lan: Lan) -> None:
    everybody = reached(lan)
    assert len(everybody) == 9
    lan.partition({"edge-0"}, {"edge-1", "edge-2"})
    cut = {("edge-0", "edge-1"), ("edge-0", "edge-2"), ("edge-1", "edge-0"), ("edge-2", "edge-0")}
    assert reached(lan) == everybody - cut
    lan.partition({"edge-0", "device-0"}, {"edge-1"}, {"edge-2"})
    assert reached(lan) == {("device-0", "edge-0")}
    lan.heal()
    assert reached(lan) == everybody


def test_a_connection_kept_open_is_silent_in_a_partition_and_goes_on_after_it(lan: Lan) -> None:
    edge = lan["edge-1"]
    waiting, asking = (http.client.HTTPConnection(edge.address, PORT) for _ in range(2))
    for connection in (waiting, asking):
        connection.sock = connect(lan["edge-0"], edge.address, PORT, timeout_s=0.5)
        connection.request("POST", "/", b"take")
        assert connection.getresponse().read() == b"taken"
    lan.partition({"edge-0"}, {"edge-1"})
    asking.request("POST", "/", b"bytes 5")
    with pytest.raises(TimeoutError):
        asking.sock.recv(1, socket.MSG_PEEK)
    lan.heal()
    asking.sock.settimeout(10)
    assert asking.getresponse().read() == bytes(5)  # sent in the partition, and sent again by TCP
    waiting.request("POST", "/", b"bytes 6")
    assert waiting.getresponse().read() == bytes(6)
    for connection in (waiting, asking):
        connection.close()


def seconds_for(lan: Lan, body: bytes) -> float:
    start_s = time.monotonic()
    assert ask(lan["edge-0"], url(lan["edge-1"]), body, timeout_s=20).status == 200
    return time.monotonic() - start_s


def test_a_limit_slows_a_megabyte_in_each_direction_until_it_is_lifted(lan: Lan) -> None:
    up, down = b"take " + bytes(1_000_000), b"bytes 1000000"
    free_s = max(seconds_for(lan, up), seconds_for(lan, down))
    lan["edge-1"].limit(rate="8mbit")
    assert seconds_for(lan, up) > max(0.7, 3 * free_s)  # 1 s at 8 Mbit/s, less what the bucket lets through at once
    assert seconds_for(lan, down) > max(0.7, 3 * free_s)
    lan["edge-1"].limit(rate="80mbit")
    assert seconds_for(lan, up) < 0.7
    lan["edge-1"].limit(rate=None)
    lan["edge-1"].limit(rate=None)
    assert max(seconds_for(lan, up), seconds_for(lan, down)) < 0.7


def datagrams(source: Machine, target: Machine, count: int) -> int:
    """How many of so many arrive."""

    def opened() -> socket.socket:
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    arrived = 0
    with source.inside(opened) as sending, target.inside(opened) as receiving:
        receiving.bind((target.address, 0))
        receiving.settimeout(0.2)
        where = receiving.getsockname()
        for start in range(0, count, 50):  # fewer than what a receiver holds
            for number in range(start, min(start + 50, count)):
                sending.sendto(b"%d" % number, where)
            with contextlib.suppress(TimeoutError):
                for _ in range(50):
                    receiving.recv(16)
                    arrived += 1
    return arrived


def test_loss_drops_its_share_of_datagrams_each_way_and_no_more_when_it_is_over(lan: Lan) -> None:
    first, second = lan["edge-0"], lan["edge-1"]
    assert datagrams(first, second, 500) == 500
    first.lose(percent=2)
    # Of 500, 10 are lost on average with a deviation of 3.1: none at all once in 24,000 times, more than 35 never.
    assert 465 <= datagrams(first, second, 500) < 500
    assert 465 <= datagrams(second, first, 500) < 500
    assert order(second, "bytes 200000", source=first) == "\0" * 200_000
    first.lose(percent=100)
    assert datagrams(first, second, 50) == datagrams(second, first, 50) == 0
    first.lose(percent=0)
    assert datagrams(first, second, 500) == 500


def test_an_unplugged_machine_hears_nothing_until_it_is_plugged_in_and_keeps_its_limits(lan: Lan) -> None:
    edge = lan["edge-0"]
    edge.limit("8mbit")
    edge.unplug()
    assert {pair for pair in reached(lan) if "edge-0" in pair} == set()
    assert edge.inside(lambda: Path("/proc/self/net/route").read_text(encoding="utf-8")) != ""
    assert order(edge, "take") == "taken"  # itself
    edge.plug()
    wait_until_reaches(lan["edge-1"], url(edge), 10)
    wait_until_reaches(edge, url(lan["edge-1"]), 10)
    assert seconds_for(lan, b"bytes 1000000") > 0.7


def test_a_stopped_process_is_silent_and_goes_on_and_a_killed_one_comes_back(namespaces: bool) -> None:
    with Lan.open(["edge-0", "device-0"], namespaces=namespaces) as lan:
        edge, device = lan["edge-0"], lan["device-0"]
        server = serve(edge)
        server.stop()
        assert not reaches(device, url(edge), 0.3)
        assert server.is_alive
        server.go_on()
        assert reaches(device, url(edge), 5)
        before = server.pid
        server.kill()
        assert server.wait(0) == -signal.SIGKILL
        assert not server.is_alive
        assert not reaches(device, url(edge))
        with pytest.raises(LanError, match=r"edge-0/server has ended with -9; it said:\n"):
            server.stop()
        server.restart()
        server.wait_for("serving", 10)
        assert server.pid != before
        assert reaches(device, url(edge), 5)
        assert server.log.read_text(encoding="utf-8").count("serving") == 2
        assert server.log.name == "edge-0.server.log"
        assert server.terminate() == -signal.SIGTERM


def test_a_clock_is_wrong_for_what_starts_afterwards(namespaces: bool) -> None:
    with Lan.open(["edge-0"], namespaces=namespaces) as lan:
        edge = lan["edge-0"]
        server = serve(edge)
        edge.skew(-2.5)
        assert order(edge, "clock") == "right"
        server.restart()
        server.wait_for("serving", 10)
        assert order(edge, "clock") == "-2.5"


def test_a_full_disk_is_full_for_one_machine_until_it_is_emptied(lan: Lan) -> None:
    edge, other = lan["edge-0"], lan["edge-1"]
    edge.fill_disk()
    assert order(edge, "write page 4096") == "No space left on device"
    assert order(other, "write page 4096") == "written"
    edge.empty_disk()
    edge.empty_disk()
    assert order(edge, "write page 4096") == "written"


def test_a_process_ends_with_everything_it_started_also_in_another_session() -> None:
    code = "import subprocess, time; print(subprocess.Popen(['sleep', '60'], start_new_session=True).pid, flush=True)"
    with Lan.open(["edge-0", "edge-1"]) as lan:
        parent = lan["edge-0"].start("parent", [sys.executable, "-I", "-c", f"{code}; time.sleep(60)"])
        namesake = lan["edge-1"].start("parent", ["sleep", "60"])
        neighbour = lan["edge-0"].start("parent-2", ["sleep", "60"])
        child = int(parent.wait_for("", 10))
        assert Path(f"/proc/{child}").exists()
        parent.kill()
        assert not Path(f"/proc/{child}").exists() or is_zombie(child)
        assert namesake.is_alive
        assert neighbour.is_alive


@pytest.mark.usefixtures("namespaced")
def test_what_hides_its_environment_is_found_by_its_namespace() -> None:
    with Lan.open(["edge-0"], namespaces=True) as lan:
        hidden = ["env", "-i", "setsid", "--fork", "/bin/sleep", "61"]
        assert lan["edge-0"].start("parent", hidden).wait(10) == 0
        (sleeper,) = run_tool("ip", "netns", "pids", f"{lan.name}.edge-0").split()
    assert not Path(f"/proc/{sleeper}").exists() or is_zombie(int(sleeper))


def is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"


def left_of(name: str) -> list[str]:
    return [each for each in leftovers.found(name.partition("-")[0]) if leftovers.is_part(each, name)]


def test_nothing_is_left_behind_and_an_error_tells_what_processes_said(namespaces: bool, tmp_path: Path) -> None:
    with Lan.open(["edge-0", "edge-1"], namespaces=namespaces) as lan:
        serve(lan["edge-0"]).stop()
        assert left_of(lan.name) != []
    assert left_of(lan.name) == []
    assert not lan.folder.exists()
    started: list[Lan] = []

    def fail() -> None:
        with Lan.open(["edge-0"], namespaces=namespaces, folder=tmp_path) as lan:
            started.append(lan)
            serve(lan["edge-0"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        fail()
    assert caught.value.__notes__ == ["--- edge-0, server (alive):\nserving"]
    (lan,) = started
    assert left_of(lan.name) == []
    assert not Path(f"/proc/{lan['edge-0'].processes['server'].pid}").exists()
    assert [path.name for path in tmp_path.rglob("*")] == ["logs", "edge-0.server.log"]


def test_sweeping_removes_what_a_killed_harness_left_and_nothing_of_a_living_one(namespaces: bool) -> None:
    prefix = f"swept{os.getpid()}"
    code = (
        "import sys, time; from tests.lan.lan import Lan\n"
        f"with Lan.open(['edge-0', 'edge-1'], {prefix!r}, namespaces={namespaces}) as lan:\n"
        "    print(lan.name, lan['edge-0'].start('sleeper', ['sleep', '60']).pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        name, sleeper = harness.stdout.readline().split()
        with Lan.open(["edge-0"], prefix, namespaces=namespaces) as mine:
            mine["edge-0"].start("sleeper", ["sleep", "60"])
            theirs, ours = left_of(name), left_of(mine.name)
            assert Lan.sweep(prefix) == []
            harness.kill()
            harness.wait(10)
            assert sorted(left_of(name)) == sorted(theirs) != []
            assert Lan.sweep(prefix) == [name]
            assert left_of(name) == []
            assert not Path(f"/proc/{sleeper}").exists() or is_zombie(int(sleeper))
            assert sorted(left_of(mine.name)) == sorted(ours) != []
    assert leftovers.found(prefix) == set()


def test_without_namespaces_a_network_says_what_it_cannot_do() -> None:
    with Lan.open(["edge-0", "edge-1"], namespaces=False) as lan:
        edge = lan["edge-0"]
        calls = {
            "partition": lambda: lan.partition({"edge-0"}, {"edge-1"}),
            "limit": lambda: edge.limit("2mbit"),
            "lose": lambda: edge.lose(2),
            "unplug": edge.unplug,
            "fill_disk": edge.fill_disk,
        }
        assert lan.cannot == tuple(calls)
        for call in calls.values():
            with pytest.raises(NeedsNamespacesError, match="needs namespaces"):
                call()
        assert edge.address.startswith("127.")
        assert edge.address != lan["edge-1"].address


@pytest.mark.usefixtures("namespaced")
def test_with_namespaces_there_is_nothing_a_network_cannot_do() -> None:
    with Lan.open(["edge-0"], namespaces=True) as lan:
        assert lan.cannot == ()


def test_a_tool_that_fails_is_named_with_what_it_said() -> None:
    with pytest.raises(LanError, match=r"`ls /no/such/folder` ended with 2: ls: .*No such file"):
        run_tool("ls", "/no/such/folder")
    with pytest.raises(LanError, match="found no no-such-tool; install it"):
        run_tool("no-such-tool")


@pytest.mark.parametrize("names", [[], ["Edge"], ["a", "a"], ["a.b"], [f"device-{n}" for n in range(65)]])
def test_names_of_machines_are_few_different_and_plain(names: list[str]) -> None:
    with pytest.raises(LanError, match="expected 1 to 64 different names like edge-0"), Lan.open(names):
        pass


def test_what_makes_no_sense_is_refused() -> None:
    with Lan.open(["edge-0"]) as lan:
        with pytest.raises(LanError, match="found no machine 'edge-9'"):
            lan["edge-9"]
        sleeper = lan["edge-0"].start("sleeper", ["sleep", "60"])
        with pytest.raises(LanError, match="each with a name of its own"):
            lan["edge-0"].start("sleeper", ["sleep", "60"])
        with pytest.raises(LanError, match=r"did not end within 0\.01 s"):
            sleeper.wait(0.01)
        with pytest.raises(LanError, match=r"no line with 'never' \(waited for 0\.01 s\)"):
            sleeper.wait_for("never", 0.01)
        with pytest.raises(LanError, match="found prefix 'B-L'"), Lan.open(["edge-0"], "B-L"):
            pass
        if lan.cannot == ():
            with pytest.raises(LanError, match="expected each machine at most once"):
                lan.partition({"edge-0"}, {"edge-0"})
            with pytest.raises(LanError, match="found a loss of 101 percent"):
                lan["edge-0"].lose(101)
            with pytest.raises(LanError, match=r"`tc .* rate fast .*ended with"):
                lan["edge-0"].limit("fast")


def test_a_call_inside_a_machine_raises_what_it_raised_and_does_not_last_for_ever() -> None:
    with Lan.open(["edge-0"]) as lan:
        with pytest.raises(ZeroDivisionError):
            lan["edge-0"].inside(lambda: 1 // 0)
        with pytest.raises(LanError, match=r"inside edge-0 did not end within 0\.01 s"):
            lan["edge-0"].inside(lambda: time.sleep(0.1), timeout_s=0.01)
