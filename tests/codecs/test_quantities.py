"""Times and sizes with units: read as they are meant, and spelt so that they can be read again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from content_gateway.codecs.quantities import (
    parse_bytes,
    parse_seconds,
    spell_bytes,
    spell_seconds,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90d", 7_776_000), ("24h", 86_400), ("5m", 300), ("1.5s", 1.5), ("500ms", 0.5), ("30", 30),
     ("0.25", 0.25), ("570ms", 0.57), ("0s", 0), ("5 m", 300), (" 2h ", 7200)],
)  # fmt: skip
def test_a_time_has_a_unit_or_is_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("64GiB", 64 * 1024**3), ("16KiB", 16_384), ("1.5MiB", 1_572_864), ("2kB", 2000),
     ("3TB", 3 * 10**12), ("1 GB", 10**9), ("512", 512), ("512B", 512), ("0", 0)],
)  # fmt: skip
def test_a_size_has_a_unit_or_is_bytes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "s", "-1s", "1M", "1D", "1h30m", "5 minutes", "1e3", "nan", "inf", "0x1", "٣s", "1.s"],
)
def test_what_is_no_time_is_refused_in_words(text: str) -> None:
    """With the units that there are, and that m is minutes."""
    with pytest.raises(ValueError, match=r"m \(minutes\)"):
        parse_seconds(text)


@pytest.mark.parametrize("text", ["", "B", "64G", "64gib", "1K", "-1B", "1KB", "1mB", "1e3"])
def test_what_is_no_size_is_refused_in_words(text: str) -> None:
    """Letters alone say neither 1000 nor 1024."""
    with pytest.raises(ValueError, match="GiB"):
        parse_bytes(text)


def test_a_part_of_a_byte_is_no_size() -> None:
    with pytest.raises(ValueError, match="whole"):
        parse_bytes("1.5B")


@given(st.floats(min_value=1e-9, max_value=1e15))
def test_every_time_that_is_spelt_is_read_again(seconds: float) -> None:
    """To the last bit."""
    assert parse_seconds(spell_seconds(seconds)) == seconds


@given(st.integers(min_value=0, max_value=2**63))
def test_every_size_that_is_spelt_is_read_again(size: int) -> None:
    assert parse_bytes(spell_bytes(size)) == size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (10.0, "10s"), (300, "5m"), (90, "90s"), (3600, "1h"), (21_600, "6h"),
     (604_800, "7d"), (2.5, "2.5s"), (0.25, "250ms")],
)  # fmt: skip
def test_times_are_spelt_short(seconds: float, text: str) -> None:
    assert spell_seconds(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0B"), (64 * 1024**3, "64GiB"), (16_384, "16KiB"), (1000, "1000B")]
)
def test_sizes_are_spelt_short(size: int, text: str) -> None:
    assert spell_bytes(size) == text
