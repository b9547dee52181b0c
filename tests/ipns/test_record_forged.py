"""IPNS records that are wrong: whatever was tampered with, nobody believes it."""

import re
from datetime import timedelta
from hashlib import sha256
from typing import Any

import cbor2
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, x448
from hypothesis import example, given, settings
from hypothesis import strategies as st

from content_gateway.errors import InvalidUpstreamResponse
from content_gateway.ipns.record import verify
from content_gateway.model.ipns_name import IpnsName
from tests.clock import NOW
from tests.ipns.signing import PATH, RsaSigner, Signer, data, field, when

SIGNER = Signer()
OTHER = Signer(2)


def refuse(record: bytes, signer: Signer = SIGNER, why: str = "The IPNS record") -> None:
    """The record is refused, for the reason *why*."""
    with pytest.raises(InvalidUpstreamResponse, match=re.escape(why)):
        verify(signer.name, record, NOW)


SIGNERS = {"ed25519": Signer, "rsa": RsaSigner}


@pytest.mark.parametrize("kind", SIGNERS)
def test_every_flipped_bit_is_noticed(kind: str) -> None:
    """Every changed bit makes the record invalid."""
    signer = SIGNERS[kind]()
    record = signer.record()
    assert verify(signer.name, record, NOW).sequence == 7
    for bit in range(len(record) * 8):
        flipped = bytearray(record)
        flipped[bit // 8] ^= 1 << bit % 8
        refuse(bytes(flipped), signer)


@pytest.mark.parametrize("kind", SIGNERS)
def test_no_flipped_bit_changes_what_a_record_with_old_fields_says(kind: str) -> None:
    """The V1 signature is not verified, so it may be corrupt; what the record says is the same."""
    signer = SIGNERS[kind]()
    record = signer.record(v1=True)
    true = verify(signer.name, record, NOW)
    for bit in range(len(record) * 8):
        flipped = bytearray(record)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            assert verify(signer.name, bytes(flipped), NOW) == true
        except InvalidUpstreamResponse:
            continue


def test_a_cut_or_lengthened_record_is_refused() -> None:
    """A record that is cut, or that has bytes behind it, is invalid."""
    record = SIGNER.record(v1=True)
    for length in range(len(record)):
        refuse(record[:length])
    for more in (b"\0", b"\x4a", b"\x42\x00", record[:-1]):
        refuse(record + more)


def test_somebody_elses_record_is_refused() -> None:
    """A router that serves another name's record, or another key's signature, is caught."""
    refuse(OTHER.record())
    refuse(OTHER.record(fields={7: SIGNER.protobuf}))
    refuse(SIGNER.record(fields={7: OTHER.protobuf}), why="its key is not the name's")
    refuse(SIGNER.record(fields={8: OTHER.sign(b"ipns-signature:" + cbor2.dumps(data()))}))
    refuse(RsaSigner().record())
    refuse(SIGNER.record(), RsaSigner(), why="lacks the public key")


def test_an_expired_record_is_refused() -> None:
    """At its end of life and after it a record is no answer, however well it is signed."""
    for age in (timedelta(), timedelta(microseconds=1), timedelta(days=400)):
        refuse(SIGNER.record(data(Validity=when(NOW - age))), why="expired")


def test_a_record_over_10_kib_is_refused() -> None:
    """Size is looked at before anything else."""
    refuse(SIGNER.record(data(Value=PATH + b"/" * 10_240)), why="10240 bytes")
    refuse(bytes(10 * 1024 + 1), why="10240 bytes")


@pytest.mark.parametrize(
    ("number", "value"),
    [(1, PATH + b"x"), (1, b""), (3, 1), (4, when(NOW)), (5, 8), (5, 0), (6, 1), (6, 0)],
)
def test_the_old_fields_must_say_the_same(number: int, value: bytes | int) -> None:
    """V1 readers use the unsigned fields, so these must equal the signed data."""
    refuse(SIGNER.record(v1=True, fields={number: value}), why="differs from the signed one")


@pytest.mark.parametrize("number", [1, 4, 5, 6])
def test_old_fields_are_there_all_together(number: int) -> None:
    """A V1 record with one of its fields missing says something else than the signed data."""
    refuse(SIGNER.record(v1=True, fields={number: None}), why="differs from the signed one")


def test_an_old_field_alone_says_nothing() -> None:
    """Without V1's value and signature no old field is looked at (verification, step 7); the
    answer is what was signed."""
    assert verify(SIGNER.name, SIGNER.record(fields={5: 8}), NOW).sequence == 7
    refuse(SIGNER.record(fields={1: PATH, 5: 8}), why="differs from the signed one")
    refuse(SIGNER.record(fields={2: b"x", 5: 8}), why="differs from the signed one")


def test_an_unsigned_record_is_refused() -> None:
    """V1 signatures alone are not accepted any more."""
    refuse(b"", why="not signed (V2)")
    refuse(SIGNER.record(v1=True, fields={8: None}), why="not signed (V2)")
    refuse(SIGNER.record(v1=True, fields={8: None, 9: None}), why="not signed (V2)")
    refuse(SIGNER.record(v1=True, fields={9: None}), why="not signed (V2)")
    refuse(SIGNER.record(fields={8: b""}), why="signature is not the key's")
    refuse(SIGNER.record(fields={8: bytes(64)}), why="signature is not the key's")
    refuse(
        SIGNER.record(fields={8: SIGNER.sign(cbor2.dumps(data(), canonical=True))}), why="signature"
    )


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6, 8, 9])
def test_the_last_of_two_fields_counts(number: int) -> None:
    """As protobuf has it: what stands behind the right one replaces it, and not what is before."""
    record = SIGNER.record(v1=True)
    value: bytes | int = 8 if number in (3, 5, 6) else b"no"
    assert verify(SIGNER.name, field(number, value) + record, NOW).sequence == 7
    if number == 2:  # the old signature is not verified
        assert verify(SIGNER.name, record + field(number, value), NOW).sequence == 7
    else:
        refuse(record + field(number, value))


def test_bytes_that_are_no_protobuf_are_refused() -> None:
    """A field without a number, of a type that there is not, or of the wrong one."""
    refuse(SIGNER.record() + field(0, 0), why="no number of a field")
    refuse(SIGNER.record() + field(2**40, 1), why="no number of a field")
    refuse(SIGNER.record() + field(5, b"\x07"), why="wrong type")
    refuse(SIGNER.record() + field(1, 7), why="wrong type")
    for wire_type in (3, 4, 6, 7):
        refuse(SIGNER.record() + bytes([5 << 3 | wire_type]) + bytes(8), why="gave up")
    refuse(SIGNER.record() + bytes([5 << 3 | 1]) + bytes(8), why="wrong type")
    refuse(SIGNER.record() + bytes([10 << 3 | 1]) + bytes(7), why="cut short")
    refuse(SIGNER.record() + b"\x28" + b"\xff" * 9 + b"\x02", why="too large")
    refuse(SIGNER.record() + b"\x28" + b"\xff" * 20, why="too large")


@pytest.mark.parametrize(
    "changes",
    [
        {"Value": None},
        {"Value": PATH.decode()},
        {"Validity": None},
        {"Validity": "2030-01-02T03:04:05Z"},
        {"Validity": b""},
        {"Validity": b"tomorrow"},
        {"Validity": b"2030-01-02T03:04:05"},
        {"Validity": b"2030-13-02T03:04:05Z"},
        {"Validity": b"2030-01-02 03:04:05Z"},
        {"Validity": b"20300102T030405Z"},
        {"Validity": b"2030-01-02T03:04Z"},
        {"Validity": b"2030-W01-1T03:04:05Z"},
        {"Validity": b"2030-01-02T03:04:05+02"},
        {"Validity": b"\xff"},
        {"Validity": b"9999-12-31T23:59:59-23:59"},  # in UTC that is the year 10000
        {"Validity": b"0001-01-01T00:00:00+23:59"},
        {"ValidityType": None},
        {"ValidityType": 1},
        {"ValidityType": "0"},
        {"Sequence": None},
        {"Sequence": -1},
        {"Sequence": 2**64},
        {"Sequence": 2**63},
        {"Sequence": 2**64 - 1},
        {"Sequence": True},
        {"Sequence": 1.0},
        {"Sequence": "7"},
        {"TTL": -1},
        {"TTL": 2**64},
        {"TTL": b""},
        {"TTL": float("nan")},
    ],
    ids=str,
)
def test_well_signed_values_that_are_invalid_are_refused(changes: dict[str, Any]) -> None:
    """A valid signature does not make invalid values a record."""
    refuse(SIGNER.record(data(**changes)), why="not valid")


@pytest.mark.parametrize(
    "signed",
    [
        b"",
        b"\x00",
        b"\x80",
        b"\xf6",
        b"\xff",
        b"\x81" * 9_000,
        b"\x9b" + b"\xff" * 8,
        b"\x5b" + b"\xff" * 8,
        b"\xbf\xff",
        b"\xd8\x1c\x81\xd8\x1d\x00",  # a list that holds itself
        b"\xd8\x1e\x82\x01\x00",  # one divided by zero
        b"\xc5\x82\x1a\x7f\xff\xff\xff\x01",  # an enormous number
        b"\xa1\x81\x01\x02",
        cbor2.dumps(data()).replace(b"eValue", b"hSequence"),
    ],
    ids=lambda signed: signed[:12].hex(),
)
def test_well_signed_cbor_that_is_no_record_is_refused(signed: bytes) -> None:
    """Bottomless, endless and self-containing CBOR is refused like any other."""
    refuse(SIGNER.record(signed))


def named(protobuf: bytes) -> Signer:
    """A publisher whose key is *protobuf*, with the signature of another key."""
    signer = Signer()
    signer.protobuf = protobuf
    signer.name = signer.named()
    return signer


EC_KEY = ec.generate_private_key(ec.SECP256R1()).public_key()
DER = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
# A SubjectPublicKeyInfo of an algorithm (1.2.3.4.5.6) that nobody has heard of.
UNKNOWN = bytes.fromhex("3010300706052a0304050603050001020304")
# One of an elliptic curve with such a number.
UNKNOWN_CURVE = bytes.fromhex("3058301206072a8648ce3d020106072a03040506070803420004") + bytes(64)


X448_KEY = x448.X448PrivateKey.generate().public_key()
NO_KEYS = {
    "cut": b"\x08",
    "no material": field(1, 1),
    "31 bytes": field(1, 1) + field(2, bytes(31)),
    "33 bytes": field(1, 1) + field(2, bytes(33)),
    "trailing byte": field(1, 1) + field(2, bytes(32)) + b"\0",
    "wrong order": field(2, bytes(32)) + field(1, 1),
    "secp256k1": field(1, 2) + field(2, bytes(33)),
    "ecdsa": field(1, 3) + field(2, bytes(60)),
    "rsa of no bytes": field(1, 0) + field(2, b""),
    "rsa that is not DER": field(1, 0) + field(2, b"\x30" * 90),
    "rsa that is a curve": field(1, 0) + field(2, EC_KEY.public_bytes(*DER)),
    "rsa that is X448": field(1, 0) + field(2, X448_KEY.public_bytes(*DER)),
    "rsa of an unknown algorithm": field(1, 0) + field(2, UNKNOWN),
    "rsa of an unknown curve": field(1, 0) + field(2, UNKNOWN_CURVE),
    "rsa of 1024 bits": RsaSigner(1024).protobuf,
}


@pytest.mark.parametrize("protobuf", NO_KEYS.values(), ids=NO_KEYS)
def test_a_key_that_is_none_signs_nothing(protobuf: bytes) -> None:
    """Malformed, short, foreign and unsupported keys are refused, and raise nothing else."""
    signer = named(protobuf)
    refuse(signer.record(fields={7: protobuf}), signer)
    refuse(signer.record(), signer)


def test_an_rsa_record_without_its_key_is_refused() -> None:
    """The name is only the key's hash: the key must come along, and be the right one."""
    signer = RsaSigner()
    refuse(signer.record(fields={7: None}), signer, why="lacks the public key")
    refuse(signer.record(fields={7: RsaSigner(3072).protobuf}), signer, why="not the name's")
    refuse(signer.record(fields={8: bytes(256)}), signer, why="signature is not the key's")


def test_a_short_key_is_the_name_itself() -> None:
    """An Ed25519 key under the name of its hash would be one key with two names."""
    hashed = IpnsName.from_multihash(b"\x12\x20" + sha256(SIGNER.protobuf).digest())
    with pytest.raises(InvalidUpstreamResponse, match="short enough"):
        verify(hashed, SIGNER.record(fields={7: SIGNER.protobuf}), NOW)


@pytest.mark.parametrize("tag", [1, 2, 4, 28, 29, 35, 36, 258, 43000])
def test_tags_are_not_interpreted(tag: int) -> None:
    """DAG-CBOR has the one tag 42; what others stand for may take seconds to build."""
    costly = cbor2.CBORTag(tag, "(?i)" + "[\x01-\U0010fffe]" * 300)
    refuse(SIGNER.record(data(Extra=costly)), why="a tag that DAG-CBOR does not know")
    refuse(SIGNER.record(data(Extra=[{"deep": [costly]}])), why="a tag")


def test_a_link_is_no_harm() -> None:
    """Publishers may sign fields of their own, CIDs among them."""
    link = cbor2.CBORTag(42, b"\x00\x01\x55\x12\x20" + bytes(32))
    assert verify(SIGNER.name, SIGNER.record(data(Extra=link)), NOW).sequence == 7


ANY_FIELD = st.builds(field, st.integers(0, 12), st.binary(max_size=40) | st.integers(0, 2**64 - 1))


@given(st.one_of(st.binary(max_size=300), st.lists(ANY_FIELD, max_size=10).map(b"".join)))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_garbage(record: bytes) -> None:
    """Whatever a router sends, InvalidUpstreamResponse is all that comes of it."""
    refuse(record)


@given(st.binary(max_size=60))
@example(bytes.fromhex("d82363282828"))
@example(bytes.fromhex("c1fb7ff8000000000000"))
@settings(max_examples=300, deadline=None)
def test_any_signed_bytes_are_garbage(signed: bytes) -> None:
    """The same for whatever the owner of a key may sign."""
    refuse(SIGNER.record(signed))


VALUES = st.none() | st.integers() | st.binary() | st.text() | st.floats() | st.datetimes()


@given(st.dictionaries(st.sampled_from(list(data())) | st.text(), VALUES))
@settings(max_examples=200, deadline=None)
def test_any_signed_map_is_invalid_or_a_record(changes: dict[str, Any]) -> None:
    """Values of any type under the right names raise nothing but InvalidUpstreamResponse."""
    values = {
        key: value.isoformat() + "Z" if hasattr(value, "isoformat") else value
        for key, value in (data() | changes).items()
    }
    try:
        record = verify(SIGNER.name, SIGNER.record(cbor2.dumps(values)), NOW)
    except InvalidUpstreamResponse:
        return
    assert record.valid_until > NOW
