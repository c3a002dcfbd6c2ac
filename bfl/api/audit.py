"""`run.audit()`: the whole chain of a run derived again, as `bfl audit check` does."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfl.api.chain import RunChain
from bfl.api.rich_html import as_html, as_text
from bfl.errors import BflError

if TYPE_CHECKING:
    from bfl.auditing.findings import Audit
    from chain.protocol.genesis import Genesis


@dataclass(frozen=True, eq=False)
class RunAudit:
    """What came of an audit. Where the chain does not fit there is none: `run.audit()` raises, and says where."""

    audit: "Audit"
    """Every round: who trained, who was refused, who lied."""
    genesis: "Genesis"
    seconds: float

    @property
    def verdict(self) -> str:
        """fits; or fits, but somebody misbehaved; as far as it could be checked."""
        from bfl.auditing.verdict import gaps_in, verdict

        return verdict(self.audit.findings, gaps_in(self.audit))

    @property
    def is_clean(self) -> bool:
        """Whether it fits, nobody misbehaved, and nothing was left unchecked."""
        return self.verdict == "fits"

    @property
    def misbehaved(self) -> list[str]:
        """Names of those who did."""
        from bfl.auditing.verdict import misbehaving

        return sorted(misbehaving(self.audit.findings))

    @property
    def findings(self) -> list[dict[str, Any]]:
        """One flat dict per offence or flag: for pandas."""
        return [
            {
                "round": each.round, "who": each.name, "kind": each.kind, "step": each.step, "verdict": each.verdict,
                "detail": each.detail, "flagged_by": ", ".join(each.flagged_by),
                "excluded_through": each.excluded_through,
            }
            for each in self.audit.findings
        ]  # fmt: skip

    def _tables(self) -> list[Any]:
        from bfl.auditing.tables import findings_table, verdict_table

        tables = [verdict_table(self.audit, self.genesis, self.seconds)]
        return [*tables, findings_table(self.audit.findings)] if self.audit.findings else tables

    def __str__(self) -> str:
        return as_text(*self._tables())

    def __repr__(self) -> str:
        return f"<audit of {len(self.audit.rounds)} rounds: {self.verdict}>"

    def _repr_html_(self) -> str:
        return as_html(*self._tables())


def audit_run(folder: Path, execute: bool | None) -> RunAudit:
    """The audit of a run folder; `BflError` names the first place that does not fit."""
    from bfl.auditing.findings import audit_rounds
    from bfl.auditing.model_file import checked_run_model, run_model
    from chain.errors import InspectionError, ProofError
    from edge_servers.replay.audit import AuditError

    began = time.perf_counter()
    with RunChain(folder).open() as archive:
        try:
            audit = audit_rounds(archive, execute=execute)
            path = run_model(folder)
            audit.model_file = "" if path is None else checked_run_model(path, audit)
        except (InspectionError, AuditError, ProofError) as error:
            raise BflError(f"{folder} does not fit: {error}") from error
        return RunAudit(audit, archive.genesis, time.perf_counter() - began)
