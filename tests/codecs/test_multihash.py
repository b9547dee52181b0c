"""Hash functions: known digests, and which functions and lengths are accepted."""

import hashlib

import pytest

from content_gateway.codecs.multiformats import (
    HASHES,
    IDENTITY,
    MAX_IDENTITY_BYTES,
    check_multihash,
    digest_of,
)

# FIPS 180, FIPS 202, RFC 7693, the Keccak team's and Ethereum's digests of the empty message.
OF_NOTHING = {
    0x11: "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    0x12: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    0x16: "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a",
    0x1B: "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470",
    0xB220: "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8",
    0xB260: "69217a3079908094e11121d042354a7c1f55b6482ca1a51e1b250dfd1ed0eef9",
}


@pytest.mark.parametrize(("code", "digest"), OF_NOTHING.items())
def test_known_digests_come_out(code: int, digest: str) -> None:
    """The functions behind the codes are the ones that the multicodec table means."""
    computed = digest_of(code, b"")
    assert computed is not None
    assert computed.hex() == digest


def test_every_digest_has_the_length_that_is_checked() -> None:
    """What we compute would pass our own check, for every accepted function but blake3."""
    for code, (name, length) in HASHES.items():
        computed = digest_of(code, b"content")
        if name == "blake3":
            assert computed is None
            continue
        assert computed is not None, name
        assert len(computed) == length, name
        check_multihash(code, computed)


def test_double_sha_is_sha_of_sha() -> None:
    """`dbl-sha2-256` is Bitcoin's double hash."""
    once = hashlib.sha256(b"content").digest()
    assert digest_of(0x56, b"content") == hashlib.sha256(once).digest()


@pytest.mark.parametrize("code", [0x12, 0x11, 0x13, 0x1B, 0xB220, 0xB240])
@pytest.mark.parametrize("change", [-1, 1])
def test_a_wrong_length_is_refused(code: int, change: int) -> None:
    """A cut digest would be easy to collide, so the length is part of the function."""
    with pytest.raises(ValueError, match="bytes"):
        check_multihash(code, bytes(HASHES[code][1] + change))


@pytest.mark.parametrize("code", [0x01, 0x10, 0x18, 0xD4, 0xD5, 0xB201, 0xB213, 0xB241, 0xB261])
def test_weak_and_unknown_functions_are_refused(code: int) -> None:
    """md5, sha-256 of 16 bytes and the like are not accepted, as Kubo does not accept them."""
    with pytest.raises(ValueError, match="not accepted"):
        check_multihash(code, bytes(20))


def test_an_identity_hash_is_bounded() -> None:
    """Content inside its own name is fine up to 128 bytes."""
    check_multihash(IDENTITY, bytes(MAX_IDENTITY_BYTES))
    with pytest.raises(ValueError, match="128"):
        check_multihash(IDENTITY, bytes(MAX_IDENTITY_BYTES + 1))
