"""CIDs against the `multiformats` package: 16,000 binary ones and texts, right and wrong.

A CID that we read the package reads too, as the same version, codec, hash function and digest.
What only the package reads is refused for a reason that is checked here: a codec or hash function
that no cluster takes, a digest that was cut, a text that is not the one spelling of its bytes."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import multiformats
import pytest
from hypothesis import given
from hypothesis import strategies as st
from multiformats.multihash import raw as package_hashes

from content_gateway.codecs.multiformats import HASHES, MULTIBASES
from content_gateway.errors import InvalidCid, InvalidIpnsName
from content_gateway.model.cid import CODECS, DAG_PB, LIBP2P_KEY, Cid
from content_gateway.model.ipns_name import IpnsName
from tests.chance import examples

pytestmark = pytest.mark.deep

# Examples of each test; the rest of 100,000 is in test_fuzz_multiformats.py and
# tests/ethereum/test_abi_fuzz.py.
SHARES: Final = {"bytes": 8_000, "text": 8_000}
ALL_CODECS: Final = (*CODECS, LIBP2P_KEY, 0x90, 0xE3, 0x12, 0x0200, 0x1000)
ALL_HASHES: Final = (0, 0, *HASHES, 0xD5, 0x01, 0xB201, 0x22)
PREFIXES: Final = tuple(MULTIBASES)
T = TypeVar("T")


@pytest.fixture(scope="module", autouse=True)
def _hash_functions() -> None:
    """Let the package read CIDs of hash functions that it cannot compute here for want of others.

    Only their lengths matter to it then."""

    def cannot(data: Any, size: int | None = None) -> bytes:
        raise NotImplementedError

    for code in (0x1A, 0x1B, 0x1C, 0x1D, 0x1E):
        name, length = HASHES[code]
        package_hashes.register(name, cannot, length, overwrite=True)


def uvarint(number: int) -> bytes:
    """As the package writes it."""
    return bytes(multiformats.varint.encode(number))


def binary(raw: bytes) -> bytes:
    """A binary CID made from *raw*: mostly right, often almost right."""
    choices, content = raw[:6].ljust(6, b"\0"), raw[6:]
    codec = ALL_CODECS[choices[0] % len(ALL_CODECS)]
    code = ALL_HASHES[choices[1] % len(ALL_HASHES)]
    name, length = HASHES.get(code, ("", len(content)))
    digest = ((content + b"Z") * 64)[:length] if name else content
    data = uvarint(1) + uvarint(codec) + uvarint(code) + uvarint(len(digest)) + digest
    if choices[2] > 210:  # version 0
        data = b"\x12\x20" + (content + bytes(32))[:32]
    at = choices[4] % len(data)
    match choices[3] % 16:
        case 9:
            data = data[:at]
        case 10:
            data = data[:at] + choices[5:] + data[at:]
        case 11:
            data = data[: at % 6] + choices[5:] + data[at % 6 + 1 :]
        case 12:
            data = data[:at] + bytes([data[at] ^ 1 << choices[5] % 8]) + data[at + 1 :]
        case 13:
            data += data[at:]
        case 14:  # a number in a longer form
            data = data[: at % 4] + bytes([data[at % 4] | 0x80, 0]) + data[at % 4 + 1 :]
        case 15:
            data = raw
    return data


def package_reading(spelt: str | bytes) -> multiformats.CID | None:
    """What the package reads, None if it refuses."""
    try:
        cid = multiformats.CID.decode(spelt)
        return cid if cid.raw_digest is not None else None  # it is only looked at when asked for
    # For no bytes at all it has an IndexError, for skein an ImportError.
    except (ValueError, KeyError, IndexError, ImportError):
        return None


def our_reading(read: Callable[[], Cid]) -> Cid | None:
    """What we read, None if we refuse."""
    try:
        return read()
    except (ValueError, InvalidCid):
        return None


def why_refused(data: bytes, theirs: multiformats.CID) -> str | None:
    """Why we do not take what the package read in *data*; None if there is no such reason."""
    code, digest = theirs.hashfun.code, bytes(theirs.raw_digest)
    if theirs.codec.code not in CODECS:
        return "the codec"
    if code != 0 and code not in HASHES:
        return "the hash function"
    if len(digest) > 128 if code == 0 else len(digest) != HASHES[code][1]:
        return "the length of the digest"
    return "there is something behind it" if len(bytes(theirs)) != len(data) else None


def agree(ours: Cid, theirs: multiformats.CID) -> None:
    """Both readings are of the same CID, and are written in the same way."""
    assert (ours.codec, ours.hash_code) == (theirs.codec.code, theirs.hashfun.code)
    assert ours.digest == bytes(theirs.raw_digest)
    canonical = theirs.set(base="base32", version=1)
    assert str(ours) == str(canonical)
    assert bytes(ours) == bytes(canonical)
    assert ours.multihash == bytes(theirs.digest)


@given(st.binary(max_size=80))
@examples(SHARES["bytes"])
def test_binary_cids_are_read_as_the_package_reads_them(raw: bytes) -> None:
    """A binary CID of either version, as it stands in a contenthash or in a block."""
    data = binary(raw)
    ours, theirs = our_reading(lambda: Cid.from_bytes(data)), package_reading(data)
    if ours is None:
        assert theirs is None or why_refused(data, theirs)
        return
    assert theirs is not None
    agree(ours, theirs)
    assert Cid.from_bytes(bytes(ours)) == ours == Cid.parse(str(ours))


@given(st.binary(max_size=80))
@examples(SHARES["text"])
def test_texts_are_read_as_the_package_reads_them(raw: bytes) -> None:
    """A text in any base, or of version 0, now and then with a letter changed; the same for the
    names of IPNS, which are CIDs of keys."""
    data, prefix = binary(raw), PREFIXES[sum(raw[:2]) % len(PREFIXES)]
    old = data[:2] == b"\x12\x20" and len(data) == 34
    text = multiformats.multibase.get(code="z" if old else prefix).encode(data)
    text = text[1:] if old else text.rstrip("=") if prefix == "7" else text
    if raw[-1:] > b"\xd0":
        at = raw[-1] % len(text)
        text = text[:at] + chr(raw[0] % 128) + text[at + 1 :]
    ours, theirs = our_reading(lambda: Cid.parse(text)), package_reading(text)
    if ours is None:
        assert theirs is None or why_refused(data, theirs) or not _is_spelling(text, theirs)
    else:
        assert theirs is not None
        agree(ours, theirs)
        again = {Cid.parse(str(theirs.set(base=name, version=1))) for name in ("base36", "base64")}
        assert again == {ours}
        if ours.codec == DAG_PB and ours.hash_code == 0x12:
            assert Cid.parse(str(theirs.set(base="base58btc", version=0))) == ours
    try:
        name = IpnsName.parse(text)
    except InvalidIpnsName:
        return
    if not name.is_dnslink and theirs is not None:
        assert name.multihash == bytes(theirs.digest)
        assert str(name) == str(theirs.set(base="base36", codec="libp2p-key", version=1))


def _is_spelling(text: str, cid: multiformats.CID) -> bool:
    """True when *text* is the one way to write *cid* in its base."""
    written = str(cid)
    return text == (written.rstrip("=") if text[:1] == "7" else written)
