"""The ABI codec against eth-abi: what one writes the other reads, and lies are ValueErrors.

Lies are compared with what eth-abi makes of them in test_abi_fuzz.py."""

import pytest
from eth_abi.abi import encode
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.codecs import abi

CHUNKS = st.lists(st.binary(max_size=100), max_size=6)


@given(st.lists(st.binary(max_size=100), min_size=1, max_size=5))
@settings(deadline=None)
def test_bytes_are_written_as_eth_abi_writes_them(values: list[bytes]) -> None:
    """Any number of `bytes` arguments encodes byte for byte like the reference."""
    assert abi.encode_bytes(*values) == encode(["bytes"] * len(values), values)


@given(CHUNKS)
@settings(deadline=None)
def test_an_array_is_written_and_read_as_eth_abi_does(values: list[bytes]) -> None:
    """`bytes[]` encodes like the reference and comes back whole."""
    encoded = encode(["bytes[]"], [values])
    assert abi.encode_bytes_array(values) == encoded
    assert abi.read_bytes_array(encoded) == values


@given(st.binary(max_size=100), st.binary(min_size=20, max_size=20), st.integers(0, 2**256 - 1))
@settings(deadline=None)
def test_what_eth_abi_writes_is_read(data: bytes, address: bytes, number: int) -> None:
    """`bytes`, `address` and `uint256` are found where a function's results put them."""
    encoded = encode(["bytes", "address", "uint256"], [data, address, number])
    assert abi.read_bytes(encoded) == data
    assert abi.read_address(encoded, 32) == address
    assert abi.read_uint(encoded, 64) == number
    assert abi.uint(number) == encode(["uint256"], [number])


@given(st.binary(max_size=200), st.integers(-40, 240))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_a_value_error(data: bytes, at: int) -> None:
    """No reader ever raises anything but ValueError, wherever it is told to look."""
    for read in (
        lambda: abi.read_uint(data, at),
        lambda: abi.read_address(data, at),
        lambda: abi.read_bytes(data, at),
        lambda: abi.read_bytes_array(data),
    ):
        try:
            read()
        except ValueError:
            continue


@pytest.mark.parametrize(
    "lie",
    [
        b"",
        bytes(31),
        abi.uint(32),
        abi.uint(2**256 - 1) + bytes(64),
        abi.uint(32) + abi.uint(1) + abi.uint(2**255),
        abi.uint(32) + abi.uint(2**64),
        abi.uint(32) + abi.uint(abi.MAX_ELEMENTS + 1) + bytes(32 * 70),
        abi.uint(32) + abi.uint(1) + abi.uint(32) + abi.uint(33) + bytes(32),
    ],
)
def test_an_impossible_array_is_refused(lie: bytes) -> None:
    """Offsets beyond the data, lengths beyond the data and absurd counts are ValueErrors."""
    with pytest.raises(ValueError, match="ABI"):
        abi.read_bytes_array(lie)


@pytest.mark.parametrize("at", [-32, -1, 33, 64, 2**255])
def test_nothing_is_read_outside_the_data(at: int) -> None:
    """Neither before the first byte nor behind the last one."""
    with pytest.raises(ValueError, match="cut short"):
        abi.read_uint(bytes(64), at)


def test_an_address_has_twelve_zeros_before_it() -> None:
    """A word with more than 20 bytes in it is no address, whatever its end looks like."""
    assert abi.read_address(bytes(12) + b"\xab" * 20) == b"\xab" * 20
    with pytest.raises(ValueError, match="longer than 20 bytes"):
        abi.read_address(bytes(11) + b"\x01" + b"\xab" * 20)
