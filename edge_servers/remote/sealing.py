"""Ends rounds on a node in another process: the leader proposes, devices mine it for real, everybody reads it back."""

import logging
from collections.abc import Callable, Mapping

from chain.client.ledger import Ledger
from chain.client.waiting import wait_until
from chain.errors import ChainError
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.address import Address
from chain.wire.plan import Plan
from clients.vectors import Vector
from edge_servers.founding.standing import Standing
from edge_servers.ledger.block_check import RoundChecker
from edge_servers.ledger.board import Clock
from edge_servers.ledger.chain_sealing import BlockReader
from edge_servers.remote.chain import RemoteChain

_LOG = logging.getLogger(__name__)
_LOOK_S = 2.0


class RemoteSealer(BlockReader):
    """A `Sealer` for one server: what is pending at its node becomes its block once a device has found a nonce."""

    def __init__(
        self, chain: RemoteChain, checker: RoundChecker, ledger_of: Callable[[Address], Ledger], clock: Clock
    ) -> None:
        super().__init__(chain, checker)
        self._ledger_of, self._clock = ledger_of, clock

    def seal(
        self, parent: bytes, leader: Address, plan: Plan, models: Mapping[Address, Vector], until_s: float
    ) -> None:
        """Propose what is pending, and wait until it is mined."""
        try:
            proposed = self._ledger_of(leader).propose()
        except ChainError as error:  # without a block the attempt fails, and the next in rank tries
            _LOG.warning("cannot propose a block: %s", error)
            return
        began_s = self._clock.now()
        left_s = max(0.0, until_s - began_s)
        number = plan.round + FOUNDING_BLOCK
        if wait_until(
            lambda: self._chain.head.block_number >= number, left_s, _LOOK_S, self._clock.now, self._clock.sleep
        ):
            _LOG.info("round %d: mined in %.2f s", plan.round, self._clock.now() - began_s)
        else:
            _LOG.warning("round %d: nobody has mined block %d in %.0f s", plan.round, proposed.block_number, left_s)

    def standing_now(self) -> Standing:
        """Where the network stands after its last final block."""
        return self.standing_after(self._chain.final)
