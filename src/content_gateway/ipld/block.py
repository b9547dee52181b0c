"""One block: how large it may be, whether bytes are it, and whether the store can keep its kind.

Knows multihashes and the codecs that `dag.links` walks. Where blocks come from and where they
are kept is left to the gateways and the block store."""

from hashlib import sha256
from typing import Final

from content_gateway.codecs.multiformats import (
    HASHES,
    IDENTITY,
    SHA2_256,
    digest_of,
    split_multihash,
)
from content_gateway.model.cid import CBOR, CODECS, DAG_CBOR, DAG_JSON, DAG_PB, JSON, RAW, Cid

# The largest block that IPFS nodes exchange (ipfs/specs `bitswap-protocol.md`).
MAX_BLOCK_BYTES: Final = 2 * 1024 * 1024

LEAVES: Final = frozenset((RAW, CBOR, JSON))
_NODES: Final = frozenset((DAG_PB, DAG_CBOR, DAG_JSON))
_SHA2_256_HEAD: Final = bytes((SHA2_256, 32))


def matches(multihash: bytes, data: bytes | memoryview) -> bool | None:
    """Whether *data* hashes to *multihash*; None where we cannot compute that hash function."""
    if multihash[:2] == _SHA2_256_HEAD:
        return sha256(data).digest() == multihash[2:]
    code, expected = split_multihash(multihash)
    digest = digest_of(code, bytes(data))
    return None if digest is None else digest == expected


def multihash_of(cid: Cid) -> bytes:
    """As cid.multihash; quick where it is the usual one."""
    return _SHA2_256_HEAD + cid.digest if cid.hash_code == SHA2_256 else cid.multihash


def is_block_of(cid: Cid, data: bytes) -> bool:
    """Whether *data* has the digest that *cid* names; False where we cannot compute it."""
    return digest_of(cid.hash_code, data) == cid.digest


def refusal(cid: Cid) -> str | None:
    """Why the store cannot keep the block *cid*, whoever has it; None if it can."""
    if cid.codec not in LEAVES and cid.codec not in _NODES:
        return f"the embedded store cannot follow the links of {CODECS[cid.codec]} blocks"
    code = cid.hash_code
    if code not in (SHA2_256, IDENTITY) and digest_of(code, b"") is None:
        return f"blocks hashed with {HASHES[code][0]} cannot be verified here"
    return None
