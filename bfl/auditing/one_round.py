"""One round by itself: what made its model, without deriving the rounds before it.

Whole are the founding block, the block before and the round's own; of the blocks between, header and receipts tell who
took part and whose turn it was; of later ones headers alone, up to the head. So time does not grow with the models.
"""

from dataclasses import dataclass

from bfl.auditing.executing import why_not_executed
from bfl.auditing.findings import AuditedRound, audited_round
from bfl.auditing.verdict import believed_of_the_last_blocks
from bfl.errors import BflError
from chain.audit.archive import Archive, FileArchive
from chain.audit.found import Inspection
from chain.audit.inspection import InspectedBlock
from chain.audit.light import LightInspector
from chain.audit.misfit import misfit_at
from chain.errors import InspectionError
from chain.protocol.consensus import check_header
from chain.protocol.turns import FOUNDING_BLOCK
from chain.wire.headers import Header
from edge_servers.founding.simulated import what_is_simulated
from edge_servers.replay.audit import Auditor


@dataclass(frozen=True)
class RoundAudit:
    """A round that follows from the model before it."""

    round: AuditedRound
    found: Inspection
    head: Header
    simulated: str
    not_executed: str
    """Why its receipts were believed; empty where its block was executed here."""

    @property
    def left_out(self) -> str:
        """What a whole audit does beside this, in one line."""
        k = self.round.round
        told = []
        if k > 1:
            earlier = "round 1" if k == 2 else f"rounds 1 to {k - 1}"
            told.append(f"model {k - 1} is taken as sealed; {earlier} not derived, receipts believed")
        told.append(f"not executed: {self.not_executed}" if self.not_executed else f"executed: block {k + 1} alone")
        if self.head.block_number > k + 1:
            told.append(f"after block {k + 1} headers only")
        return "; ".join(told)

    @property
    def believed(self) -> list[str]:
        """What was taken as somebody says it is, line by line."""
        k = self.round.round
        told = [f"receipts of blocks 1 to {k + 1 if self.not_executed else k}, as they are sealed"]
        told += [] if self.not_executed else [f"the state after block {k}, as its header names it"]
        how = "as a majority of the servers has signed it" if self.found.final >= k else "as it is sealed"
        told += [f"model {k - 1}, {how}"] if k > 1 else []
        return told + believed_of_the_last_blocks(self.found)


def audit_round(archive: Archive, round_: int, execute: bool | None = None) -> RoundAudit:
    """Audit round k alone; `InspectionError` or `AuditError` names the place that does not fit."""
    inspector, auditor = LightInspector(archive.genesis, archive), Auditor(archive.genesis)
    with misfit_at("the head"):
        head = archive.head()
    _inspected(0, inspector, archive)
    before = _inspected(FOUNDING_BLOCK, inspector, archive)
    auditor.take(before)
    if auditor.founding is None:
        raise BflError(f"round {round_} cannot be derived again: {auditor.obstacle}")
    for number in range(FOUNDING_BLOCK + 1, round_):
        with misfit_at(f"block {number}"):
            header = archive.header(number)
            receipts = archive.receipts(header)
        inspector.follow(header, receipts)
    if round_ > FOUNDING_BLOCK:
        before = _inspected(round_, inspector, archive)
        _stand_on(before, auditor)
    block = _inspected(round_ + 1, inspector, archive)
    reason = why_not_executed(execute) or _execute(block, before.block.header, archive)
    if reason and execute:
        raise BflError(f"block {round_ + 1} cannot be executed: {reason}")
    derived = None if block.is_pruned else auditor.take(block)
    if derived is None:
        raise BflError(f"round {round_} is pruned: of it digests and signatures were checked, no more")
    with misfit_at("the endorsements"):
        inspector.take_beside(archive)
    _follow(block.block.header, head, archive)
    simulated = what_is_simulated(auditor.founding, archive.genesis)
    return RoundAudit(audited_round(derived), inspector.found, head, simulated, reason)


def _inspected(number: int, inspector: LightInspector, archive: Archive) -> InspectedBlock:
    with misfit_at(f"block {number}"):
        block = archive.block(number)
    return inspector.check(block)


def _stand_on(before: InspectedBlock, auditor: Auditor) -> None:
    """Take the model before as it is sealed; where its gradients are pruned, nobody says how far they were apart."""
    if before.is_pruned:
        auditor.take(before)
    else:
        auditor.stand_on(before)


def _execute(block: InspectedBlock, parent: Header, archive: Archive) -> str:
    """Execute a block on the state in a file; returns why not, where that is not at hand."""
    if not isinstance(archive, FileArchive):
        return "the state is in a node's database; audit a file for that"
    if not archive.state.has_state(parent.state_root):
        return f"the file has no state after block {parent.block_number}"
    from chain.audit.execution import execute_block  # py-evm takes a second, and is an extra

    execute_block(block, parent, archive.state)
    return ""


def _follow(header: Header, head: Header, archive: Archive) -> None:
    """The headers after the round, up to the head: nobody has put its block beside the chain."""
    for number in range(header.block_number + 1, head.block_number + 1):
        parent = header
        with misfit_at(f"block {number}"):
            header = archive.header(number)
            check_header(header, parent, archive.genesis)
    if header.hash != head.hash:
        raise InspectionError(f"block {head.block_number}: 0x{header.hash.hex()} is not the head 0x{head.hash.hex()}")
