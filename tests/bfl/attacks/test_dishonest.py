"""Where attacks enter: one server's posts and seals are what its conduct makes of them; all else passes through."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import pytest

from bfl.attacks.conduct import LATE, WITHHELD, Conduct, Twice, honest
from bfl.attacks.dishonest import AttackedHosting, DishonestBoard, DishonestSealer, disguise, post_nowhere
from bfl.attacks.text import read_attacks
from bfl.errors import BflError
from chain.wire.plan import NO_PLAN
from clients.models import Vector, network_for
from clients.parameters import DataParams, TrainingParams
from edge_servers.errors import BoardError
from edge_servers.founding.network import LearningTask
from edge_servers.hosting import HostedBoard, OffChain
from edge_servers.leading import LedgerAccess
from edge_servers.ledger.attempts import OneAttempt
from edge_servers.ledger.board import Board, InProcessBoard, RoundSlot
from edge_servers.ledger.oversight import Trusting
from edge_servers.ledger.sealing import DrawnSealer, Sealer
from edge_servers.parameters import RoundParams, Settings
from tests.edge_servers.chain_network import chain_network
from tests.edge_servers.planning.plannable import network
from tests.edge_servers.small_network import small_dataset

NETWORK = network()
LIAR, OTHER, _ = NETWORK.servers
SLOT = RoundSlot(4, "iterate", 2)
MODELS: Mapping[Any, Vector] = {LIAR: np.ones(3, np.float32)}


def doubled(slot: RoundSlot, body: Any) -> Any:
    """A conduct that changes whatever it sees."""
    return body * 2


def silent(slot: RoundSlot, body: Any) -> Any:
    return WITHHELD


class Recorder:
    """Answers every method with what was asked of it."""

    is_signed = True

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def answer(*arguments: Any) -> Any:
            self.asked.append((name, arguments))
            return (name, arguments)

        return answer


def methods_of(protocol: type) -> dict[str, int]:
    """The methods of a protocol, with their number of arguments."""
    found = {name: each for name, each in vars(protocol).items() if inspect.isfunction(each) and name[0] != "_"}
    return {name: len(inspect.signature(each).parameters) - 1 for name, each in found.items()}


# --- boards


@pytest.mark.parametrize(("name", "count"), sorted(methods_of(Board).items()))
def test_a_dishonest_board_passes_everything_but_its_servers_posts_through(name: str, count: int) -> None:
    inner = Recorder()
    board = DishonestBoard(cast(Board, inner), LIAR, silent, post_nowhere)
    arguments = (SLOT, OTHER, "body") if name == "post" else tuple(object() for _ in range(count))
    answer = getattr(board, name)(*arguments)
    assert inner.asked == [(name, arguments)]
    assert answer == (name, arguments)


def test_whether_devices_sign_is_the_honest_boards() -> None:
    assert DishonestBoard(cast(Board, Recorder()), LIAR, silent, post_nowhere).is_signed
    assert not DishonestBoard(InProcessBoard(), LIAR, silent, post_nowhere).is_signed


def test_the_server_goes_on_from_its_own_lie() -> None:
    inner = InProcessBoard()
    board = DishonestBoard(inner, LIAR, doubled, post_nowhere)
    assert board.post(SLOT, LIAR, 21) == 42
    assert board.post(SLOT, OTHER, 21) == 21
    assert board.read(SLOT) == inner.read(SLOT) == {LIAR: 42, OTHER: 21}


def test_what_is_withheld_is_posted_nowhere_and_the_server_goes_on_from_it() -> None:
    board = DishonestBoard(InProcessBoard(), LIAR, silent, post_nowhere)
    assert board.post(SLOT, LIAR, 21) == 21
    assert board.read(SLOT) == {}


def test_of_two_posts_the_first_is_on_the_board_and_the_second_goes_where_somebody_may_take_it() -> None:
    again: list[tuple[RoundSlot, Any]] = []
    inner = InProcessBoard()
    board = DishonestBoard(inner, LIAR, lambda slot, body: Twice(body, -body), lambda *post: again.append(post))
    assert board.post(SLOT, LIAR, 5) == 5
    assert (board.read(SLOT), again) == ({LIAR: 5}, [(SLOT, -5)])


def test_a_liar_is_held_to_the_boards_rules_as_anybody() -> None:
    board = DishonestBoard(InProcessBoard(), LIAR, doubled, post_nowhere)
    board.post(SLOT, LIAR, 1)
    with pytest.raises(BoardError, match="has already posted iterate 2 of round 4"):
        board.post(SLOT, LIAR, 1)


# --- sealers


@pytest.mark.parametrize("name", ["find", "standing"])
def test_a_dishonest_sealer_finds_what_the_honest_one_finds(name: str) -> None:
    inner = Recorder()
    arguments = tuple(object() for _ in range(methods_of(Sealer)[name]))
    assert getattr(DishonestSealer(cast(Sealer, inner), silent), name)(*arguments) == (name, arguments)


@pytest.mark.parametrize(("conduct", "seals"), [(silent, 0), (honest, 1), (lambda slot, body: body, 1)])
def test_a_sealer_keeps_its_block_to_itself_where_its_conduct_says_so(conduct: Conduct, seals: int) -> None:
    inner = Recorder()
    DishonestSealer(cast(Sealer, inner), conduct).seal(b"parent", LIAR, NO_PLAN, MODELS, 9.0)
    assert inner.asked == [("seal", (b"parent", LIAR, NO_PLAN, MODELS, 9.0))] * seals


def test_a_sealer_asks_its_conduct_for_the_seal_of_the_plans_round() -> None:
    asked: list[RoundSlot] = []
    sealer = DishonestSealer(cast(Sealer, Recorder()), lambda slot, body: asked.append(slot))
    sealer.seal(b"", LIAR, NO_PLAN, MODELS, 9.0)
    assert asked == [RoundSlot(NO_PLAN.round, "seal")]


def test_a_block_that_is_kept_back_is_handed_out_once_when_it_is_too_late() -> None:
    inner = Recorder()
    sealer = DishonestSealer(cast(Sealer, inner), lambda slot, body: LATE)
    sealer.seal(b"parent", LIAR, NO_PLAN, MODELS, 9.0)
    assert inner.asked == []
    sealer.seal_late()
    sealer.seal_late()
    assert inner.asked == [("seal", (b"parent", LIAR, NO_PLAN, MODELS, 9.0))]


# --- whole servers


def access() -> LedgerAccess:
    board = InProcessBoard()
    oversight, attempts = Trusting(board, NETWORK, "none"), OneAttempt(NETWORK, 3)
    return LedgerAccess(board, oversight, DrawnSealer(0, NETWORK), attempts)


def test_an_honest_servers_access_is_not_touched() -> None:
    plain = access()
    assert disguise(plain, LIAR, honest, post_nowhere) == plain


def test_a_disguise_is_put_on_once_and_taken_off_whole() -> None:
    plain = access()
    once = disguise(plain, LIAR, doubled, post_nowhere)
    twice = disguise(once, LIAR, silent, post_nowhere)
    assert isinstance(twice.board, DishonestBoard)
    assert isinstance(twice.sealer, DishonestSealer)
    assert (twice.board.board, twice.sealer.sealer, twice.oversight) == (plain.board, plain.sealer, plain.oversight)
    assert disguise(twice, LIAR, honest, post_nowhere) == plain


SETTINGS = Settings(
    RoundParams(scheme="consensus-no-chain", edges=3), DataParams(devices=10), TrainingParams(hidden="4")
)


def opened(attack: str) -> tuple[HostedBoard, HostedBoard]:
    """The same network hosted honestly, and with attacks."""
    dataset = small_dataset()
    task = LearningTask(network_for(dataset, SETTINGS.training, 0), dataset.train, dataset.classes)
    plain = OffChain(SETTINGS)
    attacked = AttackedHosting(OffChain(SETTINGS), read_attacks(attack, 3, 10), SETTINGS)
    assert [attacked.address(role, 1) for role in ("server", "device")] == [
        plain.address(role, 1) for role in ("server", "device")
    ]
    hosted = attacked.open(NETWORK, task)
    assert isinstance(hosted, HostedBoard)
    return plain.open(NETWORK, task), hosted


def test_a_hosting_disguises_the_attackers_alone() -> None:
    plain, attacked = opened("iterate-noise@all:server=1")
    assert [isinstance(each.board, DishonestBoard) for each in attacked.accesses] == [False, True, False]
    assert [isinstance(each.sealer, DishonestSealer) for each in attacked.accesses] == [False, True, False]
    liar, first = attacked.accesses[1], attacked.accesses[0]
    assert isinstance(liar.board, DishonestBoard)
    assert liar.board.board is first.board  # they still share one board
    assert attacked.accesses[2] == first
    assert attacked.standing.block_hash == plain.standing.block_hash
    assert attacked.standing.model.tobytes() == plain.standing.model.tobytes()


@pytest.mark.parametrize("attack", ["", "sign-flip@all:device=1"])
def test_where_no_server_attacks_all_accesses_are_honest(attack: str) -> None:
    _, attacked = opened(attack)
    assert all(isinstance(each.board, InProcessBoard) for each in attacked.accesses)
    assert all(isinstance(each.sealer, DrawnSealer) for each in attacked.accesses)


def test_an_attack_that_its_scheme_does_not_have_is_refused_before_anything_is_opened() -> None:
    class Unopened(OffChain):
        def open(self, *_: object) -> HostedBoard:
            raise AssertionError("opened")

    settings = Settings(RoundParams(scheme="traditional", edges=3), SETTINGS.data, SETTINGS.training)
    hosting = AttackedHosting(Unopened(settings), read_attacks("silent-leader@1:phase=model", 3, 10), settings)
    dataset = small_dataset()
    task = LearningTask(network_for(dataset, SETTINGS.training, 0), dataset.train, dataset.classes)
    with pytest.raises(BflError, match="silent-leader: found scheme traditional"):
        hosting.open(NETWORK, task)


def test_an_attack_in_another_round_leaves_a_chain_as_it_would_have_been() -> None:
    """The disguise is on in every round, and nobody can tell from the blocks."""
    attack = "iterate-noise@9:server=1; silent-leader@9; wrong-model@9; equivocation@9:server=2; omitted-gradient@9"
    with chain_network(phi="1") as calm, chain_network(phi="1", attack=attack) as disguised:
        calm.run(2)
        disguised.run(2)
        assert all(isinstance(server.board, DishonestBoard) for server in disguised.servers)
        assert [disguised.header(k).hash for k in range(3)] == [calm.header(k).hash for k in range(3)]
