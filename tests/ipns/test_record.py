"""IPNS records that are right: every kind of key and record that publishers have written."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from content_gateway.codecs.multiformats import IDENTITY
from content_gateway.demo.publisher import ipns_name, sign_record
from content_gateway.ipns.record import IpnsRecord, verify
from content_gateway.model.cid import Cid
from tests.clock import NOW
from tests.ipns.signing import CURVES, LATER, PATH, EcSigner, RsaSigner, Signer, data, field, when

WHOLE = IpnsRecord(PATH.decode(), 7, LATER, timedelta(minutes=5))
SIGNERS: dict[str, Callable[[], Signer]] = {
    "ed25519": Signer,
    "rsa": RsaSigner,
    "secp256k1": EcSigner,
    **{curve.name: partial(EcSigner, curve) for curve in CURVES},
}


@pytest.mark.parametrize("v1", [False, True], ids=["v2", "v1+v2"])
@pytest.mark.parametrize("kind", SIGNERS)
def test_a_record_of_the_specification_is_read(kind: str, v1: bool) -> None:
    """Every kind of key that Kubo and js-ipns both take, with and without the old fields."""
    signer = SIGNERS[kind]()
    assert verify(signer.name, signer.record(v1=v1), NOW) == WHOLE


def test_our_own_publisher_writes_such_records() -> None:
    """The demonstration's record is one that anybody can verify."""
    key = Ed25519PrivateKey.generate()
    record = sign_record(key, PATH.decode(), sequence=7, lifetime=timedelta(hours=48), now=NOW)
    assert verify(ipns_name(key), record, NOW) == WHOLE


def test_both_publishers_give_a_key_the_same_name() -> None:
    """The name of a key does not depend on who computes it."""
    key = Ed25519PrivateKey.from_private_bytes(b"\x01" * 32)
    name = ipns_name(key)
    assert name == Signer(1).name
    assert name.text.startswith("k51")
    assert name.multihash[0] == IDENTITY


def test_rsa_names_are_hashes() -> None:
    """An RSA key is too long for a name, which then holds its sha2-256."""
    assert RsaSigner().name.text.startswith("k2k4")


def test_an_ed25519_record_may_repeat_the_key() -> None:
    """Some publishers add the key that the name holds already."""
    signer = Signer()
    assert verify(signer.name, signer.record(fields={7: signer.protobuf}), NOW) == WHOLE


@pytest.mark.parametrize(
    ("ttl", "read"),
    [(0, None), (None, None), (1, timedelta()), (60_000_000_000, timedelta(minutes=1))],
)
def test_a_ttl_of_zero_is_none_at_all(ttl: int | None, read: timedelta | None) -> None:
    """Publishers that do not say how long leave the TTL out, or write 0."""
    signer = Signer()
    assert verify(signer.name, signer.record(data(TTL=ttl)), NOW).ttl == read


@pytest.mark.parametrize("number", [0, 1, 2**32, 2**63 - 1])
def test_numbers_may_be_as_large_as_63_bits(number: int) -> None:
    """Sequence and TTL, in the old fields too; a sequence that boxo could not compare is none."""
    signer = Signer()
    record = verify(signer.name, signer.record(data(Sequence=number, TTL=number), v1=True), NOW)
    assert record.sequence == number


def test_what_nobody_knows_is_passed_over() -> None:
    """A field that a later protobuf may bring, of each type that has a length."""
    signer = Signer()
    for unknown in (
        field(10, b"hello"),
        field(2**20, 7),
        b"\x51" + bytes(8),
        b"\x55" + bytes(4),
    ):
        assert verify(signer.name, signer.record() + unknown, NOW) == WHOLE
        assert verify(signer.name, unknown + signer.record(v1=True), NOW) == WHOLE


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (PATH[6:], PATH.decode()),
        (bytes(Cid.parse(PATH[6:].decode())), PATH.decode()),
        (bytes(Cid.parse(PATH[6:].decode()))[2:], PATH.decode()),
        (PATH + b"/docs", PATH.decode() + "/docs"),
        (b"/swarm/abc", "/swarm/abc"),
        (b"", ""),
        (b"/ipfs/\xff", ""),
    ],
)
def test_a_value_need_not_lead_anywhere(value: bytes, path: str) -> None:
    """A bare or binary CID is a path; what leads nowhere makes no record invalid."""
    signer = Signer()
    assert verify(signer.name, signer.record(data(Value=value), v1=True), NOW).value == path


@pytest.mark.parametrize(
    ("validity", "until"),
    [
        (b"2030-01-02T03:04:05Z", datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (b"2030-01-02T03:04:05.5Z", datetime(2030, 1, 2, 3, 4, 5, 500_000, tzinfo=UTC)),
        (b"2030-01-02T03:04:05.123456789Z", datetime(2030, 1, 2, 3, 4, 5, 123_456, tzinfo=UTC)),
        (b"2030-01-02T03:04:05+02:00", datetime(2030, 1, 2, 1, 4, 5, tzinfo=UTC)),
        (b"9999-12-31T23:59:59Z", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_moments_are_read_as_rfc_3339(validity: bytes, until: datetime) -> None:
    """With or without fractions, in any time zone; what comes out is UTC."""
    signer = Signer()
    assert verify(signer.name, signer.record(data(Validity=validity)), NOW).valid_until == until


def test_the_last_moment_is_within_the_validity() -> None:
    """A record serves until its end of life, and not at it."""
    signer = Signer()
    record = signer.record(data(Validity=when(NOW + timedelta(microseconds=1))))
    assert verify(signer.name, record, NOW).valid_until > NOW


def test_a_record_of_exactly_10_kib_is_read() -> None:
    """The specification's limit is the last size that is accepted."""
    signer = Signer()
    spare = 10 * 1024 - len(signer.record(data(Value=PATH + b"/" * 5_000))) + 5_000
    record = signer.record(data(Value=PATH + b"/" * spare))
    assert len(record) == 10 * 1024
    assert verify(signer.name, record, NOW).sequence == 7


def test_the_higher_sequence_wins_then_the_later_validity() -> None:
    """How two records of one name compare, whatever their order of arrival."""
    low, long, high = (
        IpnsRecord("/ipfs/a", 1, LATER, None),
        IpnsRecord("/ipfs/b", 1, LATER + timedelta(hours=1), None),
        IpnsRecord("/ipfs/c", 2, NOW, None),
    )
    assert low.rank < long.rank < high.rank
