"""Request ids: unique ones of ours, and those that a request has already."""

import pytest

from content_gateway.telemetry.request_ids import request_ids, sent_request_id

UUID = "0b4e8a50-6a1b-4d9e-8f3b-1f0d1c2b3a49"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_request_ids_differ() -> None:
    """Two sources of ids, as two processes are, never give the same one."""
    one, two = request_ids(), request_ids()
    ids = [next(source) for source in (one, two) for _ in range(100)]
    assert len(set(ids)) == 200


@pytest.mark.parametrize(
    ("fields", "taken"),
    [
        ({}, None),
        ({"x-request-id": "3f2c-9"}, "3f2c-9"),
        ({"x-request-id": UUID}, UUID),
        ({"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}, TRACE),
        ({"traceparent": f"cc-{TRACE}-00f067aa0ba902b7-01-what-is-to-come"}, TRACE),
        ({"x-request-id": "mine", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}, "mine"),
        ({"x-request-id": "", "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}, TRACE),
        ({"x-request-id": "two words"}, None),
        ({"x-request-id": 'a"b'}, None),
        ({"x-request-id": "a\x1bb"}, None),
        ({"x-request-id": "x" * 129}, None),
        ({"x-request-id": "cg_" + "a" * 38}, None),
        ({"traceparent": f"ff-{TRACE}-00f067aa0ba902b7-01"}, None),
        ({"traceparent": f"00-{'0' * 32}-00f067aa0ba902b7-01"}, None),
        ({"traceparent": f"00-{TRACE.upper()}-00f067aa0ba902b7-01"}, None),
        ({"traceparent": "nonsense"}, None),
    ],
)
def test_what_a_request_brings_is_taken_up(fields: dict[str, str], taken: str | None) -> None:
    """Where it is an id: nothing that could break a line of the log, or be a key of ours."""
    headers = [(name.encode(), value.encode("latin-1")) for name, value in fields.items()]
    assert sent_request_id(headers) == taken
