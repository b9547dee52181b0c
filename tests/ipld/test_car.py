"""CAR files: what is written is read again, in any pieces, and nothing else is believed."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.codecs.multiformats import BASE58BTC, digest_of, varint
from content_gateway.ipld import car
from content_gateway.ipld.block import MAX_BLOCK_BYTES, matches
from content_gateway.ipld.car import CarReader, Section
from content_gateway.model.cid import DAG_PB, RAW, Cid
from tests.ipld.dags import file, in_order, pb, raw

DAG = file(30, 40, width=5)
WHOLE = car.header(DAG[0]) + b"".join(car.section(cid, data) for cid, data in in_order(DAG))
SECTIONS = [(cid.multihash, data) for cid, data in in_order(DAG)]


def read(pieces: Sequence[bytes]) -> list[Section]:
    """The sections of a whole CAR that comes in *pieces*."""
    reader = CarReader()
    sections = [section for piece in pieces for section in reader.feed(piece)]
    reader.finish()
    return sections


def framed(data: bytes) -> bytes:
    return varint(len(data)) + data


def test_what_is_written_is_read() -> None:
    """Blocks come back in order, by their multihash."""
    assert read([WHOLE]) == SECTIONS


@settings(deadline=None)
@given(st.lists(st.integers(0, len(WHOLE)), max_size=12))
def test_pieces_may_be_cut_anywhere(cuts: list[int]) -> None:
    """However the network cuts the stream, the blocks are the same."""
    ends = [0, *sorted(cuts), len(WHOLE)]
    pieces = [WHOLE[start:end] for start, end in pairwise(ends)]
    assert read(pieces) == SECTIONS


def test_byte_by_byte() -> None:
    """In pieces of one byte."""
    assert read([WHOLE[at : at + 1] for at in range(len(WHOLE))]) == SECTIONS


@pytest.mark.parametrize("end", [0, 1, 10, 58, 59, 60, 97, len(WHOLE) - 1])
def test_a_car_that_is_cut_short_says_so(end: int) -> None:
    """Unless it ends between two sections, which looks like an end."""
    boundaries = {len(car.header(DAG[0]))}
    if end in boundaries:
        assert read([WHOLE[:end]]) == []
        return
    with pytest.raises(ValueError, match="cut short"):
        read([WHOLE[:end]])


@settings(deadline=None, max_examples=500)
@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 7))
def test_a_flipped_bit_is_never_unnoticed(at: int, bit: int) -> None:
    """Wherever it is, behind the header: no CAR any more, or a block that its hash gives away."""
    damaged = bytearray(WHOLE)
    damaged[at] ^= 1 << bit
    try:
        sections = read([bytes(damaged)])
    except ValueError:
        return
    good = [section for section in sections if _is_good(section)]
    assert set(good) <= set(SECTIONS)
    if at >= len(car.header(DAG[0])):
        # The codec of a CID is nothing that a hash proves, and the reader does not believe it.
        assert len(good) < len(SECTIONS) or sections == SECTIONS


def _is_good(section: Section) -> bool:
    try:
        return matches(*section) is True
    except ValueError:
        return False


@settings(deadline=None, max_examples=500)
@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_are_sections_or_a_value_error(data: bytes, after_header: bool) -> None:
    """Any bytes are sections or ValueError, and no more bytes come out than went in."""
    reader = CarReader()
    prefix = car.header(DAG[0]) if after_header else b""
    try:
        sections = reader.feed(prefix + data)
        reader.finish()
    except ValueError:
        return
    assert sum(len(body) for _, body in sections) <= len(data)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_damaged_sections_never_crash_the_reader(data: st.DataObject) -> None:
    """Sections with a few bytes changed, inserted and removed."""
    damaged = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        read([bytes(damaged)])
    except ValueError:
        return


def test_the_largest_block_and_one_byte_more() -> None:
    """A block of 2 MiB is read; a section that announces more is refused before it has come."""
    largest = bytes(MAX_BLOCK_BYTES)
    cid = raw(largest)[0]
    assert read([car.header(cid), car.section(cid, largest)]) == [(cid.multihash, largest)]
    with pytest.raises(ValueError, match="more than"):
        read([car.header(cid), car.section(cid, largest + b"x")])
    reader = CarReader()
    reader.feed(car.header(cid))
    with pytest.raises(ValueError, match="bytes"):
        reader.feed(varint(MAX_BLOCK_BYTES * 2))


def test_the_header_is_bounded() -> None:
    """A header of gigabytes is refused by its length alone."""
    with pytest.raises(ValueError, match="bytes"):
        CarReader().feed(varint(1 << 40))


@pytest.mark.parametrize(
    "header",
    [
        {"version": 2},
        {"roots": [], "version": 2},
        {"roots": [], "version": True},
        {"version": 1},
        {"roots": 1, "version": 1},
        [1],
        "version",
    ],
)
def test_other_versions_and_headers_are_refused(header: object) -> None:
    """A CAR of version 2 begins with a header of its own."""
    with pytest.raises(ValueError, match=r"CAR|dag-cbor"):
        CarReader().feed(framed(cbor2.dumps(header)))


def test_a_header_may_have_no_roots_and_more_fields() -> None:
    """Roots are not used, and unknown fields are ignored."""
    reader = CarReader()
    assert reader.feed(framed(cbor2.dumps({"roots": [], "version": 1, "more": 1}))) == []
    reader.finish()


def test_a_header_that_is_not_plain_dag_cbor_is_refused() -> None:
    """Shared values, by which a small header could grow without end, are none."""
    bomb = b"\xa2eroots\x80gversion\xd8\x1c\x01"
    with pytest.raises(ValueError, match="tag"):
        CarReader().feed(framed(bomb))


def test_cids_of_both_versions_are_read() -> None:
    """A section may begin with a bare multihash (version 0)."""
    cid, blocks = pb()
    body = cid.multihash + blocks[cid]
    assert read([car.header(cid), framed(body)]) == [(cid.multihash, blocks[cid])]
    assert BASE58BTC.encode(cid.multihash).startswith("Qm")


@pytest.mark.parametrize("code", [0x11, 0x13, 0x1B, 0xB220])
def test_other_hashes_are_read(code: int) -> None:
    """Longer and shorter digests, and codes of several bytes."""
    cid = Cid(RAW, code, digest_of(code, b"hello") or b"")
    assert read([car.header(cid), car.section(cid, b"hello")]) == [(cid.multihash, b"hello")]


def test_blocks_inside_their_cid_are_left_out() -> None:
    """An identity CID needs no section; one that is there is passed over."""
    inside = Cid(RAW, 0, b"tiny")
    assert read([car.header(inside), car.section(inside, b"tiny")]) == []


@pytest.mark.parametrize(
    "section",
    [
        b"\x00",
        framed(b"\x01"),
        framed(b"\x01\x55"),
        framed(b"\x01\x55\x12\x20short"),
        framed(b"\x12\x20short"),
        framed(b"\x02" + bytes(40)),
        framed(b"\x01\x55\x12\xff\xff\x03" + bytes(500)),
    ],
)
def test_malformed_sections_are_refused(section: bytes) -> None:
    """Empty ones, and such as are shorter than their CID."""
    reader = CarReader()
    reader.feed(car.header(DAG[0]))
    with pytest.raises(ValueError, match=r"CAR|varint"):
        reader.feed(section + bytes(40) if len(section) < 4 and section != b"\x00" else section)


def test_the_header_is_what_others_write() -> None:
    """Byte for byte the header of a CAR with one root (ipld.io, carv1-basic)."""
    root = Cid(DAG_PB, 0x12, bytes(32))
    assert car.header(root) == (
        b"\x3a\xa2eroots\x81\xd8\x2aX\x25\x00\x01\x70\x12\x20" + bytes(32) + b"gversion\x01"
    )


async def test_reading_is_quick_enough_for_small_pieces() -> None:
    """A section of 2 MiB that comes in pieces of 64 KiB is no quadratic work."""
    cid = raw(bytes(MAX_BLOCK_BYTES))[0]
    body = car.header(cid) + car.section(cid, bytes(MAX_BLOCK_BYTES))
    pieces = [body[at : at + 65_536] for at in range(0, len(body), 65_536)]
    assert len(await asyncio.to_thread(read, pieces)) == 1
