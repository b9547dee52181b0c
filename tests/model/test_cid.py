"""CIDs: every spelling of one CID is one value, and nothing else gets through.

Agreement with the `multiformats` package is in test_fuzz_cid.py."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.codecs.multiformats import BASE58BTC, MULTIBASES, varint
from content_gateway.errors import InvalidCid
from content_gateway.model.cid import CODECS, DAG_PB, RAW, Cid

# The same directory in both versions (multiformats/cid; docs.ipfs.tech, "CID conversion").
V0 = "QmbWqxBEKC3P8tqsKc98xmWNzrzDtRLMiMPL8wBuTGsMnR"
V1 = "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi"
RAW_HELLO = "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e"
SHA = b"\x12\x20" + bytes(range(32))


def v1(codec: int, multihash: bytes) -> bytes:
    """A binary CIDv1, right or wrong."""
    return b"\x01" + varint(codec) + multihash


def spelt(data: bytes, prefix: str = "b") -> str:
    """*data* in a multibase."""
    return prefix + MULTIBASES[prefix].encode(data)


def test_version_0_and_1_are_one_value() -> None:
    """The old and the new spelling of one DAG are equal, and both show as version 1."""
    old, new = Cid.parse(V0), Cid.parse(V1)
    assert old == new
    assert hash(old) == hash(new)
    assert str(old) == V1
    assert old.codec == DAG_PB


def test_a_published_raw_cid_is_the_hash_of_its_content() -> None:
    """`hello world` has the CID that every IPFS tool gives it."""
    cid = Cid.parse(RAW_HELLO)
    assert cid.codec == RAW
    assert cid.digest == hashlib.sha256(b"hello world").digest()
    assert bytes(cid) == bytes.fromhex("01551220") + cid.digest


@pytest.mark.parametrize("prefix", MULTIBASES)
def test_every_base_is_the_same_cid(prefix: str) -> None:
    """A CID may be spelt in any of 22 bases; it stays one pin."""
    assert Cid.parse(spelt(bytes(Cid.parse(V1)), prefix)) == Cid.parse(V1)


@given(st.sampled_from(sorted(CODECS)), st.binary(min_size=32, max_size=32))
@settings(deadline=None)
def test_text_and_bytes_lead_back_to_the_value(codec: int, digest: bytes) -> None:
    """A CID survives being written and read, as text and as bytes."""
    cid = Cid(codec, 0x12, digest)
    assert Cid.parse(str(cid)) == cid
    assert Cid.from_bytes(bytes(cid)) == cid
    if codec == DAG_PB:
        assert Cid.parse(BASE58BTC.encode(cid.multihash)) == cid
        assert Cid.from_bytes(cid.multihash) == cid


def test_an_identity_cid_may_hold_128_bytes_in_any_base() -> None:
    """The longest CID there is fits, even in binary digits."""
    data = v1(RAW, b"\x00" + varint(128) + bytes(128))
    for prefix in MULTIBASES:
        assert Cid.parse(spelt(data, prefix)).digest == bytes(128)
    assert Cid.parse(spelt(v1(RAW, b"\x00\x00"))).digest == b""


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("empty", ""),
        ("no multibase", "x"),
        ("trailing byte", spelt(bytes(Cid.parse(V1)) + b"\0")),
        ("trailing letter", V1 + "a"),
        ("cut", V1[:-1]),
        ("v0 with a prefix", "z" + V0),
        ("v0 cut", V0[:-1]),
        ("v0 too long", V0 + "1"),
        ("v0 with a foreign letter", V0[:-1] + "0"),
        ("v0 in another base", spelt(SHA)),
        ("v0 that names another hash", "Qm" + "1" * 44),
        ("reserved multibase", "1" + V1[1:]),
        ("two letter cases", V1[:10] + V1[10:].upper()),
        ("version 2", spelt(b"\x02" + bytes(Cid.parse(V1))[1:])),
        ("version 3", spelt(b"\x03" + bytes(Cid.parse(V1))[1:])),
        ("no version", spelt(b"\x00" + bytes(Cid.parse(V1))[1:])),
        ("version not minimal", spelt(b"\x81\x00" + bytes(Cid.parse(V1))[1:])),
        ("codec not minimal", spelt(b"\x01\xf0\x00" + SHA)),
        ("hash code not minimal", spelt(b"\x01\x70\x92\x00" + SHA[1:])),
        ("length not minimal", spelt(b"\x01\x70\x12\xa0\x00" + SHA[2:])),
        ("unknown codec", spelt(v1(0x99, SHA))),
        ("libp2p key", spelt(v1(0x72, SHA), "k")),
        ("unknown hash", spelt(v1(RAW, b"\xd4\x01\x10" + bytes(16)))),
        ("sha2-256 of 31 bytes", spelt(v1(RAW, b"\x12\x1f" + bytes(31)))),
        ("sha2-256 of 33 bytes", spelt(v1(RAW, b"\x12\x21" + bytes(33)))),
        ("digest shorter than it says", spelt(v1(RAW, b"\x12\x20" + bytes(31)))),
        ("digest longer than it says", spelt(v1(RAW, b"\x12\x20" + bytes(33)))),
        ("identity of 129 bytes", spelt(v1(RAW, b"\x00" + varint(129) + bytes(129)))),
        ("no digest", spelt(b"\x01\x55\x12")),
        ("only a version", spelt(b"\x01")),
        ("no bytes", "b"),
        ("spaces", " " + V1),
        ("newline", V1 + "\n"),
        ("path", V1 + "/index.html"),
        ("uri", "ipfs://" + V1),
        ("NUL", V1 + "\0"),
        ("not ascii", "bä"),
        ("surrogate", "b\udc2f"),
        ("10 kB", "b" + "a" * 10_000),
        ("10 kB of v0", "Qm" + "1" * 10_000),
    ],
)
def test_what_is_not_a_cid_is_refused(reason: str, text: str) -> None:
    """Whatever could be read in two ways, or never be pinned, is InvalidCid with a reason."""
    with pytest.raises(InvalidCid) as refused:
        Cid.parse(text)
    assert " is no CID: " in refused.value.detail or refused.value.detail.startswith("The CID is ")
    assert len(refused.value.detail) < 200


def test_an_ipns_name_is_told_apart() -> None:
    """People paste `k51...` where a CID belongs: they are told what it is."""
    with pytest.raises(InvalidCid, match="IPNS key"):
        Cid.parse("k51qzi5uqu5dihst24f3rp2ej4co9berxohfkxaenbq1wjty7nrd5e9xp4afx1")


@given(st.one_of(st.text(), st.text("bBzkmuQfF0Zabcdefghijkmnopqr234567=", max_size=80)))
@settings(max_examples=400, deadline=None)
def test_any_text_is_a_cid_or_invalid(text: str) -> None:
    """Nothing but InvalidCid ever comes out of a text that is no CID."""
    try:
        cid = Cid.parse(text)
    except InvalidCid:
        return
    assert Cid.parse(str(cid)) == cid
