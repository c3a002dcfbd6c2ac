"""Nodes that answer over HTTP, for tests of nodes that know each other."""

import time
from collections.abc import Callable
from contextlib import ExitStack

from chain.node.node import Node
from chain.rpc.server import RpcServer, ServerParams
from tests.chain.network import Clock, genesis


def wait_until(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def served_node(stack: ExitStack, clock: Clock | None = None, **changes: int) -> tuple[Node, str]:
    node = Node.in_memory(genesis(**changes), now=clock or Clock())
    stack.callback(node.close)
    return node, stack.enter_context(RpcServer(node, ServerParams(port=0)))
