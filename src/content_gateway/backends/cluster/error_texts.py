"""What an IPFS Cluster and the nodes behind it say of errors, in words for people.

Knows the usual complaints (docs/facts/pins.md), and that where the operator's servers are is not
for the people who read a reason. What follows from an error is left to status.py."""

import re
from typing import Final

from content_gateway.codecs.printable import printable

MAX_REASON: Final = 500
_ADDRESS: Final = re.compile(
    r"https?://[^\s\"]+|/(?:ip[46]|dns[46]?|dnsaddr)/[^\s\])]+"
    r"|\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?|\[[0-9a-fA-F:]+\](?::\d+)?"
)
# The first that fits counts. "context canceled" is how the cluster says that its pin_timeout
# has passed without a new block (ipfs-cluster#987).
_IN_WORDS: Final = (
    (("queue is full", "max_queue_size"), "the queue is full"),
    (("no space left",), "the disk is full"),
    (("connection refused", "is it running", "no such host", "dial"), "IPFS cannot be reached"),
    (("not found", "not find"), "nobody who has it was found"),
    (("context canceled", "deadline exceeded", "timeout", "timed out"), "not found in time"),
)


def in_words(error: str) -> str:
    """A cluster's or a node's *error*, in words for people and without addresses."""
    low = error.lower()
    for signs, words in _IN_WORDS:
        if any(sign in low for sign in signs):
            return words
    return clean(error) or "no reason given"


def clean(text: str) -> str:
    """*text* without addresses and what cannot be printed, of bounded length."""
    return _ADDRESS.sub("...", printable(text[:2000], " ")).strip()[:MAX_REASON]
