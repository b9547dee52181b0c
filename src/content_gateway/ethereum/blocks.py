"""Blocks and logs as nodes tell of them in JSON: values that are valid once read.

Knows the fields of `newHeads`, `eth_getBlockByNumber`, `logs` and `eth_getLogs` that a listener
needs. What follows from a block is left to recent_blocks.py, what a log means to `names/`."""

import re
from binascii import unhexlify
from dataclasses import dataclass
from typing import Any, Final

_QUANTITY: Final = re.compile(r"0x[0-9a-fA-F]{1,16}")
_HASH: Final = re.compile(r"0x[0-9a-fA-F]{64}")
_MOST_TOPICS: Final = 4
# A block of 60 million gas has room for as many logs with two topics; ENS has some three.
MOST_LOGS: Final = 5_000


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """A block's *number*, its hash and its parent's (32 bytes each)."""

    number: int
    hash: bytes
    parent: bytes


@dataclass(frozen=True, slots=True)
class BlockLog:
    """A log of the block with this number and hash; *is_removed* where that was orphaned."""

    number: int
    block: bytes
    topics: tuple[bytes, ...]
    is_removed: bool = False


def read_header(value: object) -> BlockHeader:
    """The header in *value*; ValueError for anything else."""
    fields = _object(value, "a block")
    return BlockHeader(
        _quantity(fields.get("number")), _hash(fields.get("hash")), _hash(fields.get("parentHash"))
    )


def read_log(value: object) -> BlockLog:
    """The log in *value*; ValueError for anything else."""
    fields = _object(value, "a log")
    topics, removed = fields.get("topics"), fields.get("removed", False)
    if not isinstance(topics, list) or len(topics) > _MOST_TOPICS or not isinstance(removed, bool):
        raise ValueError("a log has up to four topics, and is removed or not")
    return BlockLog(
        _quantity(fields.get("blockNumber")),
        _hash(fields.get("blockHash")),
        tuple(map(_hash, topics)),
        removed,
    )


def read_logs(value: object) -> list[BlockLog]:
    """The logs in *value*; ValueError for anything else, and for more than are read."""
    if not isinstance(value, list) or len(value) > MOST_LOGS:
        raise ValueError(f"logs are an array of {MOST_LOGS} at most")
    return list(map(read_log, value))


def hex_hash(value: bytes) -> str:
    """*value* as nodes take it."""
    return "0x" + value.hex()


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is an object")
    return value


def _quantity(value: object) -> int:
    if not isinstance(value, str) or not _QUANTITY.fullmatch(value):
        raise ValueError("a block's number is 0x and up to 16 hex digits")
    return int(value, 16)


def _hash(value: object) -> bytes:
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        raise ValueError("a hash is 0x and 64 hex digits")
    return unhexlify(value[2:])
