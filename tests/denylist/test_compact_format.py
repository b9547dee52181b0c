"""The denylist: every form of rule, against the specification's examples and NOpfs' fixtures.

Sources: ipfs/specs compact-denylist-format.md; ipfs-shipyard/nopfs tester/test.deny (the same
CIDs, each said to be blocked or not); nopfs issue 40 (badbits entries for IPNS and DNSLink)."""

import hashlib

import pytest
from multiformats import CID

from content_gateway.codecs.multiformats import HASHES, varint
from content_gateway.denylist.compact_format import CompactDenylist, parse_denylist
from content_gateway.model.cid import Cid
from content_gateway.model.domain import DomainName
from content_gateway.model.ipns_name import IpnsName
from tests.denylist.spelling import bare_multihash, base58, legacy, modern

# Three CIDs of one multihash (test.deny, rule 1), and another in both versions (rule 12).
DAG = "bafybeihvvulpp4evxj7x7armbqcyg6uezzuig6jp3lktpbovlqfkuqeuoq"
RAW = "bafkreihvvulpp4evxj7x7armbqcyg6uezzuig6jp3lktpbovlqfkuqeuoq"
V0 = "QmesfgDQ3q6prBy2Kg2gKbW4MAGuWiRP2DVuGA5MZSERLo"
OTHER = "bafybeidjwik6im54nrpfg7osdvmx7zojl5oaxqel5cmsz46iuelwf5acja"
OTHER_V0 = "QmVTF1yEejXd9iMgoRTFDxBv7HAz9kuZcQNBzHrceuK9HR"
SHA512 = str(CID("base32", 1, "raw", ("sha2-512", hashlib.sha512(b"some content").digest())))
# Three spellings of one key (rule 8).
KEY = "k51qzi5uqu5dhmzyv3zac033i7rl9hkgczxyl81lwoukda2htteop7d3x0y1mf"
KEY_BASE32 = "bafzaajaiaejcaotjfs57kieazxny5japcmy5p2pgv2cic77tu6ogghttvurnrufx"
PEER = "12D3KooWDkNqEJNmreF3NYYFK1ws7Ra2fuW6cHBTu567SPV3LdYA"
OTHER_KEY = "k51qzi5uqu5dixwsch9wpd9rolqby1m0uqj5hhxwtxal0dwltastfmh01dlniq"


def denylist(*rules: str) -> CompactDenylist:
    return parse_denylist("\n".join(rules).encode())


def blocks_cid(rules: CompactDenylist, text: str) -> bool:
    return rules.blocks_cid(Cid.parse(text))


def blocks_ipns(rules: CompactDenylist, text: str) -> bool:
    return rules.blocks_ipns(IpnsName.parse(text))


def blocks_domain(rules: CompactDenylist, text: str) -> bool:
    return rules.blocks_domain(DomainName.parse(text))


@pytest.mark.parametrize("spelling", [DAG, RAW, V0, "z" + base58(bytes(Cid.parse(DAG)))])
def test_a_cid_is_blocked_by_its_multihash(spelling: str) -> None:
    """One rule blocks every version, codec and base of the CID, however it spells it itself."""
    rules = denylist(f"/ipfs/{spelling}")
    assert all(blocks_cid(rules, cid) for cid in (DAG, RAW, V0))
    assert not blocks_cid(rules, OTHER)
    assert len(rules) == 1


def test_a_multihash_of_any_function_can_stand_for_the_cid() -> None:
    """The specification lets base58btc multihashes stand where a CID does."""
    rules = denylist(f"/ipfs/{bare_multihash(SHA512)}")
    assert blocks_cid(rules, SHA512)
    assert not blocks_cid(rules, DAG)


def test_a_rule_may_name_a_codec_that_is_not_served() -> None:
    """Its multihash may be asked for under another: here, a CID of Ethereum's (0x90)."""
    strange = b"\x01\x90\x01" + Cid.parse(DAG).multihash
    assert blocks_cid(denylist(f"/ipfs/z{base58(strange)}"), DAG)


@pytest.mark.parametrize("path", ["", "/", "//", "/*", "//*", "/**"])
def test_all_paths_below_a_cid_include_itself(path: str) -> None:
    """`/*` includes the empty path, and a slash at the end means nothing."""
    assert blocks_cid(denylist(f"/ipfs/{DAG}{path}"), DAG)
    assert blocks_ipns(denylist(f"/ipns/{KEY}{path}"), KEY)


@pytest.mark.parametrize("path", ["/path", "/path/", "/path*", "/a/b/*", "/a%20b", "/%2A", "/1*2"])
def test_a_rule_for_a_path_blocks_only_the_path(path: str) -> None:
    """It says nothing of the whole, nor does its exception."""
    rules = denylist(f"/ipfs/{DAG}{path}", f"/ipns/{KEY}{path}", f"/ipns/domain.example{path}")
    assert not blocks_cid(rules, DAG)
    assert not blocks_ipns(rules, KEY)
    assert not blocks_ipns(rules, "domain.example")
    assert len(rules) == 3
    assert blocks_cid(denylist(f"/ipfs/{DAG}", f"!/ipfs/{DAG}{path}"), DAG)


@pytest.mark.parametrize("spelling", [KEY, KEY_BASE32, PEER])
def test_a_key_is_blocked_in_every_spelling(spelling: str) -> None:
    """Base36, base32 and the bare peer id are one key."""
    rules = denylist(f"/ipns/{spelling}")
    assert all(blocks_ipns(rules, key) for key in (KEY, KEY_BASE32, PEER))
    assert not blocks_ipns(rules, OTHER_KEY)


def test_content_and_keys_are_apart() -> None:
    """A key named by a SHA-256 is not the content with that hash, nor the other way round."""
    content, key = denylist(f"/ipfs/{V0}"), denylist(f"/ipns/{V0}")
    assert blocks_cid(content, V0)
    assert not blocks_ipns(content, V0)
    assert blocks_ipns(key, V0)
    assert not blocks_cid(key, V0)


def test_a_domain_is_blocked_as_a_name_and_as_dnslink() -> None:
    """Gateways serve `/ipns/NAME` for DNSLink and ENS alike; what lies below it is another."""
    rules = denylist("/ipns/Domain.Example", "/ipns/bücher.eth")
    assert blocks_ipns(rules, "domain.example")
    assert blocks_domain(rules, "DOMAIN.example")
    assert blocks_domain(rules, "BÜCHER.eth")
    for free in ("www.domain.example", "example.com", "omain.example"):
        assert not blocks_ipns(rules, free)
        assert not blocks_domain(rules, free)


def test_the_published_double_hashes_block() -> None:
    """The specification's own, those of test.deny, and a badbits entry for a key."""
    rules = denylist(
        "//QmX9dhRcQcKUw3Ws8485T5a9dtjrSCQaUAHnG4iK9i4ceM",
        "//d9d295bde21f422d471a90f2a37ec53049fdf3e5fa3ee2e8f20e10003da429e7",
        "//3f8b9febd851873b3774b937cce126910699ceac56e72e64b866f8e258d09572",  # of a path
        "//c555c4de78827ba42527dd3dc5398db38d6c0a8c345a88e0158b2d100f317e50",
        "//6ef262a67f2c7caa9722b0fe46aced2f1559c749eab2bcf2f2701f43f802e900",
        "//fb5a70b1aade810d21e8195a0da05f40ebd099e4b4d6bf088dc604e4fcf34263",
    )
    assert blocks_cid(rules, OTHER)
    assert blocks_cid(rules, OTHER_V0)
    assert blocks_cid(rules, "bafybeiefwqslmf6zyyrxodaxx4vwqircuxpza5ri45ws3y5a62ypxti42e")
    assert blocks_ipns(rules, "bad-domain-name.tld")
    assert blocks_ipns(rules, OTHER_KEY)
    assert blocks_domain(rules, "very-bad-example.eth")
    assert not blocks_cid(rules, DAG)
    assert not blocks_ipns(rules, KEY)
    assert not blocks_domain(rules, "bad-example.eth")


@pytest.mark.parametrize("function", ["sha2-256", "sha2-512", "sha1"])
def test_a_modern_double_hash_is_of_the_multihash(function: str) -> None:
    """Any hash function will do; every codec and version of the CID is meant."""
    rules = denylist(modern(V0, function), modern(bare_multihash(KEY_BASE32), function))
    assert all(blocks_cid(rules, cid) for cid in (DAG, RAW, V0))
    assert not blocks_cid(rules, OTHER)
    assert all(blocks_ipns(rules, key) for key in (KEY, KEY_BASE32, PEER))
    assert not blocks_ipns(rules, OTHER_KEY)


def test_a_modern_double_hash_of_a_domain_is_of_its_path() -> None:
    """`/ipns/` stands before the domain, and before the domain only."""
    rules = denylist(modern("/ipns/domain.example"), modern("a.example"), modern(f"/ipns/{KEY}"))
    assert blocks_ipns(rules, "domain.example")
    assert blocks_domain(rules, "domain.example")
    assert not blocks_domain(rules, "a.example")
    assert not blocks_ipns(rules, KEY)


def test_a_legacy_double_hash_is_of_one_cid() -> None:
    """The codec is hashed with the rest: the same bytes under another codec are not meant."""
    rules = denylist(legacy(f"{DAG}/"), legacy(f"{KEY_BASE32}/"), legacy("domain.example/"))
    assert blocks_cid(rules, DAG)
    assert blocks_cid(rules, V0)
    assert not blocks_cid(rules, RAW)
    assert blocks_ipns(rules, PEER)
    assert blocks_ipns(rules, "domain.example")
    assert blocks_domain(rules, "domain.example")


def test_a_legacy_double_hash_may_be_in_capitals() -> None:
    """Hexadecimal digits may be upper case."""
    assert blocks_cid(denylist(legacy(f"{DAG}/").upper()), DAG)


def test_no_multihash_looks_like_a_sha256_in_hex() -> None:
    """64 letters are the legacy form: a multihash in base58btc is never of that length."""
    for code, (name, size) in HASHES.items():
        start = varint(code) + varint(size)
        lengths = {len(base58(start + byte * size)) for byte in (b"\x00", b"\xff")}
        assert 64 not in range(min(lengths), max(lengths) + 1), name


def test_double_hashes_of_paths_have_no_effect() -> None:
    """Neither form blocks what lies above the path."""
    rules = denylist(modern(f"{V0}/path"), legacy(f"{DAG}/path"))
    assert not blocks_cid(rules, DAG)


DENY, ALLOW = f"/ipfs/{DAG}", f"!/ipfs/{V0}"
HASHED, LEGACY = modern(V0), legacy(f"{DAG}/")


@pytest.mark.parametrize(
    ("rules", "blocked"),
    [
        ([DENY, ALLOW], False),
        ([ALLOW, DENY], True),
        ([DENY, ALLOW, DENY], True),
        ([DENY, ALLOW, DENY, ALLOW], False),
        ([ALLOW], False),
        ([f"/ipfs/{DAG}/*", ALLOW], False),
        ([DENY, f"!/ipfs/{RAW}/*"], False),
        ([DENY, f"!/ipfs/{OTHER}"], True),
        ([HASHED, ALLOW], False),
        ([ALLOW, HASHED], True),
        ([DENY, "!" + HASHED], False),
        (["!" + HASHED, DENY], True),
        ([LEGACY, "!" + HASHED], False),
        (["!" + HASHED, LEGACY], True),
        ([HASHED, "!" + LEGACY, DENY], True),
        ([DENY, "!" + modern(V0, "sha2-512")], False),
        ([HASHED, "!" + modern(V0, "sha2-512"), f"!/ipfs/{OTHER}", LEGACY], True),
    ],
)
def test_of_all_rules_that_match_the_last_decides(rules: list[str], blocked: bool) -> None:
    """Whatever the form of the rules, and whatever stands between them."""
    assert blocks_cid(denylist(*rules), DAG) is blocked


def test_the_last_rule_decides_for_names_too() -> None:
    """The specification's example: the domain stays blocked, as its exception came first."""
    rules = denylist("!/ipns/my.domain", "/ipns/my.domain", f"/ipns/{KEY}", f"!/ipns/{PEER}")
    assert blocks_ipns(rules, "my.domain")
    assert not blocks_ipns(rules, KEY)


PATHS = [
    ("test", "test", True),
    ("test/", "test", True),
    ("test", "test/deeper", False),
    ("test", "tests", False),
    ("test*", "test", True),
    ("test*", "tests/deeper", True),
    ("test*", "atest", False),
    ("test/*", "test", True),
    ("test/*", "test/deeper", True),
    ("a%20b/c", "a b/c", True),
    ("a%20b/c", "a%20b/c", False),
    ("r%C3%A4ksm%C3%B6rg%C3%A5s", "räksmörgås", True),
    ("%2A", "*", True),
    ("%2A", "anything", False),
]


@pytest.mark.parametrize(("rule", "path", "is_blocked"), PATHS)
def test_a_rule_for_a_path_blocks_it_below_every_spelling(
    rule: str, path: str, is_blocked: bool
) -> None:
    """Of the CID, whatever its version and codec, and of the key; and below nothing else."""
    rules = denylist(*(f"/{root}/{rule}" for root in (f"ipfs/{DAG}", f"ipns/{KEY}", "ipns/a.eth")))
    for cid in (DAG, RAW, V0):
        assert rules.blocks_path(Cid.parse(cid), path) is is_blocked
    for key in (KEY, KEY_BASE32, PEER, "a.eth"):
        assert rules.blocks_path(IpnsName.parse(key), path) is is_blocked
    assert rules.blocks_path(DomainName.parse("a.eth"), path) is is_blocked
    assert not rules.blocks_path(Cid.parse(OTHER), path)
    assert not rules.blocks_path(IpnsName.parse(OTHER_KEY), path)
    assert not rules.blocks_path(DomainName.parse("b.eth"), path)
    assert len(rules) == 3


def test_of_several_rules_for_a_path_the_last_decides() -> None:
    """As in the specification's example."""
    exceptions = ("blockednot", "blocked/not", "blocked/exceptions*")
    rules = denylist(f"/ipfs/{V0}/blocked*", *(f"!/ipfs/{V0}/{one}" for one in exceptions))
    cid = Cid.parse(V0)
    for path in ("blocked", "blocked2", "blocked/x", "blocked/not/x"):
        assert rules.blocks_path(cid, path)
    for path in ("blockednot", "blocked/not", "blocked/exceptions", "blocked/exceptions/x", "x"):
        assert not rules.blocks_path(cid, path)


def test_a_double_hash_may_be_of_a_path() -> None:
    """In each form, of a CID, a key and a domain (test.deny, rule 11; issue 40)."""
    base = "bafybeiefwqslmf6zyyrxodaxx4vwqircuxpza5ri45ws3y5a62ypxti42e"
    published = "//3f8b9febd851873b3774b937cce126910699ceac56e72e64b866f8e258d09572"
    assert denylist(published).blocks_path(Cid.parse(base), "path")
    assert not denylist(published).blocks_path(Cid.parse(base), "path2")
    for rule, item in (
        (modern(f"{bare_multihash(DAG)}/a b"), Cid.parse(RAW)),
        (legacy(f"{DAG}/a b"), Cid.parse(V0)),
        (modern("/ipns/a.eth/a b"), DomainName.parse("a.eth")),
        (legacy("a.eth/a b"), IpnsName.parse("a.eth")),
        (legacy(f"{KEY_BASE32}/a b"), IpnsName.parse(PEER)),
    ):
        assert denylist(rule).blocks_path(item, "a b")
        assert not denylist(rule).blocks_path(item, "a")
