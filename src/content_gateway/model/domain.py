"""The domain name: what a caller types, normalised and bounded.

Knows ENSIP-15 (through ens-normalize, imported on the first name that is not plain ASCII: it costs
90 MB), the DNS wire form and EIP-137's namehash. Resolving is left to `names/`."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from content_gateway.errors import InvalidDomain

MAX_LABEL_BYTES: Final = 255  # what a length byte says; ENS bounds labels, and no names
# Ours: four of the longest labels. Whoever resolves a name holds it in memory and on disk.
MAX_WIRE_BYTES: Final = 1024
MAX_LABELS: Final = 128  # each costs two hashes
MAX_TEXT: Final = 2048  # as a request's path; normalisation may shorten it

# Labels of letters, digits and hyphens normalise to their lower case, unless `--` stands third
# and fourth, where only punycode may have it (ENSIP-15). Checked equal on the reference tests.
_LABEL: Final = rf"(?!..--)[a-z0-9-]{{1,{MAX_LABEL_BYTES}}}"
_PLAIN_LABEL: Final = re.compile(r"(?!..--)[a-z0-9-]+", re.ASCII)
_PLAIN: Final = re.compile(rf"(?:{_LABEL}\.)+{_LABEL}", re.ASCII)


@dataclass(frozen=True, slots=True)
class DomainName:
    """A normalised name of at least two labels of 255 bytes at most, 1,024 bytes on the wire."""

    text: str

    @classmethod
    def parse(cls, text: str) -> "DomainName":
        """The name that *text* means; raises InvalidDomain.

        The first name that is not plain makes the process larger and waits a moment for that."""
        if plain := cls.parse_plain(text):
            return plain
        if not text:
            raise InvalidDomain("The domain is empty.")
        if len(text) > MAX_TEXT:
            raise InvalidDomain("The domain is too long.")
        if any(char <= " " or char == "\x7f" for char in text):
            raise InvalidDomain("The domain has blanks or control characters.")
        if "." not in text or "" in text.split("."):
            raise InvalidDomain("A domain has at least two labels, none of them empty.")
        if text.count(".") >= MAX_LABELS:
            raise InvalidDomain(f"The domain has more than {MAX_LABELS} labels.")
        # ENSIP-15 treats each label by itself; plain ones need no library.
        name = cls(".".join(map(_normalise, text.split("."))))
        if any(len(label.encode()) > MAX_LABEL_BYTES for label in name.labels):
            raise InvalidDomain(f"A label of the domain has more than {MAX_LABEL_BYTES} bytes.")
        if len(name.wire) > MAX_WIRE_BYTES:
            raise InvalidDomain(f"The domain takes more than {MAX_WIRE_BYTES} bytes on the wire.")
        return name

    @staticmethod
    @lru_cache(maxsize=10_000)
    def parse_plain(text: str) -> "DomainName | None":
        """The name, where *text* is letters, digits and hyphens; None where parse must decide."""
        lowered = text.lower() if text.isascii() else ""
        # On the wire there is a byte before the first label, and one behind the last.
        is_short = len(lowered) <= MAX_WIRE_BYTES - 2 and lowered.count(".") < MAX_LABELS
        is_plain = is_short and _PLAIN.fullmatch(lowered)
        return DomainName(lowered) if is_plain else None

    @property
    def labels(self) -> list[str]:
        """The labels, left to right."""
        return self.text.split(".")

    @property
    def wire(self) -> bytes:
        """DNS wire format: each label behind its length byte, a zero byte at the end."""
        out = bytearray()
        for label in self.labels:
            data = label.encode()
            out.append(len(data))
            out += data
        out.append(0)
        return bytes(out)

    @property
    def namehash(self) -> bytes:
        """EIP-137's node: 32 bytes."""
        return self.node_below(bytes(32))

    def node_below(self, root: bytes) -> bytes:
        """The node (32 bytes), as EIP-137 has it, where the root node is *root*."""
        from Crypto.Hash import keccak  # noqa: PLC0415 - 60 ms to import; a cached name needs none

        node = root
        for label in reversed(self.labels):
            hashed = keccak.new(digest_bits=256, data=label.encode()).digest()
            node = keccak.new(digest_bits=256, data=node + hashed).digest()
        return node

    def __str__(self) -> str:
        return self.text


def _normalise(label: str) -> str:
    """*label* by ENSIP-15; raises InvalidDomain with the standard's own reason."""
    lowered = label.lower() if label.isascii() else ""
    if _PLAIN_LABEL.fullmatch(lowered):
        return lowered
    from ens_normalize import DisallowedSequence, ens_normalize  # noqa: PLC0415 - see the top

    try:
        return str(ens_normalize(label))
    except (DisallowedSequence, UnicodeError) as refused:
        raise InvalidDomain(f"The domain cannot be normalised (ENSIP-15): {refused}.") from refused
