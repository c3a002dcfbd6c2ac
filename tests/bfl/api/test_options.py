"""The settings as a type: the same as the settings themselves."""

from tests.bfl.api.make_options import FILE, options_text


def test_the_type_that_editors_complete_is_that_of_the_settings() -> None:
    found = FILE.read_text(encoding="utf-8")
    assert found == options_text(), "write it anew: python -m tests.bfl.api.make_options"
