"""How one knows of an offence: what was posted, what was expected, who said so, what came of it."""

from dataclasses import replace

from bfl.dashboard.decoded import AuditState, Evidence, FlagDetail, Said
from bfl.dashboard.facts import OffenceFact
from bfl.dashboard.reading.block_facts import PostedRound, posted_in, slot_of
from bfl.dashboard.reading.founded import Founded, read_founded
from chain.audit.archive import Archive
from chain.client.posts import Flag
from chain.protocol.posts import KINDS, Post
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.address import Address
from chain.wire.blocks import Block

_NOTHING = bytes(32)


def evidence_of_metrics(offence: OffenceFact) -> Evidence:
    """What the run's own record says; there is nothing to check it against."""
    return Evidence(
        offence,
        f"{offence.detail or offence.offender}. The run's own record says so; no block does that could be checked.",
        "metrics",
        excluded_from=offence.round + 1 if offence.excluded_through else None,
        excluded_through=offence.excluded_through,
    )


def evidence_in_block(archive: Archive, offence: OffenceFact) -> Evidence:
    """What the block of the round has of it: the post itself, and the servers' flags."""
    founded, number = read_founded(archive), offence.round + FOUNDING_BLOCK
    block = archive.block(number)
    posted = posted_in(block)
    flags = [each for each in posted.flags if _is_about(each, offence, founded)]
    through = offence.excluded_through or max((posted.excluded.get(each.offender, 0) for each in flags), default=0)
    details = tuple(_flag(each, posted, founded) for each in flags)
    flagged_by = tuple(dict.fromkeys(each.server for each in details))
    post = _post_about(posted, offence, founded)
    expected = next((each.expected for each in details if each.expected), "")
    return Evidence(
        offence=replace(offence, excluded_through=through or None),
        told=_told(offence, flagged_by, founded, through),
        source="chain" if flags else "metrics",
        block=number,
        transaction="" if post is None else f"0x{post.transaction_hash.hex()}",
        posted="" if post is None else f"0x{post.digest.hex()}",
        expected=expected,
        flags=details,
        flagged_by=flagged_by,
        excluded_from=offence.round + 1 if through else None,
        excluded_through=through or None,
        steps=_steps(block, post, details, offence, through),
    )


def _is_about(flag: Flag, offence: OffenceFact, founded: Founded) -> bool:
    return founded.name_of(flag.offender) == offence.offender and flag.slot == slot_of(offence)


def _flag(flag: Flag, posted: PostedRound, founded: Founded) -> FlagDetail:
    sent = [
        transaction.hash
        for kind in ("flag", "flag_equivocation", "flag_signatures")
        for transaction, _ in posted.calls.get(kind, ())
        if transaction.sender == flag.server
    ]
    expected = "" if flag.expected == _NOTHING else f"0x{flag.expected.hex()}"
    return FlagDetail(founded.name_of(flag.server), f"0x{sent[0].hex()}" if sent else "", expected)


def _post_about(posted: PostedRound, offence: OffenceFact, founded: Founded) -> Post | None:
    """What the offender posted in the slot; None where it is not in the block."""
    for kind in KINDS:
        for transaction, call in posted.calls.get(kind, ()):
            is_kind = kind == offence.kind and (offence.step is None or int(call["step"]) == offence.step)
            if is_kind and founded.name_of(transaction.sender) == offence.offender:
                return Post.of(call, Address(transaction.sender), transaction.hash)
    return None


def _told(offence: OffenceFact, flagged_by: tuple[str, ...], founded: Founded, through: int) -> str:
    told = f"In round {offence.round}: {offence.detail or offence.offender}."
    if flagged_by:
        told += f" {len(flagged_by)} of {len(founded.servers)} servers computed it again and flagged it"
        told += f": {', '.join(flagged_by)}."
    else:
        told += " No flag of it is in the block: the run's own record says so."
    return told + (f" The registry excluded {offence.offender} through round {through}." if through else "")


def _steps(
    block: Block, post: Post | None, flags: tuple[FlagDetail, ...], offence: OffenceFact, through: int
) -> tuple[Said, ...]:
    number = block.header.block_number
    said = [Said(f"{offence.offender} posted", f"0x{post.digest.hex()}", _link(post))] if post is not None else []
    said += [
        Said(f"{flag.server} flagged it", f"expected {flag.expected or 'nothing else'}", f"/tx/{flag.transaction}")
        for flag in flags
    ]
    said.append(Said("sealed", f"in block {number}", f"/block/{number}"))
    if through:
        said.append(Said("excluded", f"rounds {offence.round + 1} through {through}"))
    return tuple(said)


def _link(post: Post) -> str:
    return f"/tx/0x{post.transaction_hash.hex()}"


def with_finding(evidence: Evidence, audit: AuditState) -> Evidence:
    """With what an audit has derived again, where one has run."""
    offence = evidence.offence
    for found in audit.findings:
        if (found.round, found.offender, found.id) == (offence.round, offence.offender, offence.id):
            return replace(
                evidence,
                source="audit",
                verdict=found.verdict,
                off_by=found.off_by,
                off_by_norm=found.off_by_norm,
                posted=evidence.posted or found.posted,
                expected=evidence.expected or found.expected,
                flagged_by=evidence.flagged_by or found.flagged_by,
                excluded_through=evidence.excluded_through or found.excluded_through,
            )
    return evidence
