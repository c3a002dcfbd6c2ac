"""To whom a device hands its data (P25)."""

import pytest

from clients.consent import Consent
from clients.errors import ClientError


def test_consent_names_the_servers_that_may_have_the_data(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, list[int]]] = [
        ("any", [0, 1, 2, 12]),
        ("never", []),
        ("0,2", [0, 2]),
        ("1", [1]),
        (" 2 , 12", [2, 12]),
        ("00", [0]),
    ]
    for text, allowed in cases:
        with subtests.test(text=text, allowed=allowed):
            assert [server for server in (0, 1, 2, 12) if Consent(text).allows(server)] == allowed


def test_consent_that_cannot_be_read_is_refused(subtests: pytest.Subtests) -> None:
    cases: list[str] = ["", "always", "0;2", "0,", "one", "1.5", "-1", "+2", "1_0"]
    for text in cases:
        with subtests.test(text=text):
            with pytest.raises(ClientError) as caught:
                Consent(text)
            assert str(caught.value) == f'offload: found "{text}", expected any, never, or server numbers such as 0,2'


def test_consent_is_for_any_server_unless_it_says_otherwise() -> None:
    assert Consent() == Consent("any")
