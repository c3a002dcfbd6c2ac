"""START HERE. One round of Algorithm 1: seven phases, in lock-step, over the servers that THIS process hosts (P19).

All M of them in a simulation, one on an edge PC: other servers' posts come through the board, which in a simulation
has them at once. What a step does is in `server.py`, what it computes in `aggregation.py` and `gossip.py`, who checks
it in `referee.py`.
"""

import logging
from collections.abc import Callable, Sequence

from chain.errors import ChainError, DivergedError
from edge_servers.errors import BoardError
from edge_servers.leading import ATTEMPT_ENDS
from edge_servers.server import EdgeServer

_LOG = logging.getLogger(__name__)
Servers = Sequence[EdgeServer]
Step = Callable[[EdgeServer], object]


def plan(servers: Servers) -> None:
    """The leader decides who offloads where (Algorithm 1, line 5); everyone reads it."""
    lead(servers, EdgeServer.post_plan, EdgeServer.read_plan)


def train(servers: Servers) -> None:
    """Devices offload (lines 4-7) or train (lines 8-15); servers train on what they were given (lines 17-22)."""
    everyone(servers, EdgeServer.send_orders)
    everyone(servers, EdgeServer.collect_data)
    train_on_offloaded(at_work(servers))
    everyone(servers, EdgeServer.collect_gradients)
    post_gradients(at_work(servers))


def train_on_offloaded(servers: Servers) -> None:
    """Eqs. 4 and 6 on every hosted server that received data, in one call, while the devices train theirs."""
    hosted = {server.index: server.current for server in servers}
    for server in servers:
        server.pass_on_data(hosted)
    for server in servers:
        server.fetch_data()
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
    for server in in_order(servers):
        server.post_roll()


def in_order(servers: Servers) -> Servers:
    """By address: posts that come in the order of a block need not be executed again when it is built (C3)."""
    return sorted(servers, key=lambda server: server.address)


def close(servers: Servers) -> None:
    """The leader closes the list of gradients (P4)."""
    lead(servers, EdgeServer.post_close, EdgeServer.read_close)


def gossip(servers: Servers) -> None:
    """Partial aggregation (line 23, eq. 8), then phi consensus steps (lines 25-32, eq. 9)."""
    servers = in_order(servers)
    for server in servers:
        server.post_aggregate()
    for _ in range(servers[0].current.plan.phi):
        everyone(servers, EdgeServer.mix)
        everyone(servers, EdgeServer.post_iterate)


def verify(servers: Servers) -> None:
    """Everyone replays the others from the ledger and accuses who lied or was silent (P13-P15)."""
    everyone(servers, EdgeServer.replay_others)
    everyone(in_order(servers), EdgeServer.accuse)
    everyone(servers, EdgeServer.hear_accusers)  # when all of this process have had their turn


def model(servers: Servers) -> None:
    """Boost and global update (lines 33-35, eqs. 10-12)."""
    lead(servers, EdgeServer.post_model, EdgeServer.read_model)


def seal(servers: Servers) -> None:
    """Devices mine the leader's block (lines 36-40); everyone checks and signs it, the leader first (Q1)."""
    for server in servers:
        server.seal_round()
    everyone(sorted(servers, key=lambda server: not server.leads), EdgeServer.read_seal)


def lead(servers: Servers, post: Step, read: Step) -> None:
    """A step of the leader, which everybody reads; for whom it is missing or wrong, the attempt has failed (D3.2)."""
    everyone(servers, lambda server: as_well_as_it_can(server, post))
    everyone(servers, read)


def everyone(servers: Servers, step: Step) -> None:
    """A step of all who are at work; it may end the attempt for one of them, and not for the others."""
    for server in at_work(servers):
        try:
            step(server)
        except ATTEMPT_ENDS as reason:
            server.give_up(reason)


def as_well_as_it_can(server: EdgeServer, post: Step) -> None:
    """Whoever cannot post has failed like one who did not: the others wait for it as long."""
    try:
        post(server)
    except DivergedError:
        raise
    except (BoardError, ChainError) as error:
        _LOG.warning("%s", error)


# --- attempts (D3)


def begin(servers: Servers) -> None:
    """A round begins."""
    for server in servers:
        server.begin_round()
    for server in sorted(servers, key=lambda server: not server.leads):
        server.sign_what_is_sealed()


def at_work(servers: Servers) -> Servers:
    """Who is still taking part in this attempt."""
    return [server for server in servers if server.is_at_work]


def settle(servers: Servers) -> bool:
    """Whether the round has ended: a majority has signed a block of it, in this attempt or an earlier one."""
    ended = [server.wait_until_final() for server in servers]  # every one of them looks
    return any(ended)


def pass_on(servers: Servers) -> None:
    """This attempt has failed: everyone signs that, and the next one begins with a majority."""
    for server in in_order(servers):
        server.pass_on()
    for server in servers:
        server.join_next()


def finish(servers: Servers) -> None:
    """Everyone goes on with the block's model."""
    for server in servers:
        server.finish_round()


ALGORITHM_1: tuple[Callable[[Servers], None], ...] = (plan, train, close, gossip, verify, model, seal)
"""The phases of protocol.md, in their order."""
