"""START HERE. One round of Algorithm 1: seven phases, in lock-step, over the servers that THIS process hosts (P19).

All M of them in a simulation, one on an edge PC: other servers' posts come through the board, which in a simulation
has them at once. What a step does is in `server.py`; what it computes is in `aggregation.py` and `gossip.py`.
"""

from collections.abc import Callable, Sequence

from edge_servers.offloading import pass_on
from edge_servers.server import EdgeServer

Servers = Sequence[EdgeServer]


def plan(servers: Servers) -> None:
    """The leader decides who offloads where (Algorithm 1, line 5); everyone reads it."""
    for server in servers:
        server.post_plan()
    for server in servers:
        server.read_plan()


def train(servers: Servers) -> None:
    """Devices offload (lines 4-7) or train (lines 8-15); servers train on what they were given (lines 17-22)."""
    for server in servers:
        server.send_orders()
    for server in servers:
        server.collect_data()
    train_on_offloaded(servers)
    for server in servers:
        server.collect_gradients()
        server.post_refusals()


def train_on_offloaded(servers: Servers) -> None:
    """Eqs. 4 and 6 on every hosted server that received data, in one call, while the devices train theirs."""
    pass_on(servers)
    trainees = [(server, node) for server in servers if (node := server.training_node())]
    if not trainees:
        return
    first = trainees[0][0]
    updates = first.trainer([node for _, node in trainees], first.task.architecture, first.recipe)
    for (server, _), update in zip(trainees, updates, strict=True):
        server.post_own_gradient(update)


def close(servers: Servers) -> None:
    """The leader closes the list of gradients (P4)."""
    for server in servers:
        server.post_close()
    for server in servers:
        server.read_close()


def gossip(servers: Servers) -> None:
    """Partial aggregation (line 23, eq. 8), then phi consensus steps (lines 25-32, eq. 9)."""
    for server in servers:
        server.post_aggregate()
    for _ in range(servers[0].current.plan.phi):
        for server in servers:
            server.mix()
        for server in servers:
            server.post_iterate()


def verify(servers: Servers) -> None:
    """Replay of the others from the ledger (P13-P15): nothing to verify until there is a chain."""


def model(servers: Servers) -> None:
    """Boost and global update (lines 33-35, eqs. 10-12)."""
    for server in servers:
        server.post_model()
    for server in servers:
        server.read_model()


def seal(servers: Servers) -> None:
    """The round ends (lines 36-40). Until there is a chain no block is mined; the winner is drawn from the seed."""
    divergence = servers[0].measured_divergence()
    for server in servers:
        server.finish_round(divergence)


ALGORITHM_1: tuple[Callable[[Servers], None], ...] = (plan, train, close, gossip, verify, model, seal)
"""The phases of protocol.md, in their order."""
