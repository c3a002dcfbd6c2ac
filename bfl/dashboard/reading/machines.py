"""How the machines of a network are, asked every few seconds in a thread of its own: one that is away takes seconds."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import httpx

from bfl.dashboard.facts import MachineFact
from bfl.dashboard.reading.clean import text
from bfl.dashboard.reading.run_files import is_held
from bfl.errors import BflError
from bfl.network.kits import DeviceKit, EdgeKit
from bfl.network.status import LOCK, MOST_SKEW_S, NodeState, client_of, parts_of, places_of, state_of
from chain.client.bounded_http import check_token_may_go
from policy.clock import epoch_s

_EVERY_S = 5.0
_AT_ONCE = 8
_MOST_MACHINES = 64
_ASK_S = 5.0
Ask = Callable[[httpx.Client], NodeState]


class MachineWatch:
    """Asks nodes again and again; `facts` is what they last said."""

    def __init__(self, client: httpx.Client, places: Sequence[tuple[str, str]], own: Callable[[], str] = str) -> None:
        """`places`: (name, URL). `own`: what is wrong with this machine, whose node is the first; "" for nothing."""
        self._client, self._own = client, own
        self._asks: list[Ask] = [partial(_asked, name=name, url=url) for name, url in places[:_MOST_MACHINES]]
        self._seen_s: dict[str, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="machines", daemon=True)
        self.facts: tuple[MachineFact, ...] = ()

    def start(self) -> None:
        """Ask from now on."""
        self._thread.start()

    def close(self) -> None:
        """Ask nobody any more."""
        self._stop.set()

    def _run(self) -> None:
        with self._client, ThreadPoolExecutor(_AT_ONCE) as pool:
            while not self._stop.is_set():
                states = list(pool.map(lambda ask: ask(self._client), self._asks))
                self.facts = self._told(states, epoch_s())
                self._stop.wait(_EVERY_S)

    def _told(self, states: Sequence[NodeState], now_s: float) -> tuple[MachineFact, ...]:
        self._seen_s |= {each.name: now_s for each in states if each.block is not None}
        answering = sum(each.block is not None for each in states)
        facts = [machine_fact(each, self._seen_s) for each in states]
        if self._own is not str and facts:
            trouble = self._own()
            word = "; ".join(each for each in (facts[0].word, trouble) if each)
            peers = answering - (states[0].block is not None)
            facts[0] = replace(facts[0], word=word, is_well=facts[0].is_well and not trouble, peers=peers)
        return tuple(facts)


def _asked(client: httpx.Client, name: str, url: str) -> NodeState:
    return state_of(client, name, url)


def machine_fact(state: NodeState, seen_s: Mapping[str, float]) -> MachineFact:
    """A node's answer, for the page."""
    is_here = state.block is not None
    return MachineFact(
        name=text(state.name, 80),
        role="edge",
        word=text(state.word),
        is_well=is_here and not state.trouble and abs(state.skew_s) <= MOST_SKEW_S,
        head=state.block,
        pool=state.pending,
        version=text(state.version, 40),
        skew_s=round(state.skew_s, 1) if is_here else None,
        last_seen_s=seen_s.get(state.name),
    )


def watch_of_kit(kit: EdgeKit | DeviceKit) -> MachineWatch:
    """The nodes that a machine knows; of an edge also what runs beside its own."""
    if isinstance(kit, EdgeKit):
        return MachineWatch(client_of(kit), places_of(kit), partial(_trouble_of_parts, kit))
    return MachineWatch(client_of(kit), places_of(kit))


def watch_of_node(url: str, token: str) -> MachineWatch:
    """One node; its token goes to nobody else, and not in the clear (Q6)."""
    check_token_may_go(url, token)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return MachineWatch(httpx.Client(headers=headers, timeout=_ASK_S, trust_env=False), [("node", url.rstrip("/"))])


def _trouble_of_parts(kit: EdgeKit) -> str:
    if not is_held(kit.folder / LOCK, kit.folder / LOCK):
        return "this machine is stopped"
    try:
        waiting = [part.name for part in parts_of(kit.folder) if part.pid is None and not part.is_done]
    except BflError as error:
        return f"{error!s:.120}"
    return f"waits to be started again: {', '.join(waiting)}" if waiting else ""
