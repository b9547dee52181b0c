"""What a pinning service answers, as bytes: read as far as it can be, and no further."""

from datetime import UTC, datetime, timedelta

import pytest

from content_gateway.errors import InvalidUpstreamResponse
from content_gateway.pinning_services.answers import parse_page
from content_gateway.pinning_services.client import retry_seconds


@pytest.mark.parametrize(
    ("text", "microsecond", "unit"),
    [
        ("2026-01-01T00:00:05Z", 0, timedelta(seconds=1)),
        ("2026-01-01T01:00:05.1+01:00", 100_000, timedelta(milliseconds=1)),
        ("2026-01-01T00:00:05.123Z", 123_000, timedelta(milliseconds=1)),
        ("2026-01-01T00:00:05.123456Z", 123_456, timedelta(microseconds=1)),
        ("2026-01-01T00:00:05.123456789Z", 123_456, timedelta(microseconds=1)),
        ("2026-01-01T00:00:05", 0, timedelta(seconds=1)),
    ],
)
def test_a_time_stands_for_all_that_its_digits_leave_open(
    text: str, microsecond: int, unit: timedelta
) -> None:
    """However it is spelt: with an offset, without one (UTC then), in more digits than we keep."""
    (pin,) = parse_page(b'{"results":[{"created":"%s","pin":{}}]}' % text.encode()).pins
    assert pin.created == datetime(2026, 1, 1, 0, 0, 5, microsecond, UTC)
    assert pin.unit == unit


@pytest.mark.parametrize(
    "item",
    [b"null", b"7", b'{"requestid":[]}', b'{"created":"yesterday"}', b'{"created":null,"pin":{}}'],
)
def test_one_odd_pin_does_not_spoil_the_page(item: bytes) -> None:
    """It has no time, and the one beside it is read; a number for a request id is an id."""
    body = b'{"count":null,"results":[%s,{"requestid":7,"created":"2026-01-01T00:00:00Z"}]}' % item
    page = parse_page(body)
    assert page.count == 0
    assert [pin.created is None for pin in page.pins] == [True, False]
    assert page.pins[1].id == "7"


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"results":null}', b'{"results":[{}', b"\xff", b"[" * 100_000],
)
def test_what_is_no_page_is_an_error(body: bytes) -> None:
    """Half of one, something else, no text, nested without end."""
    with pytest.raises(InvalidUpstreamResponse):
        parse_page(body)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(None, 0), ("7", 7), ("0", 0), ("-1", 0), ("soon", 0), ("9" * 400, 999_999_999)],
)
def test_the_time_to_wait_is_read(text: str | None, seconds: float) -> None:
    """RFC 9110, 10.2.3; what makes no sense says nothing, and a date in the past neither."""
    assert retry_seconds(text) == seconds
    assert retry_seconds("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert retry_seconds("Fri, 21 Oct 2095 07:28:00 GMT") > 1e9
