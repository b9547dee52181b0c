"""IPNS names: one key has many spellings and one name; a dot makes it a domain."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.codecs.multiformats import BASE58BTC, MULTIBASES, varint
from content_gateway.errors import InvalidIpnsName
from content_gateway.model.ipns_name import IpnsName

# ENSIP-7's examples (ensdomains/content-hash, src/index.test.ts).
ED25519 = "k51qzi5uqu5dihst24f3rp2ej4co9berxohfkxaenbq1wjty7nrd5e9xp4afx1"
RSA = "k2k4r8kgnix5x0snul9112xdpqgiwc5xmvi8ja0szfhntep2d7qv8zz3"
# libp2p specs, peer-ids: a test vector, in both of its spellings.
PEER_ID = "12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"
PEER_CID = "bafzaajaiaejca"


@pytest.mark.parametrize("text", [ED25519, RSA])
def test_every_spelling_is_one_name(text: str) -> None:
    """CIDv1 in any base and the bare base58 peer id are the same name, shown in base36."""
    name = IpnsName.parse(text)
    cid = b"\x01\x72" + name.multihash
    assert name.text == str(name) == text
    assert not name.is_dnslink
    for prefix, base in MULTIBASES.items():
        assert IpnsName.parse(prefix + base.encode(cid)) == name
    assert IpnsName.parse(BASE58BTC.encode(name.multihash)) == name


def test_the_peer_id_of_libp2p_is_read() -> None:
    """`12D3Koo...` is what `ipfs key list` used to print, and people still paste it."""
    name = IpnsName.parse(PEER_ID)
    assert BASE58BTC.encode(name.multihash) == PEER_ID
    assert name.text.startswith("k51")
    assert ("b" + MULTIBASES["b"].encode(b"\x01\x72" + name.multihash)).startswith(PEER_CID)


def test_an_old_dag_pb_cid_of_a_key_is_its_name_in_a_contenthash_only() -> None:
    """Before libp2p-key existed, names were CIDs of dag-pb. In a text, `bafybei...` is content that
    somebody took for a name."""
    name = IpnsName.parse(RSA)
    old = b"\x01\x70" + name.multihash
    assert IpnsName.from_cid(old) == name
    with pytest.raises(InvalidIpnsName):
        IpnsName.parse("b" + MULTIBASES["b"].encode(old))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("app.uniswap.org", "app.uniswap.org"),
        ("En.Wikipedia-on-IPFS.org", "en.wikipedia-on-ipfs.org"),
        ("_dnslink.example.org", "_dnslink.example.org"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("a.b", "a.b"),
        ("1.2", "1.2"),
        ("a" * 63 + ".example", "a" * 63 + ".example"),
    ],
)
def test_a_domain_is_a_dnslink_name(text: str, canonical: str) -> None:
    """A name with a dot is a DNS name, in lower case, and has no key."""
    name = IpnsName.parse(text)
    assert name.text == canonical
    assert name.is_dnslink
    assert name.multihash == b""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "k",
        "site",
        ".",
        "a..b",
        ".a.b",
        "a.b.",
        "-a.b",
        "a-.b",
        "a b.c",
        "a.b\n",
        "a.b/c",
        "bücher.example",
        "\udc2f.example",
        "a\0.b",
        "a" * 64 + ".example",
        ".".join(["a" * 60] * 5),
        ED25519 + "0",
        ED25519[:-1],
        ED25519[:9] + ED25519[9:].upper(),
        PEER_ID[:-1],
        "Qm" + "1" * 44,
        "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi/x",
        "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e",  # raw content, no key
        "b" + MULTIBASES["b"].encode(b"\x01\x72\x00\x00"),  # a key of no bytes
        "b" + MULTIBASES["b"].encode(b"\x01\x72\x13\x40" + bytes(64)),  # keys are not sha2-512
        "b" + MULTIBASES["b"].encode(b"\x00\x72\x12\x20" + bytes(32)),
        "b" + MULTIBASES["b"].encode(b"\x01\xf2\x00\x12\x20" + bytes(32)),
        "b" + MULTIBASES["b"].encode(b"\x01\x72\x00" + varint(129) + bytes(129)),
        "b" + MULTIBASES["b"].encode(b"\x01\x70\x00\x03a/b"),
        "k" + "a" * 10_000,
        "a." * 5_000,
    ],
)
def test_what_is_no_name_is_refused(text: str) -> None:
    """Everything else is InvalidIpnsName, with a reason that fits on a line."""
    with pytest.raises(InvalidIpnsName) as refused:
        IpnsName.parse(text)
    assert 0 < len(refused.value.detail) < 200


@given(st.one_of(st.text(), st.text("kbQm12DKo.abz-_", max_size=60)))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_name_or_invalid(text: str) -> None:
    """Nothing but InvalidIpnsName comes out, and a name is its own canonical spelling."""
    try:
        name = IpnsName.parse(text)
    except InvalidIpnsName:
        return
    assert IpnsName.parse(name.text) == name
