"""What Schemathesis can neither draw nor read by itself: DNS messages, and the JSON form of DNS.

Loaded by it (`SCHEMATHESIS_HOOKS`). The messages are dnspython's."""

import base64
import json
from typing import Any

import dns.message
import schemathesis
from hypothesis import strategies as st

LABELS = st.text("abcdefghijklmnopqrstuvwxyz0123456789_-", min_size=1, max_size=63)
NAMES = st.lists(LABELS, min_size=1, max_size=3).map(".".join)
TYPES = ("A", "AAAA", "TXT", "CNAME", "MX", "NS", "SOA", "HTTPS", "16", "257")


def question(name: str, kind: str, number: int, edns: int) -> bytes:
    """The DNS message that asks for *name*; *edns* below 0: without EDNS."""
    kind = f"TYPE{kind}" if kind.isdecimal() else kind
    return dns.message.make_query(name, kind, use_edns=edns, id=number).to_wire()


def in_a_query(message: bytes) -> str:
    """The message as the parameter `dns` has it (RFC 8484 section 4.1)."""
    return base64.urlsafe_b64encode(message).rstrip(b"=").decode()


MESSAGES = st.builds(
    question, NAMES, st.sampled_from(TYPES), st.integers(0, 65_535), st.sampled_from([-1, 0])
)
schemathesis.openapi.media_type("application/dns-message", MESSAGES)


@schemathesis.deserializer("application/dns-json")
def read_json(_context: object, response: Any) -> object:
    """The answer in JSON, for the schema to judge."""
    return json.loads(response.content)
