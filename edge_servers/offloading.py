"""Offloaded data on its way: a device hands it to its home server, which passes it to the server the plan names."""

from collections.abc import Sequence

from edge_servers.posts import Refusal
from edge_servers.server import EdgeServer


def pass_on(servers: Sequence[EdgeServer]) -> None:
    """Give every collected data set to its target among the servers hosted here (a SuperNode has one SuperLink)."""
    hosted = {server.index: server for server in servers}
    for home in servers:
        work = home.current
        for device, samples in work.outgoing.items():
            target = work.plan.assignment[device]
            if target in hosted:
                hosted[target].current.data[device] = samples
            else:
                detail = f"server {target} is not hosted by this process and cannot be reached from here"
                work.refusals.append(Refusal(f"device {device}", "unreachable", detail))
        work.outgoing.clear()
