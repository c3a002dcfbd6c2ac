"""The wires between machines: a bridge in a namespace of its own, and from it a cable to each machine's namespace.

Loss and partitions are classic BPF programs at the bridge's ports, rates are token buckets at both ends of a cable.
That needs `ip` and `tc` and nothing else: nftables is not everywhere, and `netem` (delay) is not in every kernel.
"""

from dataclasses import dataclass, field, replace

from bfl.network.lan.commands import LanError, run_tool

_LOAD_RANDOM, _LOAD_TARGET = "32 0 0 4294963256", "32 0 0 2"  # SKF_AD_RANDOM; the last 4 bytes of a frame's target
_DROP, _PASS = "6 0 0 2", "6 0 0 0"  # TC_ACT_SHOT, TC_ACT_OK


@dataclass(frozen=True)
class Port:
    """What the bridge does with frames of one machine."""

    severed: frozenset[int] = field(default_factory=frozenset)
    loss: float = 0.0


def _program(*, loss: float, severed: frozenset[int] = frozenset()) -> str:
    """Classic BPF for `tc`: drop what goes to a severed machine and, by chance, a share of everything else."""
    lines = [_LOAD_TARGET] if severed else []
    for index in sorted(severed):
        lines += [f"21 0 1 {index}", _DROP]  # if the target is this one
    if loss > 0:
        lines += [_LOAD_RANDOM, f"53 1 0 {min(int(loss * 2**32), 2**32 - 1)}", _DROP]  # unless at least that
    lines.append(_PASS)
    return f"{len(lines)},{','.join(lines)}"


class Switch:
    """A bridge and its ports, by the index of the machine."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._machines: list[str] = []
        self._ports: list[Port] = []
        run_tool("ip", "netns", "add", namespace)
        run_tool("ip", "-n", namespace, "link", "add", "br0", "type", "bridge")
        run_tool("ip", "-n", namespace, "link", "set", "br0", "up")

    def connect(self, namespace: str, address: str) -> int:
        """Make a machine's namespace and its cable; its index."""
        index = len(self._machines)
        end, hardware = f"v{index}", f"02:bf:00:00:{index >> 8:02x}:{index & 255:02x}"
        run_tool("ip", "netns", "add", namespace)
        run_tool("ip", "-n", namespace, "link", "set", "lo", "up")
        cable = ("ip", "link", "add", "eth0", "address", hardware, "netns", namespace, "type", "veth")
        run_tool(*cable, "peer", "name", end, "netns", self._namespace)
        run_tool("ip", "-n", self._namespace, "link", "set", end, "master", "br0", "up")
        # Frames as on a real cable: the kernel would hand over 64 kB at once, and a drop would lose all of them.
        run_tool("ip", "-n", namespace, "link", "set", "eth0", "gso_max_segs", "1")
        run_tool("ip", "-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
        run_tool("ip", "-n", namespace, "link", "set", "eth0", "up")
        run_tool("tc", "-n", self._namespace, "qdisc", "add", "dev", end, "clsact")
        self._machines.append(namespace)
        self._ports.append(Port())
        return index

    def sever(self, groups: list[set[int]]) -> None:
        """Machines of different groups do not reach each other from now on; all others do."""
        for index, port in enumerate(self._ports):
            mine = [group for group in groups if index in group]
            others = [group for group in groups if mine and group not in mine]
            self._set(index, replace(port, severed=frozenset(set().union(*others))))

    def lose(self, index: int, percent: float) -> None:
        """Lose this share of the frames from this machine, and as much of those to it."""
        if not 0 <= percent <= 100:
            raise LanError(f"found a loss of {percent} percent, expected 0 to 100")
        self._set(index, replace(self._ports[index], loss=percent / 100))

    def _set(self, index: int, port: Port) -> None:
        if port == self._ports[index]:
            return
        for hook, program in (
            ("ingress", _program(loss=port.loss, severed=port.severed)),
            ("egress", _program(loss=port.loss)),
        ):
            filter_ = ("filter", "replace", "dev", f"v{index}", hook, "prio", "1", "handle", "1")
            run_tool("tc", "-n", self._namespace, *filter_, "bpf", "da", "bytecode", program)
        self._ports[index] = port

    def limit(self, index: int, rate: str | None) -> None:
        """So much and no more in each direction (`2mbit`); None is as fast as it goes."""
        for namespace, device in ((self._machines[index], "eth0"), (self._namespace, f"v{index}")):
            where = ("dev", device, "root")
            has_one = "tbf" in run_tool("tc", "-n", namespace, "qdisc", "show", *where)
            if rate is not None:
                bucket = ("tbf", "rate", rate, "burst", "16kb", "latency", "200ms")
                run_tool("tc", "-n", namespace, "qdisc", "replace", *where, *bucket)
            elif has_one:
                run_tool("tc", "-n", namespace, "qdisc", "del", *where)

    def plug(self, index: int, is_in: bool) -> None:
        """Pull the cable at the bridge, or put it in again: the machine sees that it has none."""
        run_tool("ip", "-n", self._namespace, "link", "set", f"v{index}", "up" if is_in else "down")
