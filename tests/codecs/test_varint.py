"""Unsigned varints: the published examples, and one spelling per number."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.codecs.multiformats import read_varint, varint

# multiformats/unsigned-varint, README: "Examples"
PUBLISHED = {
    1: "01",
    127: "7f",
    128: "8001",
    255: "ff01",
    300: "ac02",
    16384: "808001",
    2**63 - 1: "ffffffffffffffff7f",
}


@pytest.mark.parametrize(("value", "spelling"), PUBLISHED.items())
def test_the_published_examples_hold(value: int, spelling: str) -> None:
    """Numbers are written and read as the specification's table says."""
    assert varint(value).hex() == spelling
    assert read_varint(bytes.fromhex(spelling)) == (value, len(spelling) // 2)


@given(st.integers(0, 2**63 - 1), st.binary(max_size=4), st.binary(max_size=4))
@settings(deadline=None)
def test_what_is_written_is_read_again(value: int, before: bytes, behind: bytes) -> None:
    """A number comes back from anywhere in the data, with the place where it ended."""
    data = before + varint(value) + behind
    assert read_varint(data, len(before)) == (value, len(data) - len(behind))


@pytest.mark.parametrize("spelling", ["8000", "8100", "808000", "ff00", "ffffffffffffff00"])
def test_a_longer_spelling_is_refused(spelling: str) -> None:
    """Zero bytes at the end would give one number two spellings, and one CID two texts."""
    with pytest.raises(ValueError, match="shortest"):
        read_varint(bytes.fromhex(spelling))


@pytest.mark.parametrize("spelling", ["", "80", "ffff", "ff" * 9, "ff" * 9 + "01", "80" * 200])
def test_a_cut_or_endless_varint_is_refused(spelling: str) -> None:
    """Nine bytes are the most; a number that goes on is garbage, not a huge number."""
    with pytest.raises(ValueError, match="cut short or longer"):
        read_varint(bytes.fromhex(spelling))
