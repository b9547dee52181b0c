"""Varints, multibases and hash functions against the `multiformats` package: 34,000 cases.

What we write the package reads, and the other way round; what we read it reads in the same way.
We refuse more than it does: a text or number has one spelling here, while the package takes
letters in the wrong case, padding left off or added, and half a byte at the end."""

from collections.abc import Callable
from typing import Final, TypeVar

import multiformats.multibase
import pytest
from hypothesis import given
from hypothesis import strategies as st
from multiformats import multihash

from content_gateway.codecs.multiformats import (
    HASHES,
    IDENTITY,
    MULTIBASES,
    check_multihash,
    decode_multibase,
    digest_of,
    read_varint,
    varint,
)
from tests.chance import examples

pytestmark = pytest.mark.deep

# Examples of each test, those by base 22 times; the rest of 100,000 is in test_fuzz_cid.py and
# tests/ethereum/test_abi_fuzz.py.
SHARES: Final = {"varint": 8_000, "spelt": 500, "text": 500, "digest": 4_000}
# The package cannot compute these here: they need other packages.
NOT_COMPUTED: Final = {0x1A, 0x1B, 0x1C, 0x1D, 0x1E}
T = TypeVar("T")


def refused_or(read: Callable[[], T]) -> T | None:
    """What is read; None for ValueError, which the package raises in several kinds."""
    try:
        return read()
    except (ValueError, KeyError):
        return None


@given(st.binary(max_size=12))
@examples(SHARES["varint"])
def test_a_varint_is_read_and_refused_as_the_package_does(data: bytes) -> None:
    """Any bytes: the same number of the same length, or refused by both; numbers come out alike."""

    def theirs() -> tuple[int, int]:
        number, length, _ = multiformats.varint.decode_raw(data)
        return number, length

    assert refused_or(lambda: read_varint(data)) == refused_or(theirs)
    # Bits of every width, not only the large numbers that most bytes are.
    number = int.from_bytes(data[:8], "big") >> (data[8] % 64 if len(data) > 8 else 1)
    number &= 2**63 - 1
    assert varint(number) == multiformats.varint.encode(number)
    assert read_varint(b"\xff" + varint(number) + data, 1) == (number, 1 + len(varint(number)))


def package_text(prefix: str, data: bytes) -> str:
    """*data* as the package spells it."""
    text: str = multiformats.multibase.get(code=prefix).encode(data)
    # It pads base8, which the multibase table does not.
    return text.rstrip("=") if prefix == "7" else text


@pytest.mark.parametrize("prefix", MULTIBASES)
@given(st.binary(max_size=64))
@examples(SHARES["spelt"])
def test_bytes_are_spelt_as_the_package_spells_them(prefix: str, data: bytes) -> None:
    """Any bytes in any base: the same text, and back from it to the bytes."""
    zeros = bytes(data[0] % 4) if data else b""  # counting bases keep them apart
    text = prefix + MULTIBASES[prefix].encode(zeros + data)
    assert text == package_text(prefix, zeros + data)
    assert decode_multibase(text) == zeros + data
    assert bytes(multiformats.multibase.get(code=prefix).decode(text)) == zeros + data


@pytest.mark.parametrize("prefix", MULTIBASES)
@given(st.binary(max_size=40))
@examples(SHARES["text"])
def test_a_text_has_the_packages_meaning_or_none(prefix: str, raw: bytes) -> None:
    """A text with letters changed, added and left out is refused, or means what the package says
    and is what would have been written for that."""
    text = list(package_text(prefix, raw[3:]))
    letters = (
        "".join(sorted(set(MULTIBASES[prefix].encode(bytes(range(256))))))
        + "= \n0OIl+/-_aZ\u00e9\u0663"
    )
    for byte in raw[:3]:
        at = 1 + byte % len(text)
        what = letters[byte * 7 % len(letters)]
        text[at : at + byte % 3] = [what] * (byte % 2) + text[at : at + byte % 3][::-1][:1]
    spelt = "".join(text)
    found = refused_or(lambda: decode_multibase(spelt))
    if found is None:
        return
    assert package_text(prefix, found) == spelt
    assert bytes(multiformats.multibase.get(code=prefix).decode(spelt)) == found


@given(st.binary(max_size=40))
@examples(SHARES["digest"])
def test_a_digest_is_the_packages(raw: bytes) -> None:
    """Any content under any hash function that the package can compute: the same digest, of the
    length that we check; a byte more or less is refused."""
    codes = sorted({IDENTITY, *HASHES} - NOT_COMPUTED)
    code, content = codes[raw[0] % len(codes) if raw else 0], raw[1:]
    theirs = bytes(multihash.get(code=code).digest(content))
    ours = digest_of(code, content)
    assert ours is not None
    assert varint(code) + varint(len(ours)) + ours == theirs
    check_multihash(code, ours)
    if code != IDENTITY:
        for wrong in (ours[1:], ours + b"\0"):
            with pytest.raises(ValueError, match="bytes"):
                check_multihash(code, wrong)
