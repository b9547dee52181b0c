"""The IPNS record: bytes from anybody, believed only when they prove themselves.

Knows ipfs/specs `ipns-record.md`: the protobuf envelope, the signed DAG-CBOR inside it, and what of
both decides whether it is valid. Does no I/O; the keys are those of public_keys.py, and where
records come from and how long an answer serves is left to the resolver.

What the specification leaves open is decided as boxo and js-ipns both do, so that a name that the
network resolves resolves here: fields that nobody knows are passed over, of a doubled one the last
counts, and a value that leads nowhere is valid all the same."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeGuard

import cbor2

from content_gateway.errors import InvalidCid, InvalidUpstreamResponse
from content_gateway.ipns.public_keys import INVALID_SIGNATURE, check_signature, public_key
from content_gateway.model.cid import Cid
from content_gateway.model.ipns_name import MAX_RECORD_BYTES, IpnsName

SIGNATURE_PREFIX: Final = b"ipns-signature:"
_MAX_UINT64: Final = 2**64 - 1
# boxo reads the sequence as a signed number and compares no record whose sequence is none.
_MAX_SEQUENCE: Final = 2**63 - 1

# Protobuf field numbers of IpnsEntry; the first six are V1, kept for old readers.
VALUE, SIGNATURE_V1, VALIDITY_TYPE, VALIDITY, SEQUENCE, TTL = 1, 2, 3, 4, 5, 6
PUBLIC_KEY, SIGNATURE_V2, DATA = 7, 8, 9
_BYTES_FIELDS: Final = {VALUE, SIGNATURE_V1, VALIDITY, PUBLIC_KEY, SIGNATURE_V2, DATA}
_NUMBER, _BYTES = 0, 2  # wire types, and the two of a length that is known:
_FIXED: Final = {1: 8, 5: 4}
# What the parsers below raise for bytes that are not a record; a moment that no calendar has is
# an OverflowError.
_INVALID: Final = (
    ValueError,
    KeyError,
    OverflowError,
    cbor2.CBORDecodeError,
    *INVALID_SIGNATURE,
)
# As boxo reads it; Python's own reading of ISO 8601 is much wider.
_RFC_3339: Final = re.compile(
    rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})"
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

    *value* is a content path, or another text where the record leads nowhere; *valid_until* the
    time (UTC) from which it is invalid; *ttl* how long it may be cached, None if it does not
    say."""

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

    Raises InvalidUpstreamResponse when it is malformed, forged, tampered with or expired."""
    try:
        fields = _read_fields(data)
        signed, signature = fields[DATA], fields[SIGNATURE_V2]
        key = public_key(name, fields.get(PUBLIC_KEY))
        check_signature(key, SIGNATURE_PREFIX + signed, signature)
        values = _read_signed(signed)
        _check_v1(fields, values)
        record = _understand(values)
    except _INVALID as wrong:
        raise InvalidUpstreamResponse(f"The IPNS record is not valid: {_reason(wrong)}.") from wrong
    if record.valid_until <= now:
        raise InvalidUpstreamResponse("The IPNS record has expired.")
    return record


def _reason(wrong: Exception) -> str:
    if isinstance(wrong, KeyError):
        return "it is not signed (V2)"
    return str(wrong) or "the signature is not the key's"


def _read_fields(data: bytes) -> dict[int, Any]:
    """The fields that we know, by number; ValueError for bytes that are no protobuf."""
    if len(data) > MAX_RECORD_BYTES:
        raise ValueError(f"it has more than {MAX_RECORD_BYTES} bytes")
    fields: dict[int, Any] = {}
    at = 0
    while at < len(data):
        tag, at = _read_uint64(data, at)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number < 2**29:
            raise ValueError(f"{number} is no number of a field")
        value, at = _read_value(data, at, wire_type)
        if not VALUE <= number <= DATA:
            continue
        if wire_type != (_BYTES if number in _BYTES_FIELDS else _NUMBER):
            raise ValueError(f"the field {number} has the wrong type")
        fields[number] = value
    return fields


def _read_value(data: bytes, at: int, wire_type: int) -> tuple[int | bytes, int]:
    """The value at *at*, and the byte behind it."""
    if wire_type == _NUMBER:
        return _read_uint64(data, at)
    if wire_type == _BYTES:
        length, at = _read_uint64(data, at)
    elif wire_type in _FIXED:
        length = _FIXED[wire_type]
    else:
        raise ValueError("a field has a type that protobuf gave up")  # groups
    if at + length > len(data):
        raise ValueError("a field is cut short")
    return data[at : at + length], at + length


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
    """ValueError where the unsigned V1 fields contradict the signed ones (verification, step 7)."""
    if not (fields.get(VALUE) or fields.get(SIGNATURE_V1)):
        return  # none is believed, and whoever reads V1 would not take the record either
    for number, (key, default) in _V1_MIRRORS.items():
        if fields.get(number, default) != values.get(key, default):
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
    if sequence > _MAX_SEQUENCE:
        raise ValueError("its sequence is larger than any that could follow another")
    if not _RFC_3339.fullmatch(validity):
        raise ValueError("its validity is not a moment of RFC 3339 in a time zone")
    until = datetime.fromisoformat(validity.decode("ascii"))
    # TTL is in nanoseconds; 0 means that the publisher did not say.
    lifetime = timedelta(microseconds=ttl // 1000) if ttl else None
    return IpnsRecord(_text(value), sequence, until.astimezone(UTC), lifetime)


def _text(value: bytes) -> str:
    """The content path that *value* spells: as text, or as a CID in text or bytes, which is how
    it was written before there were paths (js-ipns `normalizeByteValue`)."""
    try:
        text = value.decode().strip()
    except UnicodeDecodeError:
        text = ""
    if text.startswith("/"):
        return text
    try:
        return f"/ipfs/{Cid.from_bytes(value)}"
    except ValueError:
        pass
    try:
        return f"/ipfs/{Cid.parse(text)}"
    except InvalidCid:
        return text


def _is_uint64(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= _MAX_UINT64
