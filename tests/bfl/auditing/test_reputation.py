"""What an audit says of devices that the filters took out: when, under whom, what came of it; and that it is no lie."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table

from bfl.auditing.evidence import evidence_against, reputation_table
from bfl.auditing.findings import Audit, audit_rounds
from bfl.auditing.tables import round_table
from bfl.auditing.verdict import verdict
from chain.audit.archive import FileArchive
from tests.edge_servers.chain_network import chain_network


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audit]:
    """Five rounds in which device 3 flips signs; after two it is set aside for two."""
    folder: Path = tmp_path_factory.mktemp("run")
    kept: dict[str, Any] = {"devices": 5, "filter": "krum", "reputation": 2, "reputation_rounds": 2, "term_cap": 1}
    with chain_network(attack="sign-flip@all:device=3,strength=20", folder=folder, **kept) as network:
        network.run(5)
    archive = FileArchive(folder)
    yield audit_rounds(archive, execute=False)
    archive.close()


def cells(table: Table) -> list[list[str]]:
    """The rows of a table, as text."""
    return [[str(cell) for cell in row] for row in zip(*(column.cells for column in table.columns), strict=True)]


def test_the_chain_fits_and_nobody_misbehaved(audit: Audit) -> None:
    assert verdict(audit.findings) == "fits"
    assert audit.aside_in == {3: [3, 4]}
    assert [each.filtered for each in audit.rounds] == [(3,), (3,), (), (), (3,)]


def test_why_tells_when_a_device_was_filtered_when_it_was_set_aside_and_when_it_came_back(audit: Audit) -> None:
    told, tables = evidence_against("device 3", audit)
    assert told.startswith("nobody has accused device 3; ")
    assert told.endswith(
        "the filter took its gradient out in round 1, 2, 5, as everybody can derive; "
        "it was set aside in rounds 3 to 4, which is no offence, and came back in round 5"
    )
    assert "device 3: what the filter took out" in {str(table.title) for table in tables}


def test_the_table_names_who_closed_the_list(audit: Audit) -> None:
    closed = [each.closed_by for each in audit.rounds]
    assert cells(reputation_table(3, audit)) == [
        ["1", closed[0], "taken out", ""],
        ["2", closed[1], "taken out", "set aside in rounds 3 to 4"],
        ["5", closed[4], "taken out", ""],
    ]


def test_of_whom_no_filter_took_out_nothing_is_said(audit: Audit) -> None:
    told, tables = evidence_against("device 1", audit)
    assert (told, tables) == ("nobody has accused device 1", [])


def test_a_round_and_the_whole_chain_tell_who_was_set_aside(audit: Audit) -> None:
    assert ["set aside", "device 3 through round 4"] in cells(round_table(audit.rounds[2]))
    assert all(row[0] != "set aside" for row in cells(round_table(audit.rounds[1])))
