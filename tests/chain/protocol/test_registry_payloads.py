"""Payloads beside the chain: the registry knows their digests and sizes, and nothing of their bytes (B1, B2, B7)."""

from dataclasses import replace
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount

from chain.client.keys import address_of
from chain.protocol.contract import Call, PayloadSizes, encode_call
from chain.wire.sidecar import payload_digest
from tests.chain.endorsing import BARE, endorse_call
from tests.chain.network import MODEL_0, SIZES, TERMS, BareRegistry, named
from tests.chain.protocol.registry_bench import A, B, Bare, reverts

PLAN, CLOSE, ITERATE, GRADIENT, MODEL = (payload_digest(b"%d" % i) for i in range(5))
ROUND: dict[str, tuple[Any, ...]] = {
    "plan": (1, 0, PLAN, SIZES.plan),
    "gradient": (1, 0, payload_digest(MODEL_0), PLAN, 100, 10, GRADIENT, SIZES.gradient),
    "roll": (1, 0, PLAN, CLOSE, SIZES.close),
    "close": (1, 0, PLAN, CLOSE, SIZES.close),
    "iterate": (1, 0, 0, CLOSE, ITERATE, SIZES.iterate),
    "model": (1, 0, CLOSE, MODEL, SIZES.model),
}
"""A round's posts in their order"""
LARGEST = 2**48 - 1


class Round(Bare):
    """The first round of a registry without a chain, post by post."""

    def post(self, name: str, *arguments: Any) -> None:
        """The leader's post; that of the round if nothing else is said."""
        self.send(self.servers[0], name, *(arguments or ROUND[name]))

    def post_before(self, name: str) -> None:
        """All posts of the round that stand before this one."""
        for each in list(ROUND)[: list(ROUND).index(name)]:
            self.post(each)


# --- sizes are founded (B2)


@pytest.mark.parametrize("name", ["gradient", "iterate", "model"])
def test_a_gradient_an_iterate_and_a_model_have_exactly_the_founded_size(name: str) -> None:
    round_ = Round()
    round_.post_before(name)
    *said, size = ROUND[name]
    article = "an" if name == "iterate" else "a"
    for wrong in (0, 1, size - 1, size + 1, size + 2**48, 2**256 - 1):
        with reverts(f"{article} {name} of this size was not founded"):
            round_.post(name, *said, wrong)
    round_.post(name)


@pytest.mark.parametrize("name", ["plan", "roll", "close"])
@pytest.mark.parametrize("size", [1, 4096])
def test_a_plan_a_roll_and_a_close_have_at_most_the_founded_size(name: str, size: int) -> None:
    round_ = Round()
    round_.post_before(name)
    *said, most = ROUND[name]
    assert most == 4096
    for wrong in (0, most + 1, 2**48 + 1, 2**256 - 1):
        with reverts(f"a {name} of this size was not founded"):
            round_.post(name, *said, wrong)
    round_.post(name, *said, size)


def test_each_kind_has_a_size_of_its_own() -> None:
    """Five numbers share a word: none reaches into another."""
    for sizes in (
        PayloadSizes(1, 2, 3, 4, 5),
        PayloadSizes(LARGEST, 1, LARGEST, 1, LARGEST),
        PayloadSizes(1, LARGEST, 1, LARGEST, 1),
    ):
        registry = BareRegistry()
        assert tuple(registry.ask("payload_sizes")) == (0, 0, 0, 0, 0), "before the founding"
        registry.send(registry.founder, "register", [A], [A])
        registry.send(registry.founder, "found", *named(b"{}"), payload_digest(MODEL_0), sizes)
        assert PayloadSizes(*registry.ask("payload_sizes")) == sizes


@pytest.mark.parametrize("which", range(5))
def test_a_founding_with_a_size_of_nothing_or_beyond_its_field_is_refused(which: int) -> None:
    registry = BareRegistry()
    registry.send(registry.founder, "register", [A], [A])
    for wrong in (0, 2**48, 2**256 - 1):
        sizes = [*SIZES[:which], wrong, *SIZES[which + 1 :]]
        with reverts("a payload has 1 byte to 2**48"):
            registry.send(registry.founder, "found", *named(b"{}"), payload_digest(MODEL_0), sizes)
    assert not registry.ask("founded")


# --- each post names the one before it (B1)


@pytest.mark.parametrize(
    ("name", "place", "reason"),
    [
        ("gradient", 3, "gradient for another plan"),
        ("roll", 2, "a roll for another plan"),
        ("close", 2, "a close for another plan"),
        ("iterate", 3, "an iterate for another close"),
        ("model", 2, "a model for another close"),
    ],
)
def test_a_post_names_the_plan_or_the_close_it_follows(name: str, place: int, reason: str) -> None:
    round_ = Round()
    round_.post_before(name)
    for other in (bytes(32), MODEL, PLAN if ROUND[name][place] == CLOSE else CLOSE):
        with reverts(reason):
            round_.post(name, *ROUND[name][:place], other, *ROUND[name][place + 1 :])
    round_.post(name)


def test_the_close_of_the_last_round_is_no_close_of_this_one() -> None:
    round_ = Round()
    for name in ROUND:
        round_.post(name)
    round_.registry.number += 1
    round_.registry.begin(address_of(round_.devices[0]), bytes(20), bytes(32))
    assert round_.registry.ask("close_digest") == CLOSE, "kept until the next one"
    with reverts("this round is not planned"):
        round_.post("close", 2, *ROUND["close"][1:])
    round_.post("plan", 2, *ROUND["plan"][1:])
    for name in ("iterate", "model"):
        with reverts("this round is not closed"):
            round_.post(name, 2, *ROUND[name][1:])


@pytest.mark.parametrize("name", ROUND)
def test_a_post_names_the_attempt_that_runs(name: str) -> None:
    round_ = Round()
    round_.post_before(name)
    for attempt in (1, 2**64, 2**256 - 1):
        with reverts("no such attempt"):
            round_.post(name, 1, attempt, *ROUND[name][2:])
    round_.post(name)


# --- what servers endorse where rounds are sealed by calls (B7)


def test_the_result_of_a_round_is_its_plan_its_close_and_its_model() -> None:
    def result(**changes: bytes) -> bytes:
        round_ = Round(replace(TERMS, contract_seal=True))
        leader = next(each for each in round_.servers if round_.registry.ask("rank", address_of(each)) == 0)
        digests = {"plan": PLAN, "close": CLOSE, "model": MODEL} | changes
        round_.send(leader, "plan", 1, 0, digests["plan"], 1)
        round_.send(leader, "close", 1, 0, digests["plan"], digests["close"], 1)
        round_.send(leader, "model", 1, 0, digests["close"], digests["model"], SIZES.model)
        return bytes(round_.registry.ask("result"))

    other = payload_digest(b"another")
    found = [result(), result(plan=other), result(close=other), result(model=other), result(plan=CLOSE, close=PLAN)]
    assert len(set(found)) == len(found)
    assert result() == found[0]


def test_a_result_is_of_its_round() -> None:
    round_ = Round(replace(TERMS, contract_seal=True))
    results = []
    for number in (1, 2):
        publish(round_, number)
        results.append(round_.registry.ask("result"))
        round_.send(round_.servers[0], "endorse", *endorse_call(round_.servers[:2], number, results[-1], BARE))
        round_.send(round_.devices[0], "seal", number, bytes(8))  # every nonce is one at this difficulty
    assert results[0] != results[1], "the same plan, close and model in another round"


def publish(round_: Round, number: int) -> None:
    """Plan, close and model of the server whose turn it is, and the block after them."""
    leader = next(each for each in round_.servers if round_.registry.ask("rank", address_of(each)) == 0)
    for name in ("plan", "close", "model"):
        round_.send(leader, name, number, *ROUND[name][1:])
    round_.registry.number += 1


def test_a_round_is_sealed_once_a_majority_has_endorsed_its_result() -> None:
    round_ = Round(replace(TERMS, contract_seal=True))
    device, (one, two, three) = round_.devices[0], round_.servers
    ask = round_.registry.ask

    def endorsed(sender: LocalAccount, *servers: LocalAccount, result: bytes | None = None) -> list[Call]:
        said = endorse_call(servers, 1, ask("result") if result is None else result, BARE)
        return round_.send(sender, "endorse", *said)

    with reverts("this round has no model"):
        endorsed(one, one, two)
    publish(round_, 1)
    with reverts("no majority has endorsed this round's result"):
        round_.send(device, "seal", 1, bytes(8))
    (event,) = endorsed(three, three)
    said = {"round": 1, "server": address_of(three), "digest": ask("result")}
    assert (event.name, event.arguments) == ("Endorsed", said)
    with reverts("already posted"):
        endorsed(three, one, two)
    for other in (bytes(32), ask("parent_hash"), ask("model_digest")):
        with reverts("not the result of this round"):
            endorsed(one, one, two, result=other)
    with reverts("no majority has endorsed this round's result"):
        round_.send(device, "seal", 1, bytes(8))  # signatures of two calls are not added
    endorsed(device, one, two)
    round_.send(device, "seal", 1, bytes(8))
    assert ask("round") == 2
    publish(round_, 2)
    with reverts("no majority has endorsed this round's result"):
        round_.send(device, "seal", 2, bytes(8))


# --- gas


def gas_of_round(size: int) -> dict[str, int]:
    """What the posts of a network with payloads of this size cost, calldata and all."""
    registry = BareRegistry()
    registry.send(registry.founder, "register", [A, B], [A, A])
    sizes = PayloadSizes(size, size, size, size, size)
    spent = {}

    def send(sender: bytes, name: str, *arguments: Any) -> None:
        data = encode_call(name, *arguments)
        registry.send_raw(sender, data)
        spent[name] = 21_000 + sum(16 if byte else 4 for byte in data) + registry.gas

    send(registry.founder, "found", *named(b"{}"), payload_digest(MODEL_0), sizes)
    registry.number = 2
    registry.begin(B, A, bytes(32))
    for name, said in ROUND.items():
        send(B if name == "gradient" else A, name, *said[:-1], size)
    return spent


def test_a_post_costs_little_and_the_same_whatever_the_size_of_its_payload() -> None:
    """One build and one gas allowance serve every model (B1)."""
    small, large = gas_of_round(1), gas_of_round(2**40)
    assert small == large
    assert all(gas < 120_000 for gas in small.values()), small
