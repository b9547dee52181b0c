"""Multibase: the published vectors, and strictness.

Agreement with the `multiformats` package is in test_fuzz_multiformats.py."""

import pytest

from content_gateway.codecs.multiformats import MULTIBASES, decode_multibase

# multiformats/multibase, tests/basic.csv. Its base8 row once counted bits from the right; like
# go-multibase and `multiformats` we read them from the left, as RFC 4648 does.
YES_MANI = [
    "001111001011001010111001100100000011011010110000101101110011010010010000000100001",
    "7362625631006654133464440102",
    "9573277761329450583662625",
    "f796573206d616e692021",
    "F796573206D616E692021",
    "bpfsxgidnmfxgsibb",
    "BPFSXGIDNMFXGSIBB",
    "vf5in683dc5n6i811",
    "VF5IN683DC5N6I811",
    "cpfsxgidnmfxgsibb",
    "CPFSXGIDNMFXGSIBB",
    "tf5in683dc5n6i811",
    "TF5IN683DC5N6I811",
    "hxf1zgedpcfzg1ebb",
    "k2lcpzo5yikidynfl",
    "K2LCPZO5YIKIDYNFL",
    "Z7Pznk19XTTzBtx",
    "z7paNL19xttacUY",
    "meWVzIG1hbmkgIQ",
    "MeWVzIG1hbmkgIQ==",
    "ueWVzIG1hbmkgIQ",
    "UeWVzIG1hbmkgIQ==",
]
# tests/two_leading_zeros.csv
LEADING_ZEROS = [
    "0000000000000000001111001011001010111001100100000011011010110000101101110011010010010000000100001",
    "900573277761329450583662625",
    "f0000796573206d616e692021",
    "baaahszltebwwc3tjeaqq",
    "CAAAHSZLTEBWWC3TJEAQQ====",
    "t0007ipbj41mm2rj940gg====",
    "hyyy813murbssn5ujryoo",
    "k002lcpzo5yikidynfl",
    "Z117Pznk19XTTzBtx",
    "z117paNL19xttacUY",
    "mAAB5ZXMgbWFuaSAh",
    "UAAB5ZXMgbWFuaSAh",
]


@pytest.mark.parametrize("text", YES_MANI)
def test_the_published_vectors_hold(text: str) -> None:
    """Every base reads and writes the specification's own example."""
    assert decode_multibase(text) == b"yes mani !"
    assert MULTIBASES[text[0]].encode(b"yes mani !") == text[1:]


@pytest.mark.parametrize("text", LEADING_ZEROS)
def test_leading_zeros_are_kept(text: str) -> None:
    """Bases that count, such as base58, keep the zero bytes in front of the number."""
    assert decode_multibase(text) == b"\0\0yes mani !"
    assert MULTIBASES[text[0]].encode(b"\0\0yes mani !") == text[1:]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1abc",  # identity in bytes, reserved in text
        "Qabc",
        "/ipfs",
        "?",
        "é",
        "🚀",
        "\udc2f",
        "z0",  # 0 is no letter of base58
        "bpfsxgidnmfxgsibba",  # a letter left over
        "bab",  # bits left over that are not zero
        "b1",
        "MeWVzIG1hbmkgIQ",  # padding missing
        "MeWVzIG1hbmkgIQ=",
        "MeWVzIG1hbmkgIQ===",
        "M=eWVzIG1hbmkgIQ=",
        "meWVzIG1hbmkgIQ==",  # padding where none belongs
        "f7",
        "f7g",
        "0101",
        "f 79",
        "f79\n",
    ],
)
def test_what_is_not_a_spelling_is_refused(text: str) -> None:
    """Unknown prefixes, foreign letters, stray padding and left-over bits are ValueErrors."""
    with pytest.raises(ValueError, match=r".+"):
        decode_multibase(text)
