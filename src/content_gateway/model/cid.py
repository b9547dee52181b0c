"""The content identifier (CID): any spelling in, one identity out.

Knows the CID specification (multiformats/cid) and which codecs a cluster can walk. Parsing is
the only way in: a Cid is right for ever, and two spellings of one CID are equal."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Self

from content_gateway.codecs.multiformats import (
    BASE32,
    BASE58BTC,
    SHA2_256,
    check_multihash,
    decode_multibase,
    read_varint,
    varint,
)
from content_gateway.codecs.printable import quoted
from content_gateway.errors import InvalidCid

RAW: Final = 0x55
DAG_PB: Final = 0x70
DAG_CBOR: Final = 0x71
LIBP2P_KEY: Final = 0x72
DAG_JSON: Final = 0x0129
JSON: Final = 0x0200
CBOR: Final = 0x51
# What Kubo can walk (its default plugins included); anything else could never become pinned.
CODECS: Final = {
    RAW: "raw",
    DAG_PB: "dag-pb",
    DAG_CBOR: "dag-cbor",
    DAG_JSON: "dag-json",
    CBOR: "cbor",
    JSON: "json",
    0x78: "git-raw",
    0x85: "dag-jose",
}

MAX_TEXT = 1200  # the longest CID we accept (identity, 128 bytes) in the longest base (binary)
_SHORT = 30  # nobody has misspelt a CID who sends less
_V0_LENGTH = 46
_USUAL_LENGTH = 36
_USUAL_HASH = bytes((SHA2_256, 32))


@dataclass(frozen=True, slots=True)
class Cid:
    """A CID in its canonical form: version 1, so that v0 and v1 of one DAG are the same value.

    *codec* and *hash_code* are multicodec numbers, *digest* the bare digest. *version* tells how it
    was spelt, and nothing else."""

    codec: int
    hash_code: int
    digest: bytes
    # How it was spelt where it came from; the same CID, and another key in a client's table.
    version: int = field(default=1, repr=False, compare=False)
    # The canonical text once it was needed: a warm answer writes the same one again and again.
    _text: str = field(default="", init=False, repr=False, compare=False)

    @classmethod
    @lru_cache(maxsize=16_384)  # the same contents are pinned and asked for again and again
    def parse(cls, text: str) -> Self:
        """The CID spelt *text*, in any version and multibase; raises InvalidCid."""
        if not text or len(text) > MAX_TEXT:
            raise InvalidCid("The CID is empty." if not text else "The CID is too long.")
        try:
            if text.startswith("Qm") and len(text) == _V0_LENGTH:
                return cls._from_multihash(DAG_PB, BASE58BTC.decode(text), version=0)
            data = decode_multibase(text)
            if data[:2] == _USUAL_HASH:
                raise ValueError("a version 0 CID has no multibase prefix")
            cid = cls.from_bytes(data)
        except ValueError as wrong:
            fault = wrong if len(text) >= _SHORT else "CIDs begin with bafy, bafk or Qm"
            raise InvalidCid(f"{quoted(text)} is no CID: {fault}.") from wrong
        if text[0] == "b":
            object.__setattr__(cid, "_text", text)  # in one base there is one spelling
        return cid

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The CID whose binary form is exactly *data*; ValueError says what is wrong.

        Takes both versions, as links inside a DAG do."""
        if len(data) == _USUAL_LENGTH and data[2:4] == _USUAL_HASH and data[0] == 1:
            # Most are version 1, of a one-byte codec, hashed with sha2-256.
            codec = data[1]
            if codec in CODECS and codec < 0x80:
                return cls(codec, SHA2_256, data[4:])
        if data[:2] == _USUAL_HASH and len(data) == 34:
            return cls(DAG_PB, SHA2_256, data[2:], version=0)
        version, at = read_varint(data)
        if version != 1:
            raise ValueError(f"there is no CID version {version}")
        codec, at = read_varint(data, at)
        if codec == LIBP2P_KEY:
            raise ValueError("it names an IPNS key, not content")
        if codec not in CODECS:
            raise ValueError(f"the codec 0x{codec:x} is not accepted")
        return cls._from_multihash(codec, data[at:])

    @classmethod
    def _from_multihash(cls, codec: int, data: bytes, *, version: int = 1) -> Self:
        code, at = read_varint(data)
        length, at = read_varint(data, at)
        digest = data[at:]
        if len(digest) != length:
            raise ValueError(f"the digest should have {length} bytes and has {len(digest)}")
        check_multihash(code, digest)
        return cls(codec, code, digest, version=version)

    @property
    def multihash(self) -> bytes:
        """Hash function, length and digest: what a block is stored under."""
        return varint(self.hash_code) + varint(len(self.digest)) + self.digest

    @property
    def spelt(self) -> bytes:
        """The binary form as it was spelt, of version 0 perhaps; `bytes` is the canonical one."""
        return bytes(self) if self.version else self.multihash

    def __bytes__(self) -> bytes:
        return b"\x01" + varint(self.codec) + self.multihash

    def __str__(self) -> str:
        """The canonical text: version 1, base32 (`bafy...`, `bafk...`)."""
        if not self._text:
            object.__setattr__(self, "_text", "b" + BASE32.encode(bytes(self)))
        return self._text
