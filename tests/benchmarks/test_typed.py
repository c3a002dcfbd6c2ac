"""Commands as a person types them: what is asked is answered, what is shown is what was said."""

from pathlib import Path

import pytest

from benchmarks.typed import Desk, short, write_block

ASKS = (
    """python3 -c 'import getpass; print(getpass.getpass("new password of the key: ") == getpass.getpass("again: "))'"""
)


def test_passwords_are_typed_where_they_are_asked_for_and_not_shown(tmp_path: Path) -> None:
    session = Desk("pi-1", tmp_path).run(ASKS, 30)
    assert session.code == 0
    assert session.text.split("\n")[:3] == ["new password of the key: ", "again: ", "True"]
    assert "that of pi-1" not in session.text


def test_what_does_not_end_is_ended_and_told(tmp_path: Path) -> None:
    session = Desk("pi-1", tmp_path).run("echo begins; sleep 600", 1.0)
    assert session.code not in (None, 0)
    assert session.last_line == "(had not ended after 1 s)"


def test_a_command_is_shown_with_its_machine_and_without_long_words_and_its_folder(tmp_path: Path) -> None:
    session = Desk("pi-1", tmp_path).run(f"seq 9; echo {tmp_path}/kit bfl1.{'ab12' * 20}", 30)
    shown = session.shown(most_lines=4).splitlines()
    assert shown[0].startswith("    pi-1$ seq 9; echo ")
    assert [line.strip() for line in shown[1:5]] == ["1", "2", "3", "... 7 more lines"]
    assert shown[-1].startswith("    # ")
    assert session.last_line.startswith("kit bfl1.")
    assert short("0x" + "ab" * 20) == "0xabababab..."


def test_output_goes_between_its_two_comments_and_nowhere_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- made by x -->\nold\n<!-- end of x -->\nafter\n")
    for text in ("one", "two"):
        write_block(page, "x", text)
    assert page.read_text() == "before\n<!-- made by x -->\n\ntwo\n\n<!-- end of x -->\nafter\n"
    with pytest.raises(SystemExit, match="write them where its output goes"):
        write_block(page, "y", "three")
