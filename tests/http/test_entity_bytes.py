"""`entity-bytes`: which bytes of a file are meant."""

import pytest

from content_gateway.errors import InvalidQuery
from content_gateway.http.attachment import attachment
from content_gateway.http.entity_bytes import parse_entity_bytes
from tests.cases import case

# Of a file of 1,026 bytes, from ipfs/specs trustless-gateway.md and gateway-conformance.
WITHIN = [
    ("512:*", (512, 1026)),
    ("512:1023", (512, 1024)),
    ("512:-256", (512, 771)),
    ("-5:*", (1021, 1026)),
    ("-5:-1", (1021, 1026)),
    ("-9999:*", (0, 1026)),
    ("-9999:-3", (0, 1024)),
    ("0:0", (0, 1)),
    ("0:99999", (0, 1026)),
    ("1025:1025", (1025, 1026)),
    ("1000:-1000", (1000, 1000)),
    ("-1:5", (1025, 1025)),
]
OUTSIDE = ["1026:*", "1026:2000", "-9999:-2000", "5000:-1"]
NO_PART = ["", ":", "1", "1:", ":1", "*:*", "2:1", "-1:-2", "1:2:3", "+1:2", "1e1:*", "٣:*", "1 :2"]


def test_a_part_is_within_the_file() -> None:
    """What is before or behind it is left out; what crosses over is empty."""
    for text, expected in WITHIN:
        with case(text):
            part = parse_entity_bytes(text)
            assert part is not None
            assert part.within(1026) == expected
            assert str(part) == text
    assert parse_entity_bytes("0:*") is None


def test_a_part_outside_is_refused() -> None:
    for text in OUTSIDE:
        part = parse_entity_bytes(text)
        assert part is not None
        with case(text), pytest.raises(InvalidQuery, match="1026 bytes"):
            part.within(1026)


def test_an_empty_file_has_an_empty_part() -> None:
    for text in ("0:10", "5:*", "-5:*"):
        part = parse_entity_bytes(text)
        assert part is not None
        assert part.within(0) == (0, 0)


def test_what_names_no_part_is_refused() -> None:
    for text in NO_PART:
        with case(text), pytest.raises(InvalidQuery, match="entity-bytes"):
            parse_entity_bytes(text)


NAMES = [
    ("plain name.car", 'attachment; filename="plain name.car"'),
    (
        "testтест.pdf",  # of ipfs/specs path-gateway.md
        "attachment; filename=\"test____.pdf\"; filename*=UTF-8''test%D1%82%D0%B5%D1%81%D1%82.pdf",
    ),
    ('a"b\\c%41', "attachment; filename=\"a_b_c_41\"; filename*=UTF-8''a%22b%5Cc%2541"),
    ("a\r\nset-cookie: b", "attachment; filename=\"a__set-cookie: b\"; filename*=UTF-8''"
     "a%0D%0Aset-cookie%3A%20b"),
]  # fmt: skip


def test_a_name_is_for_every_client() -> None:
    """In ASCII, and beside it as it is; nothing in it ends the field."""
    for name, value in NAMES:
        with case(name):
            assert attachment(name) == (b"content-disposition", value.encode())
