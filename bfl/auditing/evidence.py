"""Who is meant by a name, and what there is against him."""

import re

from rich.table import Table

from bfl.auditing.findings import Audit
from bfl.auditing.tables import absences_table, evidence_table, refusals_table
from bfl.errors import BflError
from chain.wire.address import Address
from edge_servers.founding.network import Network
from edge_servers.learning.reputation import Absence

_NUMBERED = re.compile(r"(server|device)[ -]?(\d+)")


def evidence_against(text: str, audit: Audit) -> tuple[str, list[Table]]:
    """What to say of somebody in one line, and the evidence."""
    if audit.founding is None:
        raise BflError(f"rounds cannot be derived again: {audit.obstacle}")
    network = audit.founding.network
    address = find_address(text, network)
    name = network.name(address)
    findings = [finding for finding in audit.findings if finding.offender == address]
    refusals = refusals_of(name, audit)
    tables = [evidence_table(finding, network) for finding in findings]
    absences = [absence for each in audit.rounds for absence in each.absences if absence.offender == address]
    if absences:
        tables.append(absences_table(name, absences))
    if refusals:
        tables.append(refusals_table(name, refusals))
    device = network.find_device(address)
    standing = _standing(device.index, audit) if device is not None else []
    if device is not None and standing:
        tables.append(reputation_table(device.index, audit))
    if not findings:
        return "; ".join([f"nobody has accused {name}", *_beside(name, audit, refusals), *standing]), tables
    through = max((finding.excluded_through or 0) for finding in findings)
    accused = f"{name} was accused in round {', '.join(map(str, sorted({finding.round for finding in findings})))}"
    return f"{accused} and excluded through round {through}" if through else f"{accused}, never excluded", tables


def _beside(name: str, audit: Audit, refusals: list[tuple[int, str]]) -> list[str]:
    """What there is to say of somebody whom nobody has accused."""
    told = []
    if away := audit.absent_in.get(name):
        told.append(f"it was absent in round {', '.join(map(str, away))}, which is no offence")
    if passed := [str(each.round) for each in audit.rounds if name in each.passed_over]:
        told.append(f"it was passed over as leader in round {', '.join(passed)}")
    if refusals:
        told.append(f"its gradient did not count in round {', '.join(str(round_) for round_, _ in refusals)}")
    return told


def _standing(device: int, audit: Audit) -> list[str]:
    """What the filters of the rounds say of a device, and what came of it (R1-R7): nobody's word is in it."""
    filtered = [str(each.round) for each in audit.rounds if device in each.filtered]
    if not filtered:
        return []
    told = [f"the filter took its gradient out in round {', '.join(filtered)}, as everybody can derive"]
    absences = _absences(device, audit)
    if not absences:
        return [*told, "it was never set aside"]
    spans = ", ".join(f"{each.first} to {each.through}" for each in absences)
    last = max(each.through for each in absences)
    is_back = audit.rounds[-1].round >= last
    return [
        *told,
        f"it was set aside in rounds {spans}, which is no offence, and "
        f"{'came back' if is_back else 'comes back'} in round {last + 1}",
    ]


def _absences(device: int, audit: Audit) -> list[Absence]:
    """Each time that a device was set aside, once."""
    found = {each.first: each for round_ in audit.rounds for each in round_.aside if each.device == device}
    return [found[first] for first in sorted(found)]


def reputation_table(device: int, audit: Audit) -> Table:
    """The rounds in which the filter took a device's gradient out, under whom, and what followed."""
    table = Table(title=f"device {device}: what the filter took out", title_justify="left")
    for column in ("round", "closed by", "derived again", "then"):
        table.add_column(column)
    begins = {each.first: each for each in _absences(device, audit)}
    for each in audit.rounds:
        absence = begins.get(each.round + 1)
        if device in each.filtered:
            then = "" if absence is None else f"set aside in rounds {absence.first} to {absence.through}"
            table.add_row(str(each.round), each.closed_by, "taken out", then)
    return table


def find_address(text: str, network: Network) -> Address:
    """The address of "server 1", "device 3" or of an unambiguous beginning of an address."""
    addresses = [*network.servers, *(device.address for device in network.devices)]
    lowered = text.strip().lower()
    if _NUMBERED.fullmatch(lowered):
        wanted = _NUMBERED.sub(lambda match: f"{match[1]} {int(match[2])}", lowered)
        found = [address for address in addresses if network.name(address) == wanted]
    else:
        beginning = "0x" + lowered.removeprefix("0x")
        found = [address for address in addresses if str(address).startswith(beginning)]
    if len(found) == 1:
        return found[0]
    those = f"{len(found)} participants are meant by {text!r}" if found else f"nobody is called {text!r}"
    raise BflError(
        f"{those}; expected server 0 to {len(network.servers) - 1}, device 0 to {len(network.devices) - 1}, "
        "or the beginning of one address"
    )


def refusals_of(name: str, audit: Audit) -> list[tuple[int, str]]:
    """Rounds in which somebody's gradient did not count, with the leader's reason; none is an omission (P4)."""
    found = []
    for each in audit.rounds:
        reasons = [reason for who, reason in each.refused if who == name]
        left_out = any(trained.name == name and not trained.is_counted for trained in each.trained)
        if reasons or left_out:
            found.append((each.round, ", ".join(reasons) or f"left out by {each.closed_by} without a reason"))
    return found
