"""An attacker with the keys of less than half of the servers: all that he can write, sign and claim (Q1, Q2)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eth_account.signers.local import LocalAccount
from hypothesis import strategies as st

from chain.client.keys import address_of
from chain.protocol.contract import events
from chain.protocol.endorsements import Domain, Endorsement, quorum
from chain.protocol.proof import FinalTransaction, ModelProof, proof_of
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.blocks import Block
from chain.wire.codec import PayloadKind, encode_floats
from chain.wire.receipts import Log, Receipt
from chain.wire.sidecar import payload_digest
from chain.wire.signatures import sign
from chain.wire.transactions import decode_transaction
from tests.chain.network import START, account, endorsements_of, genesis
from tests.chain.small_chain import forged, signed, values_of

SIZES = (6, 3)
RULES = genesis(difficulty=16)
DOMAINS = [
    Domain.of(RULES),
    Domain.of(genesis(chain_id=1)),
    Domain.of(genesis(founder="0x" + "11" * 20)),
]
SYBILS = [account(f"sybil {i}") for i in range(12)]
"""Keys of the attacker that nobody has registered; with them as servers he would be a majority."""
_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def servers_of(count: int) -> list[LocalAccount]:
    return [account(f"server {m}") for m in range(count)]


def model_payload(round_: int, change: float = 0.0) -> bytes:
    """Model k, or another one."""
    return encode_floats(values_of(round_) + change, SIZES, "fp32", PayloadKind.MODEL)


# --- blocks: whoever likes may write and mine them


def published(round_: int, payload: bytes, leader: LocalAccount, **changes: object) -> Block:
    """A sealed block of a round with nothing but a model; its receipt says that the registry took it."""
    digest = payload_digest(payload)
    raw = signed(leader, 0, "model", round_, 0, bytes(32), digest, len(payload))
    topics = (events()["ModelPublished"].topic, _word(round_), bytes(12) + address_of(leader))
    return _sealed(round_ + FOUNDING_BLOCK, raw, Log(RULES.registry, topics, _word(0) + digest), **changes)


def voted(number: int, server: LocalAccount, voter: LocalAccount) -> Block:
    """A sealed block with nothing but a vote; its receipt says that it made somebody a server."""
    who = address_of(server)
    topics = (events()["Registered"].topic, bytes(12) + who, bytes(12) + who)
    return _sealed(number, signed(voter, 0, "vote", who, who), Log(RULES.registry, topics, b""))


def _sealed(number: int, raw: bytes, log: Log, **changes: object) -> Block:
    header = replace(RULES.header, block_number=number, timestamp=START + number, extra_data=b"\1" * 20)
    receipt = Receipt(1, 21_000, (log,))
    return forged(Block(header, (), (), 0), [decode_transaction(raw)], [receipt], **changes)


def _word(number: int) -> bytes:
    return number.to_bytes(32, "big")


# --- signatures


def signature(account_: LocalAccount, unsigned: Endorsement, is_high: bool = False) -> Endorsement:
    """An endorsement with its signature; `is_high`: in the other of the two forms that the curve has."""
    found = bytes(sign(account_, unsigned.digest).to_bytes())
    if is_high:
        s = _ORDER - int.from_bytes(found[32:64], "big")
        found = found[:32] + s.to_bytes(32, "big") + bytes([1 - found[64]])
    return replace(unsigned, signature=found)


@st.composite
def signatures(draw: st.DrawFn, block_hash: bytes, round_: int, keys: Sequence[LocalAccount]) -> list[Endorsement]:
    """Whatever somebody signs with some keys: all of them, and then as often as he likes, for what he likes."""
    times = range(draw(st.sampled_from([1, 1, 4])))
    made = [signature(key, Endorsement(round_, 0, block_hash, t, DOMAINS[0])) for t in times for key in keys]
    for key in draw(st.lists(st.sampled_from(keys), max_size=6)) if keys else ():
        unsigned = Endorsement(
            round_ + draw(st.sampled_from([0, 0, 1])),
            draw(st.sampled_from([0, 0, 1, 2**32 - 1])),
            draw(st.sampled_from([block_hash, block_hash, bytes(32)])),
            draw(st.integers(0, 2**64 - 1)),
            draw(st.sampled_from(DOMAINS)),
        )
        made.append(signature(key, unsigned, is_high=draw(st.booleans()) and draw(st.booleans())))
    return draw(st.permutations(made))


@dataclass(frozen=True)
class Attack:
    """A proof of another model, and the network that it is meant for."""

    servers: list[LocalAccount]
    keys: list[LocalAccount]
    """Those of the servers that the attacker has: not more than half."""
    round: int
    payload: bytes
    """Of his model."""
    block: Block
    proof: ModelProof

    def with_honest(self) -> ModelProof:
        """The same block, had a strict majority signed it: then it would be a final one."""
        signers = self.servers[: quorum(len(self.servers))]
        endorsements = tuple(endorsements_of(self.block.header, signers, RULES))
        return ModelProof(FinalTransaction(proof_of(self.block, 0), endorsements))


@st.composite
def attacks(draw: st.DrawFn) -> Attack:
    """Any minority of 3, 5 or 7 servers, and a proof that they made, with what honest servers signed elsewhere."""
    servers = servers_of(draw(st.sampled_from([3, 5, 7])))
    keys = draw(st.lists(st.sampled_from(servers), max_size=quorum(len(servers)) - 1, unique=True))
    honest = [server for server in servers if server not in keys]
    round_, writer = draw(st.integers(0, 3)), draw(st.sampled_from([*keys, *SYBILS[:1], servers[0]]))
    payload = model_payload(round_, change=1.0)
    block = published(round_, payload, writer, timestamp=START + draw(st.integers(0, 99)))
    own = [*keys, *draw(st.sampled_from([SYBILS, SYBILS[:2], []]))]
    signed_ = draw(signatures(block.header.hash, round_, own))
    right = published(round_, model_payload(round_), servers[0])
    taken = endorsements_of(right.header, honest, RULES) if round_ else []  # what honest servers signed for their block
    if draw(st.booleans()):
        taken = [replace(each, block_hash=block.header.hash) for each in taken]  # and now under another
    joined = draw(st.lists(_votes(own, round_), max_size=8))
    if draw(st.booleans()):
        joined.sort(key=lambda each: each.header.block_number)
    model = FinalTransaction(proof_of(block, 0), tuple(draw(st.permutations([*signed_, *taken]))))
    return Attack(servers, keys, round_, payload, block, ModelProof(model, tuple(joined)))


@st.composite
def _votes(draw: st.DrawFn, keys: Sequence[LocalAccount], round_: int) -> FinalTransaction:
    """A vote of the attacker's that makes one of his keys a server, in a block that he and they sign."""
    number = draw(st.integers(0, round_ + FOUNDING_BLOCK + 1))
    block = voted(number, draw(st.sampled_from(SYBILS)), draw(st.sampled_from(SYBILS)))
    made = draw(signatures(block.header.hash, max(0, number - FOUNDING_BLOCK), keys))
    return FinalTransaction(proof_of(block, 0), tuple(made))
