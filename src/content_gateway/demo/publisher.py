"""The demonstration's content: a folder of files as an IPFS directory, and a signed IPNS record.

Knows just enough UnixFS (dag-pb) to write a directory of small files, and the fields of an IPNS
record (ipfs/specs `ipns-record.md`). Serving them is the origin's business."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final

import cbor2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from content_gateway.codecs.multiformats import IDENTITY, SHA2_256, varint
from content_gateway.ipns.public_keys import KEY_ED25519
from content_gateway.ipns.record import DATA, SIGNATURE_PREFIX, SIGNATURE_V2
from content_gateway.model.cid import DAG_PB, RAW, Cid
from content_gateway.model.ipns_name import IpnsName

SITE: Final = Path(__file__).with_name("site")
_UNIXFS_DIRECTORY: Final = b"\x08\x01"  # field 1 (Type) of UnixFS Data: Directory


def directory(files: Mapping[str, bytes]) -> tuple[Cid, dict[Cid, bytes]]:
    """A UnixFS directory of *files* by name: its root and all blocks."""
    blocks, links = {}, b""
    for name in sorted(files):
        cid = _cid(RAW, files[name])
        blocks[cid] = files[name]
        size = varint(len(files[name]))
        link = _field(1, bytes(cid)) + _field(2, name.encode()) + b"\x18" + size
        links += _field(2, link)
    node = links + _field(1, _UNIXFS_DIRECTORY)
    root = _cid(DAG_PB, node)
    return root, {root: node, **blocks}


def site() -> tuple[Cid, dict[Cid, bytes]]:
    """The packaged site: its root and all blocks."""
    return directory({path.name: path.read_bytes() for path in SITE.iterdir() if path.is_file()})


def ipns_name(key: Ed25519PrivateKey) -> IpnsName:
    """The name whose records *key* signs."""
    public = key.public_key().public_bytes_raw()
    protobuf = b"\x08" + varint(KEY_ED25519) + _field(2, public)
    return IpnsName.from_multihash(varint(IDENTITY) + varint(len(protobuf)) + protobuf)


def sign_record(
    key: Ed25519PrivateKey,
    value: str,
    *,
    sequence: int,
    lifetime: timedelta = timedelta(days=365),
    ttl: timedelta = timedelta(minutes=5),
    now: datetime | None = None,
) -> bytes:
    """An IPNS record (V2 only) that points the key's name at *value*, a content path."""
    until = (now or datetime.now(UTC)) + lifetime
    signed = cbor2.dumps(
        {
            "TTL": int(ttl.total_seconds() * 1e9),
            "Value": value.encode(),
            "Sequence": sequence,
            "Validity": until.strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode(),
            "ValidityType": 0,
        },
        canonical=True,
    )
    signature = key.sign(SIGNATURE_PREFIX + signed)
    return _field(SIGNATURE_V2, signature) + _field(DATA, signed)


def _cid(codec: int, data: bytes) -> Cid:
    return Cid(codec, SHA2_256, sha256(data).digest())


def _field(number: int, value: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return varint(number << 3 | 2) + varint(len(value)) + value
