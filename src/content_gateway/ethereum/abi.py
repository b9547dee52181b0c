"""Contract ABI: the six shapes this service sends and reads, nothing more.

Knows the encoding of `bytes`, `bytes[]`, `address` and `uint256` (Solidity ABI specification);
every offset and length is checked against the data, so that a lying node gets ValueError and
never a wrong value. Which contract is called, and why, is left to the callers."""

from typing import Final

WORD: Final = 32
MAX_ELEMENTS: Final = 64


class Reverted(Exception):
    """The contract refused the call; *data* is what it said (4-byte selector and arguments)."""

    def __init__(self, data: bytes) -> None:
        super().__init__(f"reverted with 0x{data[:36].hex()}")
        self.data = data


def uint(value: int) -> bytes:
    """*value* as a `uint256`."""
    return value.to_bytes(WORD, "big")


def encode_bytes(*values: bytes) -> bytes:
    """The arguments of a function that takes only `bytes`: heads, then tails."""
    tails = [_tail(value) for value in values]
    return _with_offsets(tails)


def encode_bytes_array(values: list[bytes]) -> bytes:
    """The single argument `bytes[]`."""
    return uint(WORD) + uint(len(values)) + _with_offsets([_tail(value) for value in values])


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


def read_bytes(data: bytes, head: int = 0, base: int = 0) -> bytes:
    """The `bytes` whose offset, counted from *base*, stands at byte *head*."""
    start = base + read_uint(data, head)
    length = read_uint(data, start)
    if start + WORD + length > len(data):
        raise ValueError("ABI bytes are cut short")
    return data[start + WORD : start + WORD + length]


def read_bytes_array(data: bytes) -> list[bytes]:
    """The `bytes[]` that is the only value in *data*."""
    start = read_uint(data)
    count = read_uint(data, start)
    if count > MAX_ELEMENTS:
        raise ValueError(f"an ABI array has more than {MAX_ELEMENTS} elements")
    base = start + WORD
    return [read_bytes(data, base + index * WORD, base) for index in range(count)]


def _tail(value: bytes) -> bytes:
    return uint(len(value)) + value + bytes(-len(value) % WORD)


def _with_offsets(tails: list[bytes]) -> bytes:
    heads, offset = b"", len(tails) * WORD
    for tail in tails:
        heads += uint(offset)
        offset += len(tail)
    return heads + b"".join(tails)
