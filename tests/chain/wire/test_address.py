"""An address: bytes where it is hashed and sorted, text for people, and nothing else."""

import pickle

import pytest
import rlp
from hypothesis import given
from hypothesis import strategies as st

from chain.errors import CodecError
from chain.protocol.contract import decode_call, encode_call
from chain.wire.address import Address

TWENTY = st.binary(min_size=20, max_size=20)


@given(TWENTY)
def test_bytes_and_text_lead_to_the_same_address(raw: bytes) -> None:
    address = Address(raw)
    assert str(address) == f"{address}" == "0x" + raw.hex()
    assert Address(str(address)) == Address("0x" + raw.hex().upper()) == address
    assert eval(repr(address)) == address  # noqa: S307 - our own words
    assert pickle.loads(pickle.dumps(address)) == address  # noqa: S301


@given(TWENTY)
def test_it_is_its_bytes_to_whoever_compares_hashes_or_encodes(raw: bytes) -> None:
    address = Address(raw)
    assert (address, hash(address), {raw: 1}[address]) == (raw, hash(raw), 1)
    assert rlp.encode([address]) == rlp.encode([raw])
    assert encode_call("credit", address) == encode_call("credit", raw) == encode_call("credit", str(address))
    assert decode_call(encode_call("credit", raw))["arg0"] == address


@given(st.lists(TWENTY, max_size=20))
def test_addresses_are_in_the_order_of_their_texts(raws: list[bytes]) -> None:
    addresses = [Address(raw) for raw in raws]
    assert [str(each) for each in sorted(addresses)] == sorted(str(each) for each in addresses)


@pytest.mark.parametrize("size", [0, 1, 19, 21, 32])
def test_other_lengths_are_refused(size: int) -> None:
    with pytest.raises(CodecError, match=f"found {size} bytes of address, expected 20"):
        Address(bytes(size))


@pytest.mark.parametrize(
    "text",
    ["", "0x", "00" * 20, "0X" + "00" * 20, "0x" + "00" * 19, "0x" + "00" * 21, "0x" + "0g" * 20, " 0x" + "00" * 20,
     "0x" + "00" * 20 + "\n", "0x" + "0 " * 20],
)  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(CodecError, match="expected 0x and 40 hex digits"):
        Address(text)


def test_it_is_padded_as_the_text_it_is() -> None:
    assert f"{Address(bytes(20)):>44}" == "  0x" + "00" * 20
