"""Where attacks enter a simulation: around an attacker's board and sealer. Honest code knows nothing of them."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from bfl.attacks.conduct import LATE, WITHHELD, Conduct, Twice, conduct_of, honest
from bfl.attacks.kinds import Attack
from chain.wire.address import Address
from chain.wire.plan import Plan
from clients.models import Vector
from clients.orders import Order
from edge_servers.founding.network import LearningTask, Network
from edge_servers.founding.standing import Standing
from edge_servers.hosting import Hosted, Hosting
from edge_servers.leading import LedgerAccess
from edge_servers.learning.gradients import Gradient
from edge_servers.ledger.attempts import Attempts
from edge_servers.ledger.board import Board, RoundSlot
from edge_servers.ledger.sealing import Seal, Sealer
from edge_servers.parameters import Settings

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

    from chain.node.node import Node
    from edge_servers.ledger.chain_attempts import ChainAttempts
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

    def wait_for(self, slot: RoundSlot, senders: Iterable[Address], until_s: float) -> dict[Address, Any]:
        """As on the honest board."""
        return self.board.wait_for(slot, senders, until_s)

    def wait(self, ready: Callable[[], Any], until_s: float) -> Any:
        """As on the honest board."""
        return self.board.wait(ready, until_s)

    def with_terms(self, orders: list[Order], addresses: Sequence[Address]) -> list[Order]:
        """As on the honest board."""
        return self.board.with_terms(orders, addresses)

    def read_signed(self, transaction: bytes, payload: bytes, sender: Address, plan: Plan) -> Gradient:
        """As on the honest board."""
        return self.board.read_signed(transaction, payload, sender, plan)


class DishonestSealer:
    """A sealer whose leader may keep its block to itself, or hand it out when its time is over."""

    def __init__(self, sealer: Sealer, conduct: Conduct) -> None:
        self.sealer, self._conduct = sealer, conduct
        self._late: Callable[[], None] | None = None

    def seal(
        self, parent: bytes, leader: Address, plan: Plan, models: Mapping[Address, Vector], until_s: float
    ) -> None:
        """Seal, unless the leader's conduct withholds it."""
        said = self._conduct(RoundSlot(plan.round, "seal"), None)
        if said is LATE:
            self._late = partial(self.sealer.seal, parent, leader, plan, models, until_s)
        elif said is not WITHHELD:
            self.sealer.seal(parent, leader, plan, models, until_s)

    def seal_late(self) -> None:
        """Hand out the block that was kept back."""
        late, self._late = self._late, None
        if late is not None:
            late()

    def find(self, round_: int) -> Seal | None:
        """As the honest sealer."""
        return self.sealer.find(round_)

    def standing(self, round_: int) -> Standing | None:
        """As the honest sealer."""
        return self.sealer.standing(round_)


class DishonestAttempts:
    """The attempts of a server that signs what no honest one does, as its conduct has it."""

    def __init__(self, attempts: "ChainAttempts", conduct: Conduct, sealer: DishonestSealer) -> None:
        self.attempts, self._conduct, self._sealer = attempts, conduct, sealer

    def __getattr__(self, name: str) -> Any:
        """All else is honest."""
        return getattr(self.attempts, name)

    def endorse(self, server: Address, round_: int, attempt: int) -> bool:
        """Sign, and then another block of the same attempt, or a pass that hides it."""
        had_signed = self.attempts.has_signed(server, round_, attempt)
        signed = self.attempts.endorse(server, round_, attempt)
        said = self._conduct(RoundSlot(round_, "endorsement", attempt=attempt), None)
        if signed and not had_signed and isinstance(said, Twice):
            ledger = self.attempts.ledger_of(server)
            if said.second == "block":
                no_block = sha256(f"no block of round {round_}".encode()).digest()
                ledger.access.send_endorsement(ledger.endorse(round_, attempt, no_block, 0))
            else:
                ledger.access.send_pass(ledger.sign_pass(round_, attempt + 1, None, 0))
        return signed

    def pass_on(self, server: Address, round_: int, attempt: int) -> None:
        """Pass on, and only then hand out a block that was kept back."""
        self.attempts.pass_on(server, round_, attempt)
        self._sealer.seal_late()


def disguise(access: LedgerAccess, server: Address, conduct: Conduct, post_again: PostAgain) -> LedgerAccess:
    """A server's way to the ledger as its conduct has it; the honest one where it is honest."""
    board = access.board.board if isinstance(access.board, DishonestBoard) else access.board
    sealer = access.sealer.sealer if isinstance(access.sealer, DishonestSealer) else access.sealer
    attempts = access.attempts.attempts if isinstance(access.attempts, DishonestAttempts) else access.attempts
    if conduct is honest:
        return replace(access, board=board, sealer=sealer, attempts=attempts)
    late = DishonestSealer(sealer, conduct)
    if hasattr(attempts, "ledger_of"):
        attempts = cast(Attempts, DishonestAttempts(cast("ChainAttempts", attempts), conduct, late))
    return replace(access, board=DishonestBoard(board, server, conduct, post_again), sealer=late, attempts=attempts)


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
