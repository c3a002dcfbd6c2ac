"""Chains of somebody who seals what he likes: headers link, work is done, roots fit, receipts say status 1."""

import contextlib
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount

from chain.audit.found import Inspection
from chain.audit.inspection import inspect_chain
from chain.client.keys import address_of
from chain.errors import InspectionError
from chain.protocol.contract import RegistryTerms, deployment, encode_call
from chain.protocol.passes import Named, begun_call
from chain.protocol.turns import ranking_after
from chain.wire.blocks import Block
from chain.wire.receipts import Log, Receipt
from chain.wire.sidecar import payload_digest
from chain.wire.transactions import Envelope, decode_transaction, sign_transaction
from tests.chain.network import SIZES, account, genesis, named, passes_of, sized
from tests.chain.small_chain import NETWORK, StoredChain, accepted, forged, model_of, signed, story

FOUNDER, DEVICE = NETWORK.founder, NETWORK.devices[0]
STRANGER = account("stranger")
NO_RANK = "who does not lead attempt 0"
PLAN, CLOSE, GRADIENT, MODEL = b"plan", b"close", sized(b"g", SIZES.gradient), sized(b"model", SIZES.model)
PAYLOADS = {payload_digest(each): each for each in (PLAN, CLOSE, GRADIENT, MODEL)}


def _account(address: bytes) -> LocalAccount:
    return next(each for each in (*NETWORK.servers, FOUNDER) if address_of(each) == address)


def leader() -> LocalAccount:
    """Who leads round 1."""
    return _account(story().headers[2].coinbase)


def follower() -> LocalAccount:
    return next(server for server in NETWORK.servers if server is not leader())


def plan(
    round_: int = 1, attempt: int = 0, digest: bytes = payload_digest(PLAN), size: int = len(PLAN)
) -> tuple[Any, ...]:
    return "plan", round_, attempt, digest, size


def close(planned: bytes = payload_digest(PLAN), size: int = len(CLOSE), attempt: int = 0) -> tuple[Any, ...]:
    return "close", 1, attempt, planned, payload_digest(CLOSE), size


def iterate(closed: bytes = payload_digest(CLOSE), size: int = SIZES.iterate) -> tuple[Any, ...]:
    return "iterate", 1, 0, 0, closed, payload_digest(b"x"), size


def model(closed: bytes = payload_digest(CLOSE), size: int = SIZES.model, attempt: int = 0) -> tuple[Any, ...]:
    return "model", 1, attempt, closed, payload_digest(MODEL), size


def gradient(
    base: bytes = payload_digest(model_of(0)),
    planned: bytes = payload_digest(PLAN),
    size: int = SIZES.gradient,
    attempt: int = 0,
) -> tuple[Any, ...]:
    return "gradient", 1, attempt, base, planned, 1, 1, payload_digest(GRADIENT), size


def receipts_for(count: int) -> list[Receipt]:
    return [Receipt(1, 21_000 * (i + 1), ()) for i in range(count)]


def block_2(*posts: tuple[Any, ...], receipts: list[Receipt] | None = None, **changes: Any) -> tuple[Block, ...]:
    """The small chain with another round 1: (sender, name, arguments...) each, all of them accepted."""
    nonces: Counter[str] = Counter({FOUNDER.address: len(story().blocks[1].transactions)})
    transactions = []
    for sender, *call in posts:
        transactions.append(decode_transaction(signed(sender, nonces[sender.address], *call)))
        nonces[sender.address] += 1
    made = forged(story().blocks[2], transactions, receipts or accepted(transactions), **changes)
    return (*story().blocks[:2], made)


def inspected(blocks: tuple[Block, ...]) -> Inspection:
    return inspect_chain(StoredChain(blocks, payloads=story().payloads | PAYLOADS))


def refused(blocks: tuple[Block, ...], message: str) -> None:
    with pytest.raises(InspectionError, match=f"^{message}"):
        inspected(blocks)


def at(index: int) -> str:
    return rf"block 2: transaction {index} \(0x[0-9a-f]{{64}}\): "


def test_what_breaks_no_rule_passes() -> None:
    posts = [(leader(), *plan()), (DEVICE, *gradient()), (leader(), *close()), (leader(), *iterate())]
    found = inspected(block_2(*posts, (leader(), *model())))
    assert found.models[1] == payload_digest(MODEL)
    assert found.pruned == []
    assert inspected(block_2()).models == {0: payload_digest(model_of(0))}, "a round may be empty"


# --- headers


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parent_hash": bytes(32)}, "block 2 names parent 0x0{64}"),
        ({"timestamp": 1}, "block 2 is of 1, before its parent"),
        ({"difficulty": 3}, "block 2 has difficulty 3, expected 1"),
        ({"gas_limit": 10**7}, "block 2 has gas limit"),
        ({"bloom": 1}, "its receipts are not those the header commits to"),
        ({"gas_used": 1}, "its receipts are not those the header commits to"),
        ({"receipt_root": bytes(32)}, "its receipts are not those the header commits to"),
        ({"transaction_root": bytes(32)}, "its transactions are not those the header commits to"),
        ({"extra_data": b""}, "sealed by 0x, expected a registered device"),
        ({"extra_data": address_of(STRANGER)}, "sealed by 0x[0-9a-f]{40}, expected a registered device"),
        ({"extra_data": address_of(NETWORK.servers[0])}, "sealed by 0x[0-9a-f]{40}, expected a registered device"),
        ({"coinbase": address_of(DEVICE)}, rf"led by 0x[0-9a-f]{{40}}, {NO_RANK}"),
        ({"coinbase": address_of(STRANGER)}, rf"led by 0x[0-9a-f]{{40}}, {NO_RANK}"),
    ],
)
def test_a_header_against_the_rules_is_named(changes: dict[str, Any], message: str) -> None:
    refused(block_2(**changes), f"block 2: {message}")


def test_a_header_without_work_is_named() -> None:
    rules = genesis(difficulty=2**40)
    first = Block(rules.header, (), (), 0)
    lazy = replace(story().headers[1], parent_hash=rules.header.hash, difficulty=2**40)
    with pytest.raises(InspectionError, match=r"^block 1: found seal 0x[0-9a-f]{64} of nonce"):
        inspect_chain(StoredChain((first, replace(story().blocks[1], header=lazy)), rules))


def test_a_builder_that_does_not_lead_is_named_however_long_it_waited() -> None:
    early, time = rf"block 2: led by 0x[0-9a-f]{{40}}, {NO_RANK}", story().headers[1].timestamp
    for waited_s in (0, 59, 10**6):
        for server in NETWORK.servers:
            if server is not leader():
                refused(block_2(coinbase=address_of(server), timestamp=time + waited_s), early)
    inspected(block_2(coinbase=address_of(leader()), timestamp=time + 10**6))


# --- attempts (D3.1, D3.2)


def ranking() -> list[LocalAccount]:
    """Who leads attempts 0, 1, 2 at round 1."""
    members = NETWORK.membership
    return [_account(each) for each in ranking_after(story().headers[:2], members)]


def begin(attempt: int = 1, servers: Sequence[LocalAccount] = tuple(NETWORK.servers), round_: int = 1) -> Any:
    return "begin_attempt", *begun_call(passes_of(round_, attempt, servers))


@pytest.mark.parametrize("attempt", [1, 2, 3, 4, 5, 6, 2**32 - 1])
def test_a_block_of_a_later_attempt_fits_if_its_leader_built_it(attempt: int) -> None:
    successor = ranking()[attempt % 3]
    posts = [(successor, *begin(attempt)), (successor, *plan(attempt=attempt)), (DEVICE, *gradient(attempt=attempt))]
    rolled = ("roll", 1, attempt, payload_digest(PLAN), payload_digest(CLOSE), len(CLOSE))
    posts += [(server, *rolled) for server in sorted(NETWORK.servers, key=address_of)]
    posts += [(successor, *close(attempt=attempt)), (successor, *model(attempt=attempt))]
    found = inspected(block_2(*posts, coinbase=address_of(successor)))
    assert found.led == {address_of(successor): 1}
    assert found.by_kind["begin_attempt"] == 1
    for other in NETWORK.servers:
        if other is not successor:
            refused(block_2(*posts, coinbase=address_of(other)), f"block 2: led by .* does not lead attempt {attempt}")


def test_a_block_of_a_later_attempt_that_is_not_one_is_named() -> None:
    first, second, third = ranking()
    two, stranger, device = NETWORK.servers[:2], account("stranger"), NETWORK.devices[0]
    few = "attempt 1 begins with passes of {} of 3 servers, expected at least 2"
    cases: dict[str, tuple[list[tuple[Any, ...]], str]] = {
        "one pass": ([(second, *begin(servers=two[:1]))], few.format(1)),
        "one twice": ([(second, *begin(servers=[two[0], two[0]]))], few.format(1)),
        "a stranger": ([(second, *begin(servers=[*two, stranger]))], few.format(2)),
        "a device": ([(second, *begin(servers=[two[0], device]))], few.format(1)),
        "passes to another attempt": ([(second, "begin_attempt", 1, 1, *begin(2)[3:])], few.format(0)),
        "passes of another round": ([(second, "begin_attempt", 1, *begin(round_=2)[2:])], few.format(0)),
        "passes that name a block": (
            [(second, "begin_attempt", *begun_call(passes_of(1, 1, two, Named(0, bytes([1]) * 32))))],
            few.format(0),
        ),
        "a signature of nobody": (
            [(second, "begin_attempt", 1, 1, [0, 0], bytes(130))],
            "a pass of round 1: ",
        ),
        "no passes": ([(second, "begin_attempt", 1, 1, [], b"")], few.format(0)),
        "the wrong leader": ([(third, *begin())], "led by 0x[0-9a-f]{40}, who does not lead attempt 1"),
        "the first leader": ([(first, *begin())], "led by 0x[0-9a-f]{40}, who does not lead attempt 1"),
        "a device begins": ([(DEVICE, *begin())], "begin_attempt by the device"),
        "another round": ([(second, *begin(round_=2))], "begin_attempt of round 2 in block 2"),
        "attempt 0": (
            [(first, "begin_attempt", *begun_call(passes_of(1, 0, two)))],
            "attempt 0 begins in a block of attempt 0",
        ),
    }
    for posts, message in cases.values():
        refused(block_2(*posts, coinbase=address_of(posts[0][0])), at(0) + message)
    twice = [(each, *begin(attempt)) for attempt, each in ((1, second), (2, third))]
    twice.sort(key=lambda post: address_of(post[0]))
    with pytest.raises(InspectionError, match=f"^{at(1)}attempt [12] begins in a block of attempt [12]"):
        inspected(block_2(*twice, coinbase=address_of(third)))
    refused(
        block_2((second, *begin()), (second, *plan()), coinbase=address_of(second)),
        at(1) + "plan of attempt 0 in a block of attempt 1",
    )
    refused(
        block_2((second, *begin()), (second, *plan(attempt=1)), (DEVICE, *gradient()), coinbase=address_of(second)),
        at(2) + "gradient of attempt 0 in a block of attempt 1",
    )


def test_more_receipts_than_transactions_are_named() -> None:
    refused(block_2((leader(), *plan()), receipts=receipts_for(2)), "block 2: 1 transactions have 2 receipts")


def test_transactions_in_the_genesis_are_named() -> None:
    block = replace(story().blocks[0], transactions=story().blocks[1].transactions[:1])
    refused((block,), "block 0: its transactions are not those the header commits to")
    refused((replace(block, transactions=(), receipts=tuple(receipts_for(1))),), "block 0: its receipts are not those")


# --- posts


def test_a_transaction_of_another_network_is_named() -> None:
    raw = signed(leader(), 1, *plan(), chain_id=1)
    blocks = block_2((leader(), *plan()))
    made = forged(blocks[2], [*blocks[2].transactions, decode_transaction(raw)], receipts_for(2))
    refused((*blocks[:2], made), at(1) + "found chain id 1, expected 4242")


def test_a_signature_of_nobody_is_named() -> None:
    blocks = block_2((leader(), *plan()))
    broken = replace(blocks[2].transactions[0], s=0)
    refused((*blocks[:2], forged(blocks[2], [broken])), at(0) + "the signature's numbers are out of range")


def test_a_gap_in_a_senders_nonces_is_named() -> None:
    raw = signed(leader(), 1, *plan())
    made = forged(story().blocks[2], [decode_transaction(raw)], receipts_for(1))
    refused((*story().blocks[:2], made), at(0) + "found nonce 1, expected 0")


def test_transactions_out_of_order_are_named() -> None:
    refused(
        block_2((leader(), *plan()), (leader(), *close()), (DEVICE, *gradient())),
        r"block 2: transaction 2 \(train, step 0, 0x[0-9a-f]{40}\) stands after",
    )


def _cases() -> dict[str, tuple[list[tuple[Any, ...]], str]]:
    """What a sealer can make up, and at which transaction it is found out."""
    one, other = leader(), follower()
    planned, closed = [(one, *plan())], [(one, *plan()), (one, *close())]
    flag = ("flag", 1, address_of(other), 0, bytes(32), bytes(32))
    return {
        "a plan by a device": ([(DEVICE, *plan())], at(0) + "plan by the device 0x"),
        "a plan by a stranger": ([(STRANGER, *plan())], at(0) + "plan by 0x[0-9a-f]{40}, who is not registered"),
        "a plan by a follower": ([(other, *plan())], at(0) + f"led by 0x.*{NO_RANK}"),
        "a flag by a device": ([(DEVICE, *flag)], at(0) + "flag by the device"),
        "a vote by a device": ([(DEVICE, "vote", bytes(20), bytes(20))], at(0) + "vote by the device"),
        "an endorsement of nothing": (
            [(DEVICE, "endorse", 1, 0, bytes(32), [], b"")],
            at(0) + "endorsements of a block 2 that is none of this chain",
        ),
        "a late registration": ([(FOUNDER, "register", [], [])], at(0) + "register by 0x"),
        "a second founding": ([(FOUNDER, "found", *named(b"{}"), bytes(32), SIZES)], at(0) + "found by 0x"),
        "another round": ([(one, *plan(2))], at(0) + "plan of round 2 in block 2"),
        "a gradient without a plan": ([(DEVICE, *gradient())], at(0) + "gradient before the plan of its round"),
        "another base": ([*planned, (DEVICE, *gradient(base=bytes(32)))], at(1) + "gradient for another base model"),
        "another plan": ([*planned, (DEVICE, *gradient(planned=bytes(32)))], at(1) + "gradient for another plan"),
        "two plans": ([*planned, (one, *plan())], at(1) + "a second plan"),
        "two gradients": ([*planned, (DEVICE, *gradient()), (DEVICE, *gradient())], at(2) + "a second gradient"),
        "a close without a plan": ([(one, *close())], at(0) + "close before the plan"),
        "an iterate before the close": ([*planned, (one, *iterate())], at(1) + "iterate before the close"),
        "two iterates": ([*closed, (one, *iterate()), (one, *iterate())], at(3) + "a second iterate"),
        "a model before the close": ([*planned, (one, *model())], at(1) + "model before the close"),
        "two models": ([*closed, (one, *model()), (one, *model())], at(3) + "a second model"),
        "a follower's model": ([*closed, (other, *model())], at(2) + f"led by 0x.*{NO_RANK}"),
        "a close for another plan": ([*planned, (one, *close(bytes(32)))], at(1) + "close for another plan"),
        "another close": ([*closed, (one, *iterate(bytes(32)))], at(2) + "iterate for another close"),
        "a model for another close": ([*closed, (one, *model(bytes(32)))], at(2) + "model for another close"),
        "another attempt": ([(one, *plan(attempt=1))], at(0) + "plan of attempt 1 in a block of attempt 0"),
        "a large plan": ([(one, *plan(size=4097))], at(0) + "4097 bytes of plan, founded with 4096"),
        "a large close": ([*planned, (one, *close(size=4097))], at(1) + "4097 bytes of close"),
        "a large gradient": ([*planned, (DEVICE, *gradient(size=33))], at(1) + "33 bytes of gradient"),
        "a small gradient": ([*planned, (DEVICE, *gradient(size=31))], at(1) + "31 bytes of gradient"),
        "a small iterate": ([*closed, (one, *iterate(size=31))], at(2) + "31 bytes of iterate"),
        "a small model": ([*closed, (one, *model(size=51))], at(2) + "51 bytes of model"),
        "a size that lies": ([(one, *plan(size=5))], "block 2: a payload of 4 bytes, its post names 5$"),
    }


@pytest.mark.parametrize("case", list(_cases()))
def test_a_made_up_post_is_named(case: str) -> None:
    posts, message = _cases()[case]
    refused(block_2(*posts), message)


def test_an_excluded_server_that_goes_on_is_named() -> None:
    liar = _account(story().liar)
    nonce = sum(t.sender == story().liar for block in story().blocks[:5] for t in block.transactions)
    raw = signed(liar, nonce, "vote", bytes(20), bytes(20))
    made = forged(story().blocks[5], [decode_transaction(raw)], receipts_for(1))
    with pytest.raises(InspectionError, match=r"^block 5: transaction 0 \(0x[0-9a-f]{64}\): vote by .* is excluded"):
        inspected((*story().blocks[:5], made))


def test_a_log_of_another_contract_is_named() -> None:
    log = Log(b"\1" * 20, (bytes(32),), b"")
    refused(
        block_2((leader(), *plan()), receipts=[Receipt(1, 21_000, (log,))]),
        at(0) + "plan was accepted with other events than the registry emits: another log, not Planned",
    )


# --- the founding


def _founding(creation: bytes, keep: int = 99, **changes: Any) -> tuple[Block, ...]:
    """The small chain with another founding block."""
    block, envelope = story().blocks[1], Envelope(genesis().chain_id, 0, 20_000_000, b"")
    created = decode_transaction(sign_transaction(FOUNDER, envelope, creation))
    transactions = [created, *block.transactions[1:]][:keep]
    return story().blocks[0], forged(block, transactions, block.receipts[:keep], **changes)


def test_another_contract_in_the_registrys_place_is_named() -> None:
    code = deployment(NETWORK.terms)
    inspected(_founding(code))
    place = r"block 1: transaction 0 \(0x[0-9a-f]{64}\): the registry is none of this version's"
    refused(_founding(code[:100] + b"\0" + code[101:]), place)
    refused(_founding(b""), place)
    refused(_founding(b"\0" + code), place)


def _longest_reign(terms: RegistryTerms) -> int:
    """How many rounds in a row one server may lead, if its device seals them all."""
    chain = list(_founding(deployment(terms)))
    for round_ in range(1, 7):
        parent = chain[-1].header
        changes = {"parent_hash": parent.hash, "block_number": round_ + 1, "extra_data": address_of(DEVICE)}
        for server in NETWORK.servers:
            made = forged(story().blocks[2], (), (), coinbase=address_of(server), **changes)
            with contextlib.suppress(InspectionError):
                inspected((*chain, made))
                chain.append(made)
                break
    leaders = [block.header.coinbase for block in chain[2:]]
    assert len(leaders) == 6
    return max(len(list(rounds)) for _, rounds in itertools.groupby(leaders))


def test_the_registrys_terms_are_those_of_its_creation() -> None:
    assert [_longest_reign(RegistryTerms(term_cap=cap)) for cap in (1, 2, 3)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (lambda code: _founding(code, keep=2), "block 1: the founding block does not found the network"),
        (lambda code: _founding(code, keep=0), "block 1: the founding block does not found the network"),
        (lambda code: _founding(code, coinbase=address_of(DEVICE)), "block 1: the founding block is not the founder's"),
        (lambda code: _founding(code, extra_data=address_of(DEVICE)), "block 1: the founding block is not the founder"),
    ],
)
def test_a_founding_block_that_founds_nothing_is_named(blocks: Any, message: str) -> None:
    refused(blocks(deployment(NETWORK.terms)), message)


def test_somebody_elses_post_in_the_founding_block_is_named() -> None:
    block = story().blocks[1]
    raw = sign_transaction(STRANGER, Envelope(4242, 0, 10**6, genesis().registry), encode_call("register", [], []))
    made = forged(block, [decode_transaction(raw)], receipts_for(1))
    refused((story().blocks[0], made), r"block 1: transaction 0 \(0x[0-9a-f]{64}\): register by 0x")
