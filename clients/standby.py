"""To which edge a device comes (D6): home, or its standby while a majority of all edges says that home is dormant.

The word of one node is not enough, nor is the silence of home. Fewer liars than half of all edges move no device, and
one that hears less than a majority stays where it is. Wherever it is, it answers what its wallet accepts (Q5), no more.
"""

import threading
import time
from collections.abc import Callable, Sequence

from web3 import Web3

from chain.client.asking import read_bytes, request
from chain.client.tls import CheckIdentity
from chain.errors import ChainError, IdentityError
from chain.protocol.contract import decode_result, encode_call
from chain.wire.address import Address
from chain.wire.identity import Identity

EVERY_S = 5.0
"""Between two questions to a node"""
_STALE = 4
"""After so many questions without an answer a node's last word counts for nothing"""
IsDormant = Callable[[Address], bool]
"""A node's word about a server, in the round that is running"""


class Whereabouts:
    """Where a device is, and where the nodes of its network say it should be."""

    def __init__(
        self, nodes: Sequence[IsDormant], home: Address, standby: Address, every_s: float = EVERY_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`nodes`: all edges'."""
        self._nodes, self._home, self._standby, self._every_s, self._now = list(nodes), home, standby, every_s, now
        self._words: dict[int, tuple[float, bool]] = {}
        self._heard = threading.Event()
        self.is_at_home = True

    def follow(self, stop: threading.Event, moved: Callable[[bool], None]) -> None:
        """Until it is stopped; `moved` is told at every change whether home is the place."""
        for number in range(len(self._nodes)):  # a thread each: a node that is off makes nobody wait
            threading.Thread(target=self._listen, args=(number, stop), name=f"node {number}", daemon=True).start()
        while not stop.is_set():
            self._heard.wait(self._every_s)
            self._heard.clear()
            if self.decide():
                moved(self.is_at_home)

    def _listen(self, number: int, stop: threading.Event) -> None:
        while not stop.is_set():
            self.ask(number)
            self._heard.set()
            stop.wait(self._every_s)

    def ask(self, number: int) -> None:
        """Hear one node: whether this device is its standby's, by the rule that servers follow (`Network.serving`)."""
        is_dormant = self._nodes[number]
        try:
            word = is_dormant(self._home) and not is_dormant(self._standby)
        except ChainError:  # it has no word; `bfl network status` tells why
            return
        self._words[number] = self._now(), word

    def decide(self) -> bool:
        """Whether a strict majority of ALL nodes wants it elsewhere than it is; from now on it is there."""
        oldest_s = self._now() - _STALE * self._every_s
        words = [word for heard_s, word in list(self._words.values()) if heard_s >= oldest_s]
        if 2 * words.count(self.is_at_home) <= len(self._nodes):  # a word is whether standby is the place
            return False
        self.is_at_home = not self.is_at_home
        return True


def dormancy_at(web3: Web3, registry: bytes) -> IsDormant:
    """What a node says, which is asked at every call: of the round that is running, as servers ask."""

    def is_dormant(server: Address) -> bool:
        call = {"to": Web3.to_hex(registry), "data": Web3.to_hex(encode_call("is_dormant", str(server)))}
        return bool(decode_result("is_dormant", read_bytes(request(web3, "eth_call", call, "pending"))))

    return is_dormant


def only(expected: Identity) -> CheckIdentity:
    """One server's certificate, and no other member's: each has one word."""

    def check(found: Identity) -> None:
        if found != expected:
            raise IdentityError(f"found the certificate of {found.uri}, expected that of {expected.uri}")

    return check
