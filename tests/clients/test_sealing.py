"""Data that are sealed to one server: nobody else opens them, nor for another round, nor with a bit changed."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.client.keys import address_of, new_account, public_key_of
from clients.errors import ReplyError
from clients.sealing import MORE_BYTES, associated, digest_to_sign, open_sealed, seal

ABOUT = associated(7, 3, 1, 0, "ab" * 32)
DEVICE = new_account()
SENDER = address_of(DEVICE)


@given(st.binary(max_size=4096))
def test_its_server_opens_what_was_sealed_and_it_is_114_bytes_longer(data: bytes) -> None:
    server = new_account()
    sealed = seal(data, DEVICE, public_key_of(server), ABOUT)
    assert len(sealed) == len(data) + MORE_BYTES == len(data) + 114
    assert open_sealed(sealed, bytes(server.key), ABOUT, SENDER) == data


def test_no_other_key_opens_it() -> None:
    server, others = new_account(), [new_account() for _ in range(8)]
    sealed = seal(b"mine", DEVICE, public_key_of(server), ABOUT)
    for other in others:
        with pytest.raises(ReplyError, match="not sealed to this server"):
            open_sealed(sealed, bytes(other.key), ABOUT, SENDER)


@pytest.mark.parametrize(
    "about",
    [
        associated(8, 3, 1, 0, "ab" * 32), associated(7, 4, 1, 0, "ab" * 32), associated(7, 3, 2, 0, "ab" * 32),
        associated(7, 3, 1, 1, "ab" * 32), associated(7, 3, 1, 0, "ac" * 32),
    ],
)  # fmt: skip
def test_it_opens_for_nothing_else_than_it_was_sealed_for(about: bytes) -> None:
    server = new_account()
    with pytest.raises(ReplyError, match="for this round"):
        open_sealed(seal(b"mine", DEVICE, public_key_of(server), ABOUT), bytes(server.key), about, SENDER)


@given(st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_a_changed_byte_is_noticed(where: int, by: int) -> None:
    server = new_account()
    sealed = bytearray(seal(b"some data", DEVICE, public_key_of(server), ABOUT))
    sealed[where % len(sealed)] ^= by
    with pytest.raises(ReplyError):
        open_sealed(bytes(sealed), bytes(server.key), ABOUT, SENDER)


@pytest.mark.parametrize("size", [0, 1, 113, 114, 200])
def test_nonsense_is_refused(size: int) -> None:
    with pytest.raises(ReplyError):
        open_sealed(os.urandom(size), bytes(new_account().key), ABOUT, SENDER)


def test_the_same_data_never_look_the_same() -> None:
    server = new_account()
    assert seal(b"x", DEVICE, public_key_of(server), ABOUT) != seal(b"x", DEVICE, public_key_of(server), ABOUT)


def test_what_another_has_sealed_is_not_the_device_s() -> None:
    """Everybody knows the server's public key: home, too, could seal what it likes."""
    server, home = new_account(), new_account()
    with pytest.raises(ReplyError, match="expected the device's own signature"):
        open_sealed(seal(b"poison", home, public_key_of(server), ABOUT), bytes(server.key), ABOUT, SENDER)


def test_what_a_device_signed_for_one_round_is_signed_for_no_other() -> None:
    """Whoever opens it could seal it anew."""
    digests = {digest_to_sign(data, about) for data in (b"mine", b"") for about in (ABOUT, ABOUT[:-1], ABOUT + b"mine")}
    assert len(digests) == 6
