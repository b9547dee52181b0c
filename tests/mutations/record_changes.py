"""Ways to spoil an IPNS record: its bytes, its protobuf, the CBOR inside, and forgeries.

Writes protobuf with tests/ipns/signing.py; `fields_of` reads it as liberally as any reader might.
Which records are genuine is known by whoever made them."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import cbor2

from tests.ipns.signing import (
    DATA,
    PUBLIC_KEY,
    SEQUENCE,
    SIGNATURE_V2,
    TTL,
    VALIDITY,
    VALUE,
    Signer,
    field,
    uvarint,
)
from tests.mutations.changes import Changed, spoil_bytes

Fields = list[tuple[int, bytes | int]]
# The unsigned fields that repeat signed values, for old readers.
_V1: Final = {VALUE: "Value", VALIDITY: "Validity", SEQUENCE: "Sequence", TTL: "TTL"}
_FIXED: Final = {1: 8, 5: 4}  # bytes of a value, by wire type
_ODD: Final[Sequence[Any]] = (
    *(None, b"", "", 0, 1, -1, 2**64 - 1, 2**64, 2**80, 1.5, True, [], {}, b"/ipns/", b"/ipfs/"),
    *(b"2999-01-01T00:00:00Z", b"2999-13-01T00:00:00Z", b"9999-12-31T23:59:59.999999999Z"),
)


@dataclass(frozen=True)
class Makings:
    """What forgers have at hand: every genuine record of the name, the values that the newest one
    signs, a key of their own, and the values that they would have us believe."""

    genuine: Sequence[bytes]
    signed: dict[str, Any]
    forger: Signer
    forged: dict[str, Any]


def fields_of(record: bytes) -> Fields | None:
    """The fields of protobuf data, in order; None where it is malformed, or absurdly long.

    Knows no field."""
    if len(record) > 20_000:  # twice as long as a record may be
        return None
    fields: Fields = []
    at = 0
    while at < len(record):
        tag, at = _number(record, at)
        value, at = (_FIXED[tag & 7], at) if tag & 7 in _FIXED else _number(record, at)
        if at > len(record) or tag & 7 not in (0, 1, 2, 5):
            return None
        if tag & 7 == 0:
            fields.append((tag >> 3, value))
            continue
        if at + value > len(record):
            return None
        fields.append((tag >> 3, record[at : at + value]))
        at += value
    return fields


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A varint of up to 20 bytes; one that is cut short or longer ends behind the data."""
    value = shift = 0
    while at < len(data) and shift < 140:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at
    return value, len(data) + 1


def written(fields: Fields) -> bytes:
    """The fields as protobuf."""
    return b"".join(field(number, value) for number, value in fields)


def spoil_record(rng: Random, record: bytes, makings: Makings) -> Changed:
    """*record* with a mistake, or another one in its place."""
    dice = rng.random()
    if dice < 0.35:
        return spoil_bytes(rng, record)
    if dice < 0.6:
        return _spoil_fields(rng, record)
    if dice < 0.8:
        return _spoil_signed(rng, record, makings)
    return _forge(rng, record, makings)


def _spoil_fields(rng: Random, record: bytes) -> Changed:
    fields = fields_of(record) or []
    at = rng.randrange(len(fields))
    number, value = fields[at]
    kind = rng.randrange(9)
    if kind == 0:
        del fields[at]
        return f"field {number} is missing", written(fields)
    if kind == 1:
        fields.insert(rng.randrange(len(fields) + 1), (number, _odd_field(rng, value)))
        return f"field {number} stands twice", written(fields)
    if kind == 2:
        fields.insert(rng.randrange(len(fields) + 1), fields[at])
        return f"field {number} stands there again", written(fields)
    if kind == 3:
        rng.shuffle(fields)
        return "fields in another order", written(fields)
    if kind == 4:
        fields.insert(at, (rng.choice((0, 10, 15, 16, 2**28)), value))
        return "an unknown field", written(fields)
    if kind == 5:
        fields[at] = (rng.randrange(1, 10), value)
        return f"field {number} is now {fields[at][0]}", written(fields)
    if kind == 6:
        front, rest = written(fields[:at]), written(fields[at + 1 :])
        tag = uvarint(number << 3 | rng.choice((0, 1, 2, 3, 5, 7)))
        longer = bytes([tag[0] | 0x80]) + b"\x80" * rng.randrange(3) + b"\0"
        body = written([fields[at]])[1:]
        return f"field {number}: its tag", front + rng.choice((tag, longer)) + body + rest
    fields[at] = (number, _odd_field(rng, value))
    return f"field {number} is odd", written(fields)


def _odd_field(rng: Random, value: bytes | int) -> bytes | int:
    if isinstance(value, int):
        return rng.choice((0, 1, value + 1, 2**63, 2**64 - 1, 2**64, 2**70))
    return spoil_bytes(rng, value)[1]


def _spoil_signed(rng: Random, record: bytes, makings: Makings) -> Changed:
    """The signed values changed, and not signed again; or written in another form of CBOR."""
    values = dict(rng.choice((makings.signed, makings.forged)))
    unsigned = _V1 if values == makings.forged and rng.random() < 0.7 else {}
    key = rng.choice(list(values))
    kind = rng.randrange(6)
    if kind == 0:
        del values[key]
    elif kind == 1:
        values["Extra"] = rng.choice(_ODD)
    elif kind == 2 and isinstance(values[key], bytes):
        values[key] = spoil_bytes(rng, values[key])[1]
    elif kind < 5:
        values[key] = rng.choice(_ODD)
    signed = cbor2.dumps(values, canonical=rng.random() < 0.5)
    if kind == 5:
        signed = b"\xbf" + cbor2.dumps(values)[1:] + b"\xff"  # a map without a length
    if rng.random() < 0.3:
        key, signed = "nothing else", cbor2.dumps(makings.forged, canonical=True)
    fields = [
        (n, signed if n == DATA else makings.forged[unsigned[n]] if n in unsigned else v)
        for n, v in fields_of(record) or []
    ]
    return f"{key} in the signed values", written(fields)


def _forge(rng: Random, record: bytes, makings: Makings) -> Changed:
    """Another genuine record, or one that a forger signed."""
    kind = rng.randrange(6)
    forger = makings.forger
    if kind < 2:
        return "another genuine record", rng.choice(makings.genuine)
    if kind == 2:
        return "the forger's own record", forger.record(makings.forged)
    if kind == 3:
        return "the forger's, with key", forger.record(
            makings.forged, fields={PUBLIC_KEY: forger.protobuf}
        )
    fields = dict(fields_of(record) or [])
    other = dict(fields_of(rng.choice(makings.genuine)) or [])
    if kind == 4:
        fields[SIGNATURE_V2] = other[SIGNATURE_V2]
        return "the signature of another record", written(list(fields.items()))
    payload = cbor2.dumps(makings.forged, canonical=True)
    fields |= {DATA: payload, SIGNATURE_V2: forger.sign(b"ipns-signature:" + payload)}
    fields[PUBLIC_KEY] = forger.protobuf
    return "the forger's signature and key", written(list(fields.items()))
