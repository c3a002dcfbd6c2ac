"""What a node shows of the round that is running: its attempt, who leads it, how far it has come."""

import http.client
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from bfl.network.lan.commands import LanError
from chain.protocol.contract import Call, decode_call, decode_result, encode_call
from chain.protocol.endorsements import Domain, decode_endorsement, quorum
from chain.protocol.passes import Pass, decode_signed
from chain.wire.address import Address
from tests.lan.network import LanNetwork

PHASES = ("plan", "train", "close", "gossip", "verify", "seal")
"""That can be told apart by what is posted; making the model shows nothing until it is there, as verifying does"""
AWAY = (OSError, http.client.HTTPException, LanError, ValueError)
"""How a node answers that is killed, stopped, partitioned, or too busy"""
_LOOK_S = 0.03
Seen = TypeVar("Seen")


@dataclass(frozen=True)
class Sight:
    """The running round, as one node sees it."""

    round: int
    """Also the number of the last final block."""
    attempt: int
    leader: str
    """The edge whose server leads the attempt."""
    phase: str


def phase_of(calls: list[Call], attempt: int, servers: int, phi: int) -> str:
    """How far an attempt has come, by what is pending of it."""
    mine = [call for call in calls if "attempt" in call and call["attempt"] == attempt]
    counts = Counter(call.name for call in mine)
    last = sum(call.name == "iterate" and call["step"] == phi for call in mine)
    if not counts["plan"]:
        return "plan"
    if not counts["close"]:
        return "train" if counts["roll"] < servers else "close"
    if not counts["model"]:
        return "gossip" if last < servers else "verify"
    return "seal"


class RoundWatcher:
    """Looks at the running round through the nodes of a network."""

    def __init__(self, net: LanNetwork) -> None:
        self.net, self._domain = net, Domain.of(net.genesis)
        self._edges = {Address(bytes.fromhex(net.addresses[each].removeprefix("0x"))): each for each in net.edge_names}
        self._rankings: dict[str, list[str]] = {}
        self._calls: dict[str, Call] = {}

    # --- one look

    def sight(self, edge: str) -> Sight:
        """The running round as an edge's node sees it; one of `AWAY` where it does not answer."""
        final = self.net.ask(edge, "eth_getBlockByNumber", "finalized", False)
        round_ = int(final["number"], 16)
        attempt = self.attempt(edge, round_)
        ranking = self._ranking(edge, round_, str(final["hash"]))
        return Sight(round_, attempt, ranking[attempt % len(ranking)], self._phase(edge, round_, attempt))

    def attempt(self, edge: str, round_: int) -> int:
        """The highest attempt at a round that a majority has passed to."""
        signers: dict[int, set[Address]] = {}
        for raw in self.net.ask(edge, "bfl_votes", hex(round_)):
            signed = decode_signed(_bytes(raw), self._domain)
            if isinstance(signed, Pass):
                signers.setdefault(signed.attempt, set()).add(signed.signer)
        most = quorum(self.net.edges)
        return max((attempt for attempt, who in signers.items() if len(who) >= most), default=0)

    def ended_in(self, edge: str, number: int) -> int:
        """The attempt in which a majority signed a final block, also one that was made in an earlier attempt."""
        signed = self.net.ask(edge, "bfl_endorsements", self.net.hash_of(edge, number))
        attempts = Counter(decode_endorsement(_bytes(raw), self._domain).attempt for raw in signed)
        return attempts.most_common(1)[0][0] if attempts else 0

    def _ranking(self, edge: str, round_: int, parent: str) -> list[str]:
        """The edges in the order in which they may lead; it does not change within a round."""
        if parent not in self._rankings:
            head = int(self.net.ask(edge, "eth_blockNumber"), 16)
            at = "pending" if head <= round_ else hex(round_ + 1)
            ranks = {edge_: self._rank(edge, server, at) for server, edge_ in self._edges.items()}
            found = sorted((each for each, rank in ranks.items() if rank < self.net.edges), key=ranks.__getitem__)
            if int(self.net.ask(edge, "eth_blockNumber"), 16) != head or not found:
                raise LanError(f"{edge}: the head has moved on while it was asked for the ranking; ask again")
            self._rankings[parent] = found
        return self._rankings[parent]

    def _rank(self, edge: str, server: Address, at: str) -> int:
        data = "0x" + encode_call("rank", server).hex()
        answer = self.net.ask(edge, "eth_call", {"to": str(self.net.genesis.registry), "data": data}, at)
        return int(decode_result("rank", _bytes(answer)))

    def _phase(self, edge: str, round_: int, attempt: int) -> str:
        pending = self.net.ask(edge, "eth_getBlockByNumber", "pending", True)
        if int(pending["number"], 16) > round_ + 1:
            return "seal"
        calls = [self._call(each["hash"], each["input"]) for each in pending["transactions"]]
        return phase_of(calls, attempt, self.net.edges, self.net.settings.rounds.first_phi)

    def _call(self, transaction: str, data: str) -> Call:
        if transaction not in self._calls:
            self._calls[transaction] = decode_call(_bytes(data))
        return self._calls[transaction]

    # --- looking until something is seen

    def wait(self, look: Callable[[], Seen | None], timeout_s: float) -> Seen | None:
        """What `look` finds, as soon as it finds something; None if it is nothing in this time."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            try:
                found = look()
            except AWAY:
                found = None
            if found is not None:
                return found
            time.sleep(_LOOK_S)
        return None

    def wait_for_new_round(self, edge: str, timeout_s: float) -> tuple[Sight, float] | None:
        """The next round, as soon as it has begun at an edge's node, and when that was (monotonic)."""
        before = self.wait(lambda: self.net.final(edge), timeout_s)
        if before is None:
            return None
        began = self.wait(lambda: time.monotonic() if self.net.final(edge) > before else None, timeout_s)
        sight = self.wait(lambda: self.sight(edge), timeout_s)
        return None if began is None or sight is None else (sight, began)


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))
