"""Where attacks enter a simulation: around an attacker's board and sealer. Honest code knows nothing of them."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bfl.attacks.conduct import WITHHELD, Conduct, Twice, conduct_of, honest
from bfl.attacks.kinds import Attack
from chain.wire.address import Address
from chain.wire.plan import Plan
from clients.models import Vector
from clients.orders import Order
from edge_servers.founding.network import LearningTask, Network
from edge_servers.hosting import Hosted, Hosting
from edge_servers.leading import LedgerAccess
from edge_servers.learning.gradients import Gradient
from edge_servers.ledger.board import Board, RoundSlot
from edge_servers.ledger.sealing import Seal, Sealer
from edge_servers.parameters import Settings

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

    from chain.node.node import Node
    from edge_servers.ledger.chain_board import ChainBoard

PostAgain = Callable[[RoundSlot, Any], None]
"""Posts a second body for one slot wherever somebody may take it: what an equivocator does"""


class DishonestBoard:
    """A board on which one server posts what its conduct makes of it. All else is the honest board's."""

    def __init__(self, board: Board, server: Address, conduct: Conduct, post_again: PostAgain) -> None:
        self.board = board
        self._server, self._conduct, self._post_again = server, conduct, post_again

    @property
    def is_signed(self) -> bool:
        """As on the honest board."""
        return self.board.is_signed

    def post(self, slot: RoundSlot, sender: Address, body: Any) -> Any:
        """What the server says instead of `body`; it goes on from its own lie."""
        said = self._conduct(slot, body) if sender == self._server else body
        if said is WITHHELD:
            return body
        if not isinstance(said, Twice):
            return self.board.post(slot, sender, said)
        self.board.post(slot, sender, said.first)
        self._post_again(slot, said.second)
        return said.first

    def read(self, slot: RoundSlot) -> dict[Address, Any]:
        """As on the honest board."""
        return self.board.read(slot)

    def wait_for(self, slot: RoundSlot, senders: Iterable[Address], deadline_s: float) -> dict[Address, Any]:
        """As on the honest board."""
        return self.board.wait_for(slot, senders, deadline_s)

    def drop(self, slot: RoundSlot, sender: Address) -> None:
        """As on the honest board."""
        self.board.drop(slot, sender)

    def endorse(self, round_: int, sender: Address) -> None:
        """As on the honest board."""
        self.board.endorse(round_, sender)

    def post_endorsements(self, round_: int, sender: Address) -> None:
        """As on the honest board."""
        self.board.post_endorsements(round_, sender)

    def wait_turn(self, rank: int) -> None:
        """As on the honest board."""
        self.board.wait_turn(rank)

    def with_terms(self, orders: list[Order], addresses: Sequence[Address]) -> list[Order]:
        """As on the honest board."""
        return self.board.with_terms(orders, addresses)

    def read_signed(self, transaction: bytes, payload: bytes, sender: Address, plan: Plan) -> Gradient:
        """As on the honest board."""
        return self.board.read_signed(transaction, payload, sender, plan)


class DishonestSealer:
    """A sealer whose leader may keep its block to itself."""

    def __init__(self, sealer: Sealer, conduct: Conduct) -> None:
        self.sealer, self._conduct = sealer, conduct

    def seal(self, parent: bytes, leader: Address, plan: Plan, models: Mapping[Address, Vector]) -> None:
        """Seal, unless the leader's conduct withholds it."""
        if self._conduct(RoundSlot(plan.round, "seal"), None) is not WITHHELD:
            self.sealer.seal(parent, leader, plan, models)

    def find(self, round_: int) -> Seal | None:
        """As the honest sealer."""
        return self.sealer.find(round_)

    def wait_for(self, round_: int, deadline_s: float) -> Seal | None:
        """As the honest sealer."""
        return self.sealer.wait_for(round_, deadline_s)


def disguise(access: LedgerAccess, server: Address, conduct: Conduct, post_again: PostAgain) -> LedgerAccess:
    """A server's way to the ledger as its conduct has it; the honest one where it is honest."""
    board = access.board.board if isinstance(access.board, DishonestBoard) else access.board
    sealer = access.sealer.sealer if isinstance(access.sealer, DishonestSealer) else access.sealer
    if conduct is not honest:
        board, sealer = DishonestBoard(board, server, conduct, post_again), DishonestSealer(sealer, conduct)
    return replace(access, board=board, sealer=sealer)


def post_nowhere(slot: RoundSlot, body: Any) -> None:
    """Without a chain the first word counts, and nobody notices the second."""


def post_on_every_node(board: "ChainBoard", account: "LocalAccount", nodes: "Sequence[Node]") -> PostAgain:
    """Sign another body for the slot and hand it to every node: each takes one, and keeps both as evidence (P15)."""
    from chain.errors import ChainError
    from chain.node.access import LocalLedger

    def post_again(slot: RoundSlot, body: Any) -> None:
        for node in nodes:
            with contextlib.suppress(ChainError):
                board.send(slot, body, LocalLedger(node, account))

    return post_again


class AttackedHosting:
    """A hosting in which the servers that attacks name are not honest."""

    def __init__(self, hosting: Hosting, attacks: Sequence[Attack], settings: Settings) -> None:
        self._hosting, self._attacks, self._settings = hosting, attacks, settings

    def address(self, role: str, index: int) -> Address:
        """As the honest hosting."""
        return self._hosting.address(role, index)

    def open(self, network: Network, task: LearningTask) -> Hosted:
        """As the honest hosting, with the attackers' boards and sealers disguised."""
        conducts = [conduct_of(self._attacks, m, self._settings, network.name) for m in range(len(network.servers))]
        hosted = self._hosting.open(network, task)
        for m, (server, conduct) in enumerate(zip(network.servers, conducts, strict=True)):
            hosted.accesses[m] = disguise(hosted.accesses[m], server, conduct, self._second_posts(hosted, m))
        return hosted

    def _second_posts(self, hosted: Hosted, server: int) -> PostAgain:
        if not self._settings.rounds.is_on_chain:
            return post_nowhere
        from edge_servers.chain_hosting import ChainHosting, HostedChain
        from edge_servers.ledger.chain_board import ChainBoard

        board = hosted.accesses[server].board
        if not (isinstance(hosted, HostedChain) and isinstance(self._hosting, ChainHosting)):
            return post_nowhere
        if not isinstance(board, ChainBoard):
            return post_nowhere
        return post_on_every_node(board, self._hosting.account("server", server), hosted.nodes)
