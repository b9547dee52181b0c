"""The IPNS record: bytes from anybody, believed only when they prove themselves.

Knows ipfs/specs `ipns-record.md`: the protobuf envelope, the signed DAG-CBOR inside it, the
Ed25519 and RSA keys that sign it. Does no I/O; where records come from and how long an answer
serves is left to the resolver."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeGuard

import cbor2
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from content_gateway.content.ipns_name import MAX_RECORD_BYTES, IpnsName
from content_gateway.content.multiformats import IDENTITY, SHA2_256, digest_of, read_varint
from content_gateway.errors import UpstreamNonsense

SIGNATURE_PREFIX: Final = b"ipns-signature:"
KEY_RSA: Final = 0
KEY_ED25519: Final = 1
MAX_INLINED_KEY: Final = 42  # bytes; libp2p peer-ids.md: shorter keys are never hashed
_MAX_UINT64: Final = 2**64 - 1
_RSA_BITS: Final = range(2048, 8193)

# Protobuf field numbers of IpnsEntry; the first six are V1, kept for old readers.
VALUE, SIGNATURE_V1, VALIDITY_TYPE, VALIDITY, SEQUENCE, TTL = 1, 2, 3, 4, 5, 6
PUBLIC_KEY, SIGNATURE_V2, DATA = 7, 8, 9
_BYTES_FIELDS: Final = {VALUE, SIGNATURE_V1, VALIDITY, PUBLIC_KEY, SIGNATURE_V2, DATA}
# What the parsers below raise for bytes that are not a record; a moment that no calendar has is
# an OverflowError.
_INVALID: Final = (
    ValueError,
    KeyError,
    OverflowError,
    InvalidSignature,
    UnsupportedAlgorithm,
    cbor2.CBORDecodeError,
)
_V1_MIRRORS: Final = {
    VALUE: ("Value", b""),
    VALIDITY_TYPE: ("ValidityType", 0),
    VALIDITY: ("Validity", b""),
    SEQUENCE: ("Sequence", 0),
    TTL: ("TTL", 0),
}


@dataclass(frozen=True, slots=True)
class IpnsRecord:
    """A record whose signature was verified.

    *value* is a content path (`/ipfs/...` or `/ipns/...`), *valid_until* the moment (UTC) after
    which it is no answer, *ttl* how long it may be reused unasked, None if it does not say."""

    value: str
    sequence: int
    valid_until: datetime
    ttl: timedelta | None

    @property
    def rank(self) -> tuple[int, datetime]:
        """The greater of two records of one name is the one that holds."""
        return self.sequence, self.valid_until


def verify(name: IpnsName, data: bytes, now: datetime) -> IpnsRecord:
    """The record of *name* in *data*, valid at *now* (UTC).

    Raises UpstreamNonsense, saying why, when it is malformed, somebody else's, tampered with
    or expired."""
    try:
        fields = _read_fields(data)
        signed, signature = fields[DATA], fields[SIGNATURE_V2]
        key = _public_key(name, fields.get(PUBLIC_KEY))
        _check_signature(key, SIGNATURE_PREFIX + signed, signature)
        values = _read_signed(signed)
        _check_v1(fields, values)
        record = _understand(values)
    except _INVALID as wrong:
        raise UpstreamNonsense(f"The IPNS record is not valid: {_reason(wrong)}.") from wrong
    if record.valid_until <= now:
        raise UpstreamNonsense("The IPNS record has expired.")
    return record


def _reason(wrong: Exception) -> str:
    if isinstance(wrong, KeyError):
        return "it is not signed (V2)"
    return str(wrong) or "the signature is not the key's"


def _read_fields(data: bytes) -> dict[int, Any]:
    """The protobuf fields by number; ValueError unless each is known and there at most once."""
    if len(data) > MAX_RECORD_BYTES:
        raise ValueError(f"it has more than {MAX_RECORD_BYTES} bytes")
    fields: dict[int, Any] = {}
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if not VALUE <= number <= DATA or number in fields:
            raise ValueError(f"the field {number} is unknown or doubled")
        if wire_type != (2 if number in _BYTES_FIELDS else 0):
            raise ValueError(f"the field {number} has the wrong type")
        fields[number], at = _read_value(data, at, wire_type)
    return fields


def _read_value(data: bytes, at: int, wire_type: int) -> tuple[int | bytes, int]:
    value, at = _read_uint64(data, at)
    if wire_type == 0:
        return value, at
    if at + value > len(data):
        raise ValueError("a field is cut short")
    return data[at : at + value], at + value


def _read_uint64(data: bytes, at: int) -> tuple[int, int]:
    """A protobuf varint: up to 10 bytes, so that a full uint64 fits."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _MAX_UINT64:
                break
            return value, at
    raise ValueError("a varint is cut short or too large")


def _public_key(name: IpnsName, given: bytes | None) -> bytes:
    """The key (protobuf) that must have signed: inlined in the name, or hashing to it."""
    code, at = read_varint(name.multihash)
    _, at = read_varint(name.multihash, at)
    inlined = name.multihash[at:]
    if code == IDENTITY:
        if given is not None and given != inlined:
            raise ValueError("its key is not the name's")
        return inlined
    if given is None:
        raise ValueError("it lacks the public key")
    if len(given) <= MAX_INLINED_KEY:
        raise ValueError("its key is short enough to be the name itself")
    if digest_of(SHA2_256, given) != inlined:
        raise ValueError("its key is not the name's")
    return given


def _check_signature(key: bytes, payload: bytes, signature: bytes) -> None:
    """InvalidSignature or ValueError unless *key* signed *payload*."""
    key_type, at = _read_key_field(key, 0, 0x08)
    length, at = _read_key_field(key, at, 0x12)
    material = key[at:]
    if len(material) != length:
        raise ValueError("its key is malformed")
    if key_type == KEY_ED25519:
        Ed25519PublicKey.from_public_bytes(material).verify(signature, payload)
    elif key_type == KEY_RSA:
        _check_rsa(material, payload, signature)
    else:
        raise ValueError(f"keys of type {key_type} are not supported")


def _read_key_field(key: bytes, at: int, tag: int) -> tuple[int, int]:
    if key[at : at + 1] != bytes((tag,)):
        raise ValueError("its key is malformed")
    return read_varint(key, at + 1)


def _check_rsa(material: bytes, payload: bytes, signature: bytes) -> None:
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415 - rare
    from cryptography.hazmat.primitives.asymmetric import padding, rsa  # noqa: PLC0415 - rare

    key = serialization.load_der_public_key(material)
    if not isinstance(key, rsa.RSAPublicKey) or key.key_size not in _RSA_BITS:
        raise ValueError("its RSA key is malformed or of an unusual size")
    key.verify(signature, payload, padding.PKCS1v15(), hashes.SHA256())


def _read_signed(signed: bytes) -> dict[str, Any]:
    _refuse_tags(signed)
    values = cbor2.loads(
        signed, allow_indefinite=False, allow_duplicate_keys=False, strict_hashable_types=True
    )
    if not isinstance(values, dict):
        raise ValueError("the signed data is not a map")
    return values


def _refuse_tags(data: bytes) -> None:
    """ValueError where the CBOR in *data* has any tag but 42, the only one of DAG-CBOR.

    cbor2 builds what a tag stands for: regular expressions, numbers of any size, references. One
    record could so hold up the process for seconds. With definite lengths only, the items of any
    depth follow each other, so that one loop sees the head of each."""
    at = 0
    while at < len(data):
        major, info = data[at] >> 5, data[at] & 31
        if info > 27:  # reserved, or an indefinite length
            raise ValueError("the signed data is not DAG-CBOR")
        size = 0 if info < 24 else 1 << (info - 24)
        value = int.from_bytes(data[at + 1 : at + 1 + size], "big") if size else info
        if major == 6 and value != 42:
            raise ValueError("the signed data has a tag that DAG-CBOR does not know")
        at += 1 + size + (value if major in (2, 3) else 0)


def _check_v1(fields: dict[int, Any], values: dict[str, Any]) -> None:
    """ValueError where the unsigned V1 fields contradict the signed ones."""
    has_v1 = VALUE in fields or SIGNATURE_V1 in fields
    for number, (key, default) in _V1_MIRRORS.items():
        if (has_v1 or number in fields) and fields.get(number, default) != values.get(key, default):
            raise ValueError(f"the unsigned {key} differs from the signed one")


def _understand(values: dict[str, Any]) -> IpnsRecord:
    value, validity = values.get("Value"), values.get("Validity")
    sequence, ttl = values.get("Sequence"), values.get("TTL", 0)
    if not isinstance(value, bytes) or not isinstance(validity, bytes):
        raise ValueError("Value or Validity is not bytes")
    if values.get("ValidityType") != 0:
        raise ValueError("its validity is not an end of life")
    if not (_is_uint64(sequence) and _is_uint64(ttl)):
        raise ValueError("Sequence or TTL is not an unsigned number")
    path = value.decode()
    if not path.startswith(("/ipfs/", "/ipns/")):
        raise ValueError("it points at no content path")
    until = datetime.fromisoformat(validity.decode("ascii"))
    if until.tzinfo is None:
        raise ValueError("its validity names no time zone")
    # TTL is in nanoseconds; 0 means that the publisher did not say.
    lifetime = timedelta(microseconds=ttl // 1000) if ttl else None
    return IpnsRecord(path, sequence, until.astimezone(UTC), lifetime)


def _is_uint64(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= _MAX_UINT64
