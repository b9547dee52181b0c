"""Contract ABI: the few shapes this service sends and reads, nothing more.

Knows the encoding of `bytes`, `string`, arrays of them, `bool[]`, `address` and `uint256` (Solidity
ABI specification); each offset and length is checked against the data, so that a lying node gets
ValueError and never a wrong value. Which contract is called is left to the callers.

A `read_` function finds its value through the word at byte *head*; offsets in that word count
from byte *base*, where the enclosing tuple begins."""

from collections.abc import Sequence
from typing import Final

WORD: Final = 32
MAX_ELEMENTS: Final = 64
# EIP-3668: OffchainLookup(address,string[],bytes,bytes4,bytes)
OFFCHAIN_LOOKUP: Final = bytes.fromhex("556f1830")


class Reverted(Exception):
    """The contract refused the call; *data* is what it said (4-byte selector and arguments)."""

    def __init__(self, data: bytes) -> None:
        super().__init__(f"reverted with 0x{data[:36].hex()}")
        self.data = data


def uint(value: int) -> bytes:
    """*value* as a `uint256`."""
    return value.to_bytes(WORD, "big")


def encode_bytes(*values: bytes) -> bytes:
    """The arguments of a function that takes only `bytes` (or `string`): heads, then tails."""
    return with_offsets([tail(value) for value in values])


def encode_bytes_array(values: Sequence[bytes]) -> bytes:
    """The single argument `bytes[]` (or `string[]`)."""
    return uint(WORD) + bytes_array_tail(values)


def bytes_array_tail(values: Sequence[bytes]) -> bytes:
    """A `bytes[]` (or `string[]`) without the offset that leads to it."""
    return uint(len(values)) + with_offsets([tail(value) for value in values])


def bools_tail(values: Sequence[bool]) -> bytes:
    """A `bool[]` without the offset that leads to it."""
    return uint(len(values)) + b"".join(map(uint, values))


def read_uint(data: bytes, at: int = 0) -> int:
    """The word at byte *at*; ValueError if the data ends before it does."""
    if at < 0 or at + WORD > len(data):
        raise ValueError("ABI data is cut short")
    return int.from_bytes(data[at : at + WORD], "big")


def read_address(data: bytes, at: int = 0) -> bytes:
    """The 20 bytes of the `address` at byte *at*; ValueError if the 12 before them are not 0."""
    if read_uint(data, at) >> 160:
        raise ValueError("an ABI address is longer than 20 bytes")
    return data[at + 12 : at + WORD]


def read_selector(data: bytes, at: int = 0) -> bytes:
    """The 4 bytes of the `bytes4` at byte *at*; ValueError if the 28 behind them are not 0."""
    if read_uint(data, at) & ((1 << 224) - 1):
        raise ValueError("an ABI bytes4 is longer than 4 bytes")
    return data[at : at + 4]


def read_bytes(data: bytes, head: int = 0, base: int = 0) -> bytes:
    """The `bytes` (or `string`) whose offset stands at byte *head*."""
    start = base + read_uint(data, head)
    length = read_uint(data, start)
    if start + WORD + length > len(data):
        raise ValueError("ABI bytes are cut short")
    return data[start + WORD : start + WORD + length]


def read_bytes_array(data: bytes, head: int = 0, base: int = 0) -> list[bytes]:
    """The `bytes[]` (or `string[]`) whose offset stands at byte *head*."""
    count, first = read_array(data, head, base)
    return [read_bytes(data, first + index * WORD, first) for index in range(count)]


def read_array(data: bytes, head: int = 0, base: int = 0) -> tuple[int, int]:
    """How many elements the array has whose offset stands at *head*, and the byte of the first."""
    start = base + read_uint(data, head)
    count = read_uint(data, start)
    if count > MAX_ELEMENTS:
        raise ValueError(f"an ABI array has more than {MAX_ELEMENTS} elements")
    return count, start + WORD


def tail(value: bytes) -> bytes:
    """A `bytes` (or `string`) without the offset that leads to it."""
    return uint(len(value)) + value + bytes(-len(value) % WORD)


def with_offsets(tails: Sequence[bytes]) -> bytes:
    """Dynamic values behind the offsets that lead to them."""
    heads, offset = b"", len(tails) * WORD
    for value in tails:
        heads += uint(offset)
        offset += len(value)
    return heads + b"".join(tails)
