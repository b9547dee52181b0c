"""Domain names: normalised by ENSIP-15, bounded by DNS, hashed by EIP-137."""

import pytest
from ens_normalize import DisallowedSequence, ens_normalize
from hypothesis import example, given, settings
from hypothesis import strategies as st

from content_gateway.errors import InvalidDomain
from content_gateway.model.domain import DomainName
from tests.fakes import ethereum

LABEL = st.text("abcxyzABCXYZ019-_", min_size=1, max_size=8)


@given(st.lists(LABEL, min_size=2, max_size=4).map(".".join))
@example("ab--cd.eth")
@example("xn--ls8h.eth")
@example("a.--b.eth")
@example("a--.eth")
@example("-.-")
@example("_a.eth")
@example("a_b.eth")
@example("__.eth")
@settings(max_examples=300, deadline=None)
def test_the_fast_path_is_ensip_15(text: str) -> None:
    """Plain names skip the normaliser; they come out exactly as it would have left them."""
    try:
        expected = ens_normalize(text)
    except DisallowedSequence:
        with pytest.raises(InvalidDomain):
            DomainName.parse(text)
    else:
        assert DomainName.parse(text).text == expected


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("Vitalik.ETH", "vitalik.eth"),
        ("RaFFY🚴‍♂️.eTh", "raffy🚴‍♂.eth"),  # ENSIP-15's own example
        ("1️⃣2️⃣.eth", "1⃣2⃣.eth"),
        ("bücher.example", "bücher.example"),
        ("BU\u0308CHER.eth", "bücher.eth"),  # composed by NFC
        ("Ⅷ.eth", "viii.eth"),
        ("ｅｔｈ.eth", "eth.eth"),
        ("فارسی.eth", "فارسی.eth"),
        ("日本語.eth", "日本語.eth"),
        ("_dmarc.example.com", "_dmarc.example.com"),
        ("nick\u2019s.eth", "nick’s.eth"),
        ("so\u00adft.eth", "soft.eth"),  # the soft hyphen is ignored
        ("1.2.3.4.5.6.7.8.9.0", "1.2.3.4.5.6.7.8.9.0"),
    ],
)
def test_names_are_normalised(text: str, normal: str) -> None:
    """What people type and what looks the same is one name."""
    assert DomainName.parse(text).text == normal == str(DomainName.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "eth",
        ".eth",
        "eth.",
        "a..eth",
        "\u00ad.eth",  # empty once the ignored letter is gone
        "\ufe0f.eth",
        "a b.eth",
        " a.eth",
        "a.eth\n",
        "a\0.eth",
        "a/b.eth",
        "a%2fb.eth",
        "a\\b.eth",
        "a@b.eth",
        "a:80.eth",
        "\udc2f.eth",
        "a\udc2fb.eth",
        "a\ud800.eth",
        "xn--ls8h.eth",
        "ab--cd.eth",
        "a_b.eth",
        "a\u3002eth",  # the ideographic full stop separates nothing (ENSIP-15)
        "a\uff0eeth",
        "?.eth",
        "te--st.eth",
        "vit\u0430lik.eth",  # a Cyrillic letter among Latin ones
        "0x\u200d.eth",
        "\u200d.eth",
        "a\u202e.eth",
        "\u0301a.eth",  # a combining mark leads
        "’a.eth",
        "a" * 256 + ".eth",
        ".".join(["a" * 255] * 4),
        "a." * 128 + "a",
        "é" * 128 + ".eth",
        "a" * 10_000 + ".eth",
        "é" * 10_000 + ".eth",
        "a." * 5_000,
    ],
)
def test_what_no_service_could_hold_is_refused(text: str) -> None:
    """Empty labels, single labels, disallowed letters, names too long: before any network use."""
    with pytest.raises(InvalidDomain) as refused:
        DomainName.parse(text)
    assert refused.value.detail.startswith(("The domain", "A domain", "A label"))


@pytest.mark.parametrize("label", ["f" * 250, "f" * 255, "é" * 127, "\N{PILE OF POO}" * 63])
def test_a_label_is_bounded_as_ens_bounds_it(label: str) -> None:
    """255 bytes, whatever the whole name comes to; one more has no length byte."""
    for text in (f"{label}.eth", f"{label}.{label}.eth"):
        name = DomainName.parse(text)
        size = len(label.encode())
        assert name.wire[: size + 1] == bytes([size]) + label.encode()
    if len(label.encode()) == 255:
        with pytest.raises(InvalidDomain, match="255 bytes"):
            DomainName.parse(f"{label}f.eth")


def test_a_name_is_bounded_in_all() -> None:
    """1,024 bytes on the wire, and 128 labels: that bound is ours, and beyond any name in use."""
    longest = ".".join(["a" * 255] * 3 + ["a" * 254])
    assert len(DomainName.parse(longest).wire) == 1024
    for text in (longest + "a", "é." + longest):
        with pytest.raises(InvalidDomain, match="1024 bytes"):
            DomainName.parse(text)
    assert len(DomainName.parse("a." * 127 + "a").labels) == 128
    for text in ("a." * 128 + "a", "é." * 128 + "a"):
        with pytest.raises(InvalidDomain, match="128 labels"):
            DomainName.parse(text)


def test_the_wire_form_is_that_of_dns() -> None:
    """Each label stands behind its length in bytes; a zero byte ends the name (RFC 1035)."""
    assert DomainName.parse("www.Example.eth").wire == b"\3www\7example\3eth\0"
    assert DomainName.parse("bücher.eth").wire == b"\7b\xc3\xbccher\3eth\0"


@pytest.mark.parametrize(
    ("text", "node"),
    [
        # EIP-137 and EIP-181; vitalik.eth as ethers and viem document it.
        ("foo.eth", "de9b09fd7c5f901e23a3f19fecc54828e9c848539801e86591bd9801b019f84f"),
        ("addr.reverse", "91d1777781884d03a6757a803996e38de2a42967fb37eeaca72729271025a9e2"),
        ("vitalik.eth", "ee6c4522aab0003e8d14cd40a6af439055fd2577951148c14b6cea9a53475835"),
    ],
)
def test_namehash_vectors(text: str, node: str) -> None:
    """The node that contracts know a name by is EIP-137's."""
    assert DomainName.parse(text).namehash.hex() == node


@given(st.lists(LABEL, min_size=2, max_size=5).map(".".join))
@settings(max_examples=50, deadline=None)
def test_namehash_is_the_standard_read_literally(text: str) -> None:
    """Any name hashes as EIP-137's recursive definition says."""
    try:
        name = DomainName.parse(text)
    except InvalidDomain:
        return
    assert name.namehash == ethereum.namehash(name.text)


ANY_CHARACTER = st.characters(exclude_categories=())


@given(st.text(ANY_CHARACTER, max_size=20), st.sampled_from(["", ".eth", ".", "..eth"]))
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_domain_or_invalid(text: str, end: str) -> None:
    """Nothing but InvalidDomain comes out; a name has whole labels and is normal for ever."""
    try:
        name = DomainName.parse(text + end)
    except InvalidDomain:
        return
    assert len(name.labels) >= 2
    assert all(name.labels)
    assert len(name.wire) <= 1024
    assert DomainName.parse(name.text) == name
