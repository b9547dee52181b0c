"""The ABI codec against eth-abi: 50,000 values written and read, and as many lies as possible.

Every function of `codecs/abi.py` is compared with the reference. Where the reference reads a
value we read the same one, but for arrays of more than 64 elements, which we refuse; where it
refuses we do too, but for three things that Solidity's own decoder accepts as well:
padding that is not zero, padding that was left off at the end of the data, and offsets that lead
back into the heads. Then a reader that follows the specification word by word decides."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import pytest
from eth_abi.abi import decode, encode
from eth_abi.exceptions import (
    DecodingError,
    InsufficientDataBytes,
    InvalidPointer,
    NonEmptyPaddingBytes,
)
from hypothesis import example, given
from hypothesis import strategies as st

from content_gateway.codecs import abi
from tests.chance import examples

pytestmark = pytest.mark.deep

# Examples of each test; together with tests/codecs and tests/model there are 100,000.
SHARES: Final = {"written": 8_000, "read": 8_000, "bytes": 9_000, "array": 11_000, "lookup": 14_000}
RAW: Final = st.binary(max_size=96)  # what the cases are cut from: one draw is quick
T = TypeVar("T")

# What stands where: values around the ends of small data, and absurd ones.
WORDS: Final = (
    *(n * 32 for n in range(12)),
    *(n * 32 + d for n in range(4) for d in (-1, 1) if n or d > 0),
    *range(2, 9),
    *(20, 64 * 32, 65, 2**16, 2**31, 2**32, 2**63, 2**64, 2**64 + 32, 2**255, 2**256 - 32),
    2**256 - 1,
)


def pieces(raw: bytes) -> list[bytes]:
    """*raw* cut into values: its first byte says how many, the next ones how long each is."""
    if not raw:
        return []
    count = raw[0] % 7
    lengths, rest = raw[1 : 1 + count], raw[1 + count :]
    values = []
    for length in lengths:
        values.append(rest[: length % 70] + bytes(max(0, length % 70 - len(rest))))
        rest = rest[length % 70 :]
    return values


@given(RAW)
@examples(SHARES["written"])
def test_whatever_we_write_is_what_eth_abi_writes(raw: bytes) -> None:
    """Byte for byte: `uint256`, `bytes`, arrays of `bytes` and `bool`, alone and in a tuple."""
    values = pieces(raw)
    flags = [byte & 1 == 1 for byte in raw[:5]]
    number = int.from_bytes(raw[:32], "big")
    assert abi.uint(number) == encode(["uint256"], [number])
    array = encode(["bytes[]"], [values])
    assert abi.encode_bytes_array(values) == array
    assert abi.bytes_array_tail(values) == array[32:]
    assert abi.encode_bytes(*values) == encode(["bytes"] * len(values), values)
    assert abi.tail(raw) == encode(["bytes"], [raw])[32:]
    assert abi.bools_tail(flags) == encode(["bool[]"], [flags])[32:]
    both = abi.with_offsets([abi.bools_tail(flags), abi.bytes_array_tail(values)])
    assert both == encode(["bool[]", "bytes[]"], [flags, values])


@given(RAW)
@examples(SHARES["read"])
def test_whatever_eth_abi_writes_we_read(raw: bytes) -> None:
    """Each kind of value is found where it stands in a tuple of all of them."""
    values = pieces(raw)
    number = int.from_bytes(raw[-32:], "big")
    address, selector = raw[:20].rjust(20, b"\0"), raw[:4].ljust(4, b"\0")
    types = ["address", "bytes[]", "bytes", "bytes4", "uint256", "(bytes,string[])"]
    texts = [value.hex() for value in values]
    data = encode(types, [address, values, raw, selector, number, (raw, texts)])
    assert abi.read_address(data, 0) == address
    assert abi.read_bytes_array(data, 32) == values
    assert abi.read_array(data, 32)[0] == len(values)
    assert abi.read_bytes(data, 64) == raw
    assert abi.read_selector(data, 96) == selector
    assert abi.read_uint(data, 128) == number
    inner = abi.read_uint(data, 160)
    assert abi.read_bytes(data, inner, inner) == raw
    assert abi.read_bytes_array(data, inner + 32, inner) == [text.encode() for text in texts]


# -- lies -----------------------------------------------------------------------------------


def tampered(honest: bytes, raw: bytes) -> bytes:
    """*honest* data with a few words replaced, bytes changed, words swapped, or its end cut off.

    Each change takes three bytes of *raw*: which, where, to what."""
    data = bytearray(honest)
    for at in range(0, min(len(raw) - 2, 12), 3):
        kind, where, what = raw[at : at + 3]
        words = len(data) // 32
        if not words:
            break
        start = where % words * 32
        if kind < 110:
            data[start : start + 32] = WORDS[what % len(WORDS)].to_bytes(32, "big")
        elif kind < 160:
            data[(start + 31 - what % 3) % len(data)] = raw[-1 - at % len(raw)]
        elif kind < 190:
            data[where * 7 % len(data)] ^= 1 << what % 8
        elif kind < 215:
            other = what % words * 32
            data[start : start + 32], data[other : other + 32] = (
                data[other : other + 32],
                data[start : start + 32],
            )
        elif kind < 235:
            del data[len(data) - what % len(data) :]
        else:
            data[start:start] = data[what % words * 32 :][:32]
    return bytes(data)


def theirs(types: Sequence[str], data: bytes) -> Any:
    """What the reference reads, or the error with which it refuses."""
    try:
        return decode(types, data)
    except (DecodingError, OverflowError) as refused:
        return refused


def ours(read: Callable[[], T]) -> T | None:
    """What we read, None for ValueError; any other error is a failure."""
    try:
        return read()
    except ValueError:
        return None


class Literal:
    """The specification read literally: words at offsets, and nothing that is not in the data."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def word(self, at: int) -> int:
        """The number at *at*; LookupError where the data has none."""
        if at > len(self._data) - 32:
            raise LookupError(at)
        return int(self._data[at : at + 32].hex(), 16)

    def string(self, base: int, head: int) -> bytes:
        """The `bytes` that the offset at *head* leads to, counted from *base*."""
        start = base + self.word(head)
        end = start + 32 + self.word(start)
        if end > len(self._data):
            raise LookupError(end)
        return self._data[start + 32 : end]

    def strings(self, base: int, head: int) -> list[bytes]:
        """The `bytes[]` that the offset at *head* leads to."""
        start = base + self.word(head)
        first, count = start + 32, self.word(start)
        if count > 100:
            raise LookupError(count)
        return [self.string(first, first + 32 * index) for index in range(count)]


def literally(read: Callable[[], T]) -> T | None:
    """What the literal reader finds, None where the data does not have it."""
    with suppress(LookupError):
        return read()
    return None


def check(found: T | None, reference: Any, literal: T | None, largest: int = 0) -> None:
    """Compare what we *found* with what the reference reads or why it refuses, and with the
    literal reading; *largest* is the number of elements of the largest array in the data."""
    if not isinstance(reference, Exception):
        if largest > abi.MAX_ELEMENTS:
            assert found is None
        else:
            assert found == reference
    elif found is not None:
        lenient = (NonEmptyPaddingBytes, InsufficientDataBytes, InvalidPointer)
        assert isinstance(reference, lenient), reference
        assert found == literal


@given(RAW)
@examples(SHARES["bytes"])
@example(b"\0\0\0")
def test_a_lie_about_bytes_is_refused_or_read_as_it_stands(raw: bytes) -> None:
    """`(bytes, address, uint256, bytes4)` as a lying node returns it: each by itself, as the
    reference reads it."""
    values = [raw, raw[:20].rjust(20, b"\0"), len(raw), raw[:4].ljust(4, b"\0")]
    data = tampered(encode(["bytes", "address", "uint256", "bytes4"], values), raw)
    words = [int.from_bytes(data[at : at + 32], "big") for at in range(0, len(data) - 31, 32)]
    literal = Literal(data)
    reference = theirs(["bytes"], data)
    found = ours(lambda: abi.read_bytes(data))
    check(
        found,
        reference if isinstance(reference, Exception) else reference[0],
        literally(lambda: literal.string(0, 0)),
    )
    if words:
        at = raw[0] % len(words) * 32 if raw else 0
        address, selector = theirs(["address"], data[at:]), theirs(["bytes4"], data[at:])
        assert abi.read_uint(data, at) == words[at // 32]
        found = ours(lambda: abi.read_address(data, at))
        assert found == (None if isinstance(address, Exception) else bytes.fromhex(address[0][2:]))
        found = ours(lambda: abi.read_selector(data, at))
        assert found == (None if isinstance(selector, Exception) else selector[0])
    for outside in (len(data) - 31, len(data), -1, 2**64, 2**256):
        with pytest.raises(ValueError, match="cut short"):
            abi.read_uint(data, outside)


@given(RAW)
@examples(SHARES["array"])
def test_a_lie_about_an_array_is_refused_or_read_as_it_stands(raw: bytes) -> None:
    """`bytes[]`, alone and inside the `bytes` in which the Universal Resolver returns it."""
    if raw[:1] < b"\x50":  # nobody's encoding: words that could each be an offset or a length
        inner = b"".join(WORDS[byte % len(WORDS)].to_bytes(32, "big") for byte in raw[1:])
    else:
        inner = tampered(encode(["bytes[]"], [pieces(raw)]), raw[1:])
    reference = theirs(["bytes[]"], inner)
    if not isinstance(reference, Exception):
        reference = list(reference[0])
    literal = literally(lambda: Literal(inner).strings(0, 0))
    count = ours(lambda: abi.read_array(inner))
    found = ours(lambda: abi.read_bytes_array(inner))
    check(found, reference, literal, 0 if literal is None else len(literal))
    if found is not None:
        assert count is not None
        assert count[0] == len(found)
    wrapped = encode(["bytes", "address"], [inner, b"\xab" * 20])
    assert ours(lambda: abi.read_bytes_array(abi.read_bytes(wrapped))) == found


@given(RAW)
@examples(SHARES["lookup"])
def test_a_lie_in_a_tuple_is_refused_or_read_as_it_stands(raw: bytes) -> None:
    """`(address, bytes[], bytes, bytes4, bytes)`, the shape of EIP-3668's OffchainLookup, and the
    same in a list, where its offsets count from where the tuple begins."""
    types = ["address", "bytes[]", "bytes", "bytes4", "bytes"]
    values = [raw[:20].rjust(20, b"\0"), pieces(raw), raw[::-1], raw[:4].ljust(4, b"\0"), raw[:9]]
    listed = raw[:1] > b"\x7f"
    honest = encode([f"({','.join(types)})"], [values]) if listed else encode(types, values)
    data = tampered(honest, raw[2:])
    base = ours(lambda: abi.read_uint(data)) if listed else 0
    reference = theirs([f"({','.join(types)})"] if listed else types, data)
    if not isinstance(reference, Exception):
        reference = reference[0] if listed else reference
        address, strings, one, selector, other = reference
        reference = (bytes.fromhex(address[2:]), list(strings), one, selector, other)
    if base is None:
        assert isinstance(reference, Exception)
        return
    literal = Literal(data)
    largest = literally(lambda: literal.word(base + literal.word(base + 32)))
    found = ours(
        lambda: (
            abi.read_address(data, base),
            abi.read_bytes_array(data, base + 32, base),
            abi.read_bytes(data, base + 64, base),
            abi.read_selector(data, base + 96),
            abi.read_bytes(data, base + 128, base),
        )
    )
    read = literally(
        lambda: (
            literal.word(base).to_bytes(32, "big")[12:],
            literal.strings(base, base + 32),
            literal.string(base, base + 64),
            literal.word(base + 96).to_bytes(32, "big")[:4],
            literal.string(base, base + 128),
        )
    )
    check(found, reference, read, largest or 0)
