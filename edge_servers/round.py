"""START HERE. One round of Algorithm 1: seven phases, in lock-step, over the servers that THIS process hosts (P19).

All M of them in a simulation, one on an edge PC: other servers' posts come through the board, which in a simulation
has them at once. What a step does is in `server.py`, what it computes in `aggregation.py` and `gossip.py`, who checks
it in `referee.py`.
"""

import logging
from collections.abc import Callable, Sequence

from chain.wire.address import Address
from edge_servers.devices.offloading import pass_on
from edge_servers.errors import BoardError, LeaderFailedError
from edge_servers.server import EdgeServer

_LOG = logging.getLogger(__name__)
Servers = Sequence[EdgeServer]
Step = Callable[[EdgeServer], object]
Check = Callable[[EdgeServer, float], object]


def plan(servers: Servers) -> None:
    """The leader decides who offloads where (Algorithm 1, line 5); everyone reads it."""
    endorse(servers)  # whoever was killed before it could
    for server in in_order(servers):
        server.begin_round()
    lead(servers, "plan", EdgeServer.post_plan, EdgeServer.read_plan)


def train(servers: Servers) -> None:
    """Devices offload (lines 4-7) or train (lines 8-15); servers train on what they were given (lines 17-22)."""
    for server in servers:
        server.send_orders()
    for server in servers:
        server.collect_data()
    train_on_offloaded(servers)
    for server in servers:
        server.collect_gradients()
    post_gradients(servers)


def train_on_offloaded(servers: Servers) -> None:
    """Eqs. 4 and 6 on every hosted server that received data, in one call, while the devices train theirs."""
    pass_on({server.index: server.current for server in servers})
    trainees = [(server, node) for server in servers if (node := server.training_node())]
    if not trainees:
        return
    first = trainees[0][0]
    updates = first.trainer([node for _, node in trainees], first.task.architecture, first.recipe)
    for (server, _), update in zip(trainees, updates, strict=True):
        server.add_own_gradient(update)


def post_gradients(servers: Servers) -> None:
    """Everything that was collected goes to the board, by address; then who is out of it and why."""
    collected = [(sender, server) for server in servers for sender in server.current.collected]
    for sender, server in sorted(collected, key=lambda each: each[0]):
        server.post_gradient(sender)
    for server in servers:
        server.post_refusals()


def in_order(servers: Servers) -> Servers:
    """By address: posts that come in the order of a block need not be executed again when it is built (C3)."""
    return sorted(servers, key=lambda server: server.address)


def close(servers: Servers) -> None:
    """The leader closes the list of gradients (P4)."""
    lead(servers, "close", EdgeServer.post_close, EdgeServer.read_close)


def gossip(servers: Servers) -> None:
    """Partial aggregation (line 23, eq. 8), then phi consensus steps (lines 25-32, eq. 9)."""
    servers = in_order(servers)
    for server in servers:
        server.post_aggregate()
    for _ in range(servers[0].current.plan.phi):
        for server in servers:
            server.mix()
        for server in servers:
            server.post_iterate()


def verify(servers: Servers) -> None:
    """Everyone replays the others from the ledger and accuses who lied or was silent (P13-P15)."""
    for server in servers:
        server.replay_others()
    for server in in_order(servers):
        server.accuse()


def model(servers: Servers) -> None:
    """Boost and global update (lines 33-35, eqs. 10-12)."""
    lead(servers, "model", EdgeServer.post_model, EdgeServer.read_model)


def seal(servers: Servers) -> None:
    """Devices mine the leader's block, everyone checks it and goes on with its model (lines 36-40)."""
    for server in servers:
        server.seal_round()
    failed = find_failed_leader(servers, EdgeServer.read_seal)
    if failed is not None:
        pass_on_the_lead(servers, "model", failed)
        model(servers)
        seal(servers)
        return
    for server in servers:
        server.finish_round()
    endorse(servers)


def endorse(servers: Servers) -> None:
    """Everyone signs the sealed block, its leader first; a strict majority makes it final (Q1)."""
    for server in sorted(servers, key=lambda server: server.address != server.standing.tenure.leader):
        server.endorse()


def lead(servers: Servers, what: str, post: Step, read: Check) -> None:
    """A step of the leader, by the first in rank that does it rightly: a dead or lying one costs a turn (P12)."""
    for server in servers:
        try:
            post(server)
        except BoardError as error:  # whoever cannot post has failed like one who did not
            _LOG.warning("%s", error)
    failed = find_failed_leader(servers, read)
    if failed is not None:
        pass_on_the_lead(servers, what, failed)
        lead(servers, what, post, read)


def find_failed_leader(servers: Servers, read: Check) -> Address | None:
    """The leader, if its post is missing or wrong; every server looks for itself, but they wait only once."""
    failed: Address | None = None
    wait_s = float(servers[0].settings.rounds.turn_s)
    for server in servers:
        try:
            read(server, wait_s)
        except LeaderFailedError as failure:
            failed, wait_s = failure.leader, 0.0
    return failed


def pass_on_the_lead(servers: Servers, what: str, failed: Address) -> None:
    """Whoever failed is accused once flags are due, what it posted is dropped, and the next in rank acts."""
    if what == "model":
        for server in in_order(servers):
            server.accuse()
    for server in servers:
        server.pass_turn(what, failed)


ALGORITHM_1: tuple[Callable[[Servers], None], ...] = (plan, train, close, gossip, verify, model, seal)
"""The phases of protocol.md, in their order."""
