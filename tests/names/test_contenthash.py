"""contenthash: the published vectors of ENSIP-7, and nothing but ValueError for the rest."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.codecs.multiformats import varint
from content_gateway.model.cid import Cid
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.records import IpfsContent, IpnsContent, OtherContent
from content_gateway.names.contenthash import MAX_BYTES, decode
from tests.samples import CID_TEXT, KEY_TEXT

RSA_NAME = "k2k4r8kgnix5x0snul9112xdpqgiwc5xmvi8ja0szfhntep2d7qv8zz3"
ONION3 = "p53lf57qovyuvwsc6xnrppyply3vtqm7l6pcobkmyqsiofyeznfu5uqd"
DIGEST = "29f2d17be6139079dc48696d1f582a8530eb9805b561eda517e22a892c7e3f1f"


@pytest.mark.parametrize(
    ("text", "cid"),
    [
        ("e3010170122029f2d17be6139079dc48696d1f582a8530eb9805b561eda517e22a892c7e3f1f", CID_TEXT),
        ("e301" + "1220" + DIGEST, CID_TEXT),  # version 0 inside, as some old tools wrote it
    ],
)
def test_ipfs_vectors(text: str, cid: str) -> None:
    """`ipfs-ns` holds a binary CID."""
    assert decode(bytes.fromhex(text)) == IpfsContent(Cid.parse(cid))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("e5010172122029f2d17be6139079dc48696d1f582a8530eb9805b561eda517e22a892c7e3f1f", RSA_NAME),
        (
            "e50101720024080112205cbd1cc86ac20d6640795809c2a185bb2504538a2de8076da5a6971b8acb4715",
            KEY_TEXT,
        ),
        ("e5010170000f6170702e756e69737761702e6f7267", "app.uniswap.org"),
        # Seen in the wild: ipfs-ns that carries a libp2p key.
        (
            "e30101720024080112205cbd1cc86ac20d6640795809c2a185bb2504538a2de8076da5a6971b8acb4715",
            KEY_TEXT,
        ),
        ("e3010172122029f2d17be6139079dc48696d1f582a8530eb9805b561eda517e22a892c7e3f1f", RSA_NAME),
        ("e5010170122029f2d17be6139079dc48696d1f582a8530eb9805b561eda517e22a892c7e3f1f", RSA_NAME),
    ],
)
def test_ipns_vectors(text: str, name: str) -> None:
    """`ipns-ns` holds a key or, as an identity hash, a DNSLink domain."""
    assert decode(bytes.fromhex(text)) == IpnsContent(IpnsName.parse(name))


@pytest.mark.parametrize(
    ("text", "codec", "shown"),
    [
        (
            "e40101fa011b20d1de9994b4d039f6548d191eb26786769f580809256b4685ef316805265ea162",
            "swarm",
            "d1de9994b4d039f6548d191eb26786769f580809256b4685ef316805265ea162",
        ),
        (
            "90b2ca05cacdf63edf2e0bb4eb5711dd38b0723aca5f3c4ab62ceeb7c1110740833d4894",
            "arweave",
            "ys32Pt8uC7TrVxHdOLByOspfPEq2LO63wREHQIM9SJQ",
        ),
        (
            "90b2c60508004007fd43b74149b31aacbbf2784e874d09b086bed15fd54cacff7120cce95372",
            "skynet",
            "CABAB_1Dt0FJsxqsu_J4TodNCbCGvtFf1Uys_3EgzOlTcg",
        ),
        ("bc037a716b746c776934666563766f367269", "onion", "zqktlwi4fecvo6ri"),
        ("bd03" + ONION3.encode().hex(), "onion3", ONION3),
    ],
)
def test_vectors_of_other_networks(text: str, codec: str, shown: str) -> None:
    """Swarm, Arweave, Skynet and onions are named, and spelt as their own tools spell them."""
    assert decode(bytes.fromhex(text)) == OtherContent(codec, shown)


def test_a_data_url_stands_as_it_is() -> None:
    """Up to 2,048 bytes of it; what is longer, or is no URL, cannot be read."""
    for url in ("data:,", "data:text/html;base64,PGI+", "data:," + "x" * 2_042):
        assert decode(url.encode()) == OtherContent("data-url", url)
    for wrong in (b"data:", b"data:text/html", b"data:,a\nb", "data:,é".encode()):
        with pytest.raises(ValueError, match=r".+"):
            decode(wrong)
    with pytest.raises(ValueError, match="512"):
        decode(b"data:," + b"x" * 2_043)


def test_no_bytes_are_no_record() -> None:
    """A resolver answers unset records with nothing."""
    assert decode(b"") is None


@pytest.mark.parametrize(
    "text",
    [
        "00",
        "e3",  # the namespace is cut
        "e301",  # nothing inside
        "e38100",  # a namespace in a longer spelling
        "e30101",
        "e30101701220" + DIGEST + "00",  # trailing byte
        "e30101701220" + DIGEST[:-2],
        "e30101991220" + DIGEST,  # no such codec
        "e301027012" + "20" + DIGEST,  # no such version
        "e3010170d50110" + "00" * 16,  # md5
        "e3010172122029",
        "e5010155" + "1220" + DIGEST,  # raw content is no IPNS key
        "e5010170000e6170702e756e69737761702e6f7267",  # the domain's length is wrong
        "e501017000036e6f74",  # a domain without a dot
        "e50101700003612f62",
        "e501017000056120622e63",
        "e50101700003ff2eff",
        "e501",
        "e40101fa011b20" + "00" * 31,
        "e40101fa011b20" + "00" * 33,
        "e40101fa011220" + "00" * 32,
        "90b2ca05" + "00" * 31,
        "90b2c605" + "00" * 33,
        "bc03" + "00" * 16,
        "bc03" + "61" * 15,
        "bd03" + "61" * 16,
        "0170" + "00" * 32,
        "ff" * 40,
        "e301" + "00" * MAX_BYTES,
    ],
)
def test_what_cannot_be_read_is_a_value_error(text: str) -> None:
    """Trailing bytes, wrong lengths, unknown networks and over-long values are refused."""
    with pytest.raises(ValueError, match=r".+"):
        decode(bytes.fromhex(text))


NAMESPACES = [varint(code) for code in (0xE3, 0xE4, 0xE5, 0x01BC, 0x01BD, 0xB19910, 0xB29910)]


@given(
    st.sampled_from([b"", *NAMESPACES]),
    st.sampled_from([b"", b"\x01", b"\x01\x70", b"\x01\x72", b"\x01\x70\x00", b"\x01\x72\x00\x24"]),
    st.binary(max_size=60),
)
@settings(max_examples=400, deadline=None)
def test_any_bytes_are_a_record_or_a_value_error(
    namespace: bytes, head: bytes, rest: bytes
) -> None:
    """Owners can write anything into the chain; it is a record, or it is ValueError."""
    try:
        decode(namespace + head + rest)
    except ValueError:
        return
