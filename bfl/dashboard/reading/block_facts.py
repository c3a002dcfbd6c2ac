"""A block as facts: what is in it, what it says of its round. Nothing is verified here: that is what an audit does."""

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from bfl.dashboard.facts import ITSELF, BlockFact, OffenceFact, RefusedNode, RoundFact
from bfl.dashboard.reading.clean import text
from bfl.dashboard.reading.founded import Founded
from bfl.dashboard.reading.round_lines import assignment_of, latency_terms, unused_id
from chain.client.posts import Flag
from chain.errors import ChainError, CodecError, InspectionError, NotRegistryCallError
from chain.protocol.contract import Call, decode_call, decode_log
from chain.protocol.posts import PayloadSource, count_posts
from chain.protocol.slots import Slot, kind_of, step_of
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.address import Address
from chain.wire.blocks import Block, encode_block
from chain.wire.documents import ClosedList
from chain.wire.plan import NO_PLAN, Plan, read_plan
from chain.wire.transactions import Transaction

MOST_DOCUMENT_BYTES = 64 << 20
_FLAGS = ("flag", "flag_equivocation", "flag_signatures")


def block_fact(block: Block, founded: Founded, endorsements: int, is_final: bool) -> BlockFact:
    """A block in a few hundred bytes."""
    header = block.header
    counted = count_posts(zip(block.transactions, (each.status for each in block.receipts), strict=True))
    return BlockFact(
        number=header.block_number,
        hash=f"0x{header.hash.hex()}",
        round=max(0, header.block_number - FOUNDING_BLOCK),
        timestamp=header.timestamp,
        leader=founded.name_of(header.coinbase) if header.block_number else "",
        winner=founded.name_of(header.winner) if header.winner else "",
        posts=dict(sorted(counted.kinds.items())),
        size=len(encode_block(header, block.transactions)),
        payload_size=counted.payload_bytes,
        difficulty=header.difficulty,
        endorsements=endorsements,
        is_final=is_final,
        attempt=counted.attempt,
    )


@dataclass
class PostedRound:
    """What the registry accepted in a block, by kind of call; and what it made of flags."""

    calls: dict[str, list[tuple[Transaction, Call]]] = field(default_factory=lambda: defaultdict(list))
    flags: list[Flag] = field(default_factory=list)
    excluded: dict[bytes, int] = field(default_factory=dict)
    """Last round of the exclusion, by address."""

    def only(self, kind: str) -> Call | None:
        """The call of the kind that there is one of."""
        found = self.calls.get(kind, ())
        return found[0][1] if found else None


def posted_in(block: Block) -> PostedRound:
    """The accepted posts of a block; who sent them is recovered by whoever asks."""
    found = PostedRound()
    for transaction, receipt in zip(block.transactions, block.receipts, strict=True):
        if receipt.status != 1 or not transaction.to:
            continue
        try:
            call = decode_call(transaction.data)
        except NotRegistryCallError:
            continue
        found.calls[call.name].append((transaction, call))
        if call.name in _FLAGS:
            _take_flag(found, [decode_log(log.topics, log.data) for log in receipt.logs])
    return found


def _take_flag(found: PostedRound, events: Sequence[Call | None]) -> None:
    for event in events:
        if event is not None and event.name == "Flagged":
            found.flags.append(
                Flag(
                    int(event["round"]), event["offender"], event["server"], int(event["slot"]),
                    bytes(event["transaction_hash"]), bytes(event["expected"]),
                )
            )  # fmt: skip
        if event is not None and event.name == "Excluded":
            found.excluded[event["participant"]] = int(event["last_round"])


def plan_in(posted: PostedRound, payloads: PayloadSource) -> Plan:
    """The plan of a round; an empty one where it was pruned or cannot be read."""
    call = posted.only("plan")
    try:
        return NO_PLAN if call is None else read_plan(_document(call, payloads))
    except (CodecError, InspectionError):
        return NO_PLAN


def _document(call: Call, payloads: PayloadSource) -> bytes:
    """The payload of a plan or closed list; empty where it is not here, or larger than any is."""
    if not 0 < int(call["size"]) <= MOST_DOCUMENT_BYTES:
        return b""
    return payloads.payload(bytes(call["digest"])) or b""


def round_fact(
    block: Block, fact: BlockFact, founded: Founded, payloads: PayloadSource, through: Mapping[int, int]
) -> tuple[RoundFact, dict[int, int]]:
    """What a block alone tells of its round: no accuracy, and nothing of how long it took. `through`: until when
    servers were excluded before it, by number; as it is after it is returned too.
    """
    header, posted, round_ = block.header, posted_in(block), fact.round
    plan, closed = plan_in(posted, payloads), _closed_list(posted, payloads)
    counted = [call for sent, call in posted.calls["gradient"] if closed is None or sent.hash in closed.accepted]
    after = _through_after(posted, founded, through)
    barred = {server for server, last in through.items() if last >= round_}
    told = RoundFact(
        round=round_,
        leader=_or_nobody(founded.number_of(header.coinbase)),
        winner=founded.number_of(header.winner) if header.winner else None,
        phi=plan.phi,
        training_nodes=len(counted),
        samples=sum(int(call["samples"]) for call in counted),
        offloaded=sum(each != ITSELF for each in plan.assignment),
        assignment=assignment_of(plan.assignment),
        latency={"paper": terms} if (terms := latency_terms(dict(plan.latency_s))) else {},
        refused=_refused(closed, founded),
        offences=offences_in(posted, round_, founded),
        absent=_absent(posted, founded, barred),
        excluded=tuple(sorted(server for server, last in after.items() if last > round_)),
        aside=tuple((row[0], row[2]) for row in plan.reputation if len(row) > 2 and row[2] >= plan.round),
        block=fact.hash,
        block_bytes=fact.size,
    )
    return told, after


def _or_nobody(number: int | None) -> int:
    return ITSELF if number is None else number


def _through_after(posted: PostedRound, founded: Founded, before: Mapping[int, int]) -> dict[int, int]:
    found = {founded.number_of(who): last for who, last in posted.excluded.items()}
    return {**before, **{number: last for number, last in found.items() if number is not None}}


def _closed_list(posted: PostedRound, payloads: PayloadSource) -> ClosedList | None:
    call = posted.only("close")
    try:
        return None if call is None else ClosedList.decode(_document(call, payloads))
    except (CodecError, InspectionError):
        return None


def _refused(closed: ClosedList | None, founded: Founded) -> tuple[RefusedNode, ...]:
    return tuple(
        RefusedNode(_name_of_text(who, founded), text(reason, 80))
        for who, reason in (() if closed is None else closed.refused[:4096])
    )


def _name_of_text(who: str, founded: Founded) -> str:
    try:
        return founded.name_of(Address(who))
    except (ChainError, TypeError):
        return text(who, 80)


def _absent(posted: PostedRound, founded: Founded, barred: Container[int]) -> tuple[str, ...]:
    """Servers without an iterate of step 0 in a round that has some, unless they might post none (D3.6)."""
    first = [sent for sent, call in posted.calls["iterate"] if int(call["step"]) == 0]
    if not first:
        return ()
    here = {f"0x{sent.sender.hex()}" for sent in first} if len(first) < len(founded.servers) else set(founded.servers)
    away = (number for number, each in enumerate(founded.servers) if each not in here and number not in barred)
    return tuple(f"server {number}" for number in away)


def offences_in(posted: PostedRound, round_: int, founded: Founded) -> tuple[OffenceFact, ...]:
    """What servers flagged in a block; of one offence there may be a flag of each."""
    told: dict[str, OffenceFact] = {}
    for flag in dict.fromkeys((each.offender, each.slot) for each in posted.flags):
        offender, slot = flag
        name, kind, step = founded.name_of(offender), kind_of(slot), step_of(slot)
        count = sum((each.offender, each.slot) == flag for each in posted.flags)
        what = f"iterate of step {step}" if step is not None else kind.replace("_", " ")
        detail = f"{name}: {what}, flagged by {count} of {len(founded.servers)} servers"
        id_ = unused_id(round_, name, kind, step, told)
        told[id_] = OffenceFact(id_, round_, name, kind, step, detail, posted.excluded.get(offender))
    return tuple(told.values())


def slot_of(offence: OffenceFact) -> int | None:
    """The slot that flags of an offence name."""
    if offence.step is not None:
        return Slot.ITERATE + offence.step
    return Slot[offence.kind.upper()] if offence.kind.upper() in Slot.__members__ else None
