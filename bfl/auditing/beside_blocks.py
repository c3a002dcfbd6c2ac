"""What a proof folder has beside its blocks: payloads (B8) and endorsements (Q2)."""

from collections.abc import Sequence

from chain.errors import ProofError
from chain.protocol.contract import decode_log
from chain.protocol.endorsements import Domain, Endorsement, decode_endorsement
from chain.protocol.genesis import Genesis
from chain.protocol.posts import SignedCall
from chain.wire.documents import read_canonical_json
from chain.wire.lists import decode_list
from chain.wire.receipts import Receipt

_SLACK_BYTES = 1 << 20
_MOST_PAYLOADS = 1 << 16


def read_payloads(raw: bytes) -> list[bytes]:
    """The content of a file of payloads: an RLP list."""
    found: list[bytes] = decode_list(raw, _MOST_PAYLOADS)
    return found


def most_payload_bytes(posts: Sequence[SignedCall]) -> int:
    """How large a file of payloads may be beside a block with these posts: each names the size of its own."""
    sizes = [each.size for post in posts for each in post.commitments]
    return sum(sizes) + _SLACK_BYTES


def endorsed_blocks(round_: int, receipts: list[tuple[Receipt, ...]]) -> list[int]:
    """The blocks whose signatures are needed: the proven one, the one before it, and where servers joined (Q2)."""
    joins = [number for number, each in enumerate(receipts) if number > 1 and _has_new_server(each)]
    return sorted({*joins, round_, round_ + 1} - {1})


def _has_new_server(receipts: tuple[Receipt, ...]) -> bool:
    found = [decode_log(log.topics, log.data) for receipt in receipts for log in receipt.logs]
    return any(e is not None and e.name == "Registered" and e["participant"] == e["home"] for e in found)


def read_endorsements(raw: bytes, genesis: Genesis) -> list[Endorsement]:
    """The content of a file of endorsements: a canonical JSON list."""
    found, domain = read_canonical_json(raw), Domain.of(genesis)
    if not isinstance(found, list) or not all(isinstance(each, str) and each.startswith("0x") for each in found):
        raise ProofError("found no list of endorsements")
    return [decode_endorsement(bytes.fromhex(each[2:]), domain) for each in found]
