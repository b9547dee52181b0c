"""A CAR in a file: read as often as wanted, a part at a time, every block verified.

Knows that a CAR of version 2 has one of version 1 inside. Which of its blocks are kept is left to
the store."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import BinaryIO, Final

from content_gateway.codecs.multiformats import split_multihash
from content_gateway.ipld.block import matches
from content_gateway.ipld.car import V2_BYTES, CarReader, Section, inner
from content_gateway.model.cid import RAW, Cid

_PART_BYTES: Final = 4 * 1024 * 1024  # each is written in one transaction


class CarFile:
    """The CAR in the seekable *file*, which nobody else reads meanwhile.

    *progress* is told how many of its bytes were read by now."""

    def __init__(self, file: BinaryIO, progress: Callable[[int], None] = lambda _: None) -> None:
        self._file = file
        self._progress = progress

    async def verify(self) -> tuple[Sequence[Cid], int]:
        """Read all of it: its roots, and the number of its blocks.

        ValueError when it is no CAR, is cut short, or a block is not the one that its CID names."""
        reader, blocks = CarReader(), 0
        async for sections in self._read(reader):
            blocks += len(sections)
        return reader.roots(), blocks

    def sections(self) -> AsyncIterator[Sequence[Section]]:
        """Its blocks, verified, from the first to the last; ValueError as of `verify`."""
        return self._read(CarReader())

    async def _read(self, reader: CarReader) -> AsyncIterator[Sequence[Section]]:
        parts = _parts(self._file)
        done = 0
        while (part := await asyncio.to_thread(next, parts, None)) is not None:
            yield await asyncio.to_thread(_verified, reader, part)
            done += len(part)
            self._progress(done)
        reader.finish()


def _parts(file: BinaryIO) -> Iterator[bytes]:
    """The bytes of the CAR of version 1 that *file* is, or has inside."""
    file.seek(0)
    window = inner(file.read(V2_BYTES))
    offset, left = window or (0, None)
    file.seek(offset)
    while part := file.read(_PART_BYTES if left is None else min(_PART_BYTES, left)):
        left = None if left is None else left - len(part)
        yield part
    if left:
        raise ValueError("the CAR is cut short")


def _verified(reader: CarReader, part: bytes) -> Sequence[Section]:
    """The blocks that *part* completes; ValueError for one that is wrong."""
    sections = reader.feed(part)
    for multihash, data in sections:
        is_right = matches(multihash, data)
        if not is_right:
            name = Cid(RAW, *split_multihash(multihash))
            wrong = "is hashed in a way that cannot be verified here"
            raise ValueError(
                f"the block {name} {wrong if is_right is None else 'has other bytes than its hash'}"
            )
    return sections
