"""What a domain's TXT records say, without asking anybody."""

import pytest

from content_gateway.errors import InvalidUpstreamResponse
from content_gateway.ipns.sources.dnslink import read_dnslink
from content_gateway.model.cid import Cid
from tests.ipns.dnslink.links import IPFS, KEY

OLD = "QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn"
NEW = f"/ipfs/{Cid.parse(OLD)}"
LATIN = f"dnslink={IPFS}/grün".encode("latin-1")


@pytest.mark.parametrize(
    ("link", "path"),
    [
        (IPFS, IPFS),
        (IPFS + "/", IPFS),
        ("/" + IPFS, IPFS),
        (IPFS + "/a/b c", IPFS + "/a/b c"),
        (IPFS + "/a//./b/../c/", IPFS + "/a/c/"),
        (IPFS + "/grün", IPFS + "/grün"),
        ("/ipfs/" + OLD, NEW),
        (KEY, KEY),
        (KEY + "/a", KEY + "/a"),
        ("/ipns/Example.net", "/ipns/example.net"),
        ("/ipns/a.b/c", "/ipns/a.b/c"),
        (IPFS[6:], IPFS),
        (OLD, NEW),
        (OLD + "/a", NEW + "/a"),
    ],
)
def test_the_path_is_what_stands_behind_dnslink(link: str, path: str) -> None:
    """A CID, a key or another domain, with or without a path below; a CID alone is its path. Other
    records do not count, and two spellings of one path are one."""
    spf, text = b"v=spf1 -all", b"dnslink=" + link.encode()
    assert read_dnslink([spf, text, b"dnslink=/swarm/abc"]) == path
    assert read_dnslink([text, b"dnslink=" + path.encode()]) == path


@pytest.mark.parametrize(
    "record",
    [
        "",
        "dnslink",
        "dnslink=",
        "dnslink=/",
        "dnslink=/ipfs",
        "dnslink=/ipfs/",
        "dnslink=/ipfs//",
        "dnslink=/ipns/",
        "dnslink=/ipfs/no-cid",
        "dnslink=/ipns/no-key",
        "dnslink=/ipns/a..b",
        "dnslink=/IPFS/" + IPFS[6:],
        "dnslink=" + IPFS[1:],
        "dnslink=x" + IPFS,
        "dnslink= " + IPFS,
        "DNSLINK=" + IPFS,
        " dnslink=" + IPFS,
        "dnslink:" + IPFS,
        "dnslink=/ipld/" + IPFS[6:],
        "dnslink=https://example.org/",
        f"dnslink={IPFS}\n",
        f"dnslink={IPFS}/\x00",
        f'"dnslink={IPFS}"',
        IPFS,
    ],
)
def test_a_record_that_is_no_dnslink_is_passed_over(record: str) -> None:
    """Malformed records and unknown namespaces are no error, and no answer."""
    assert read_dnslink([record.encode()]) is None
    assert read_dnslink([record.encode(), b"dnslink=" + KEY.encode()]) == KEY


def test_bytes_that_are_no_text_are_passed_over() -> None:
    """A TXT record may hold anything."""
    assert read_dnslink([b"\xff\xfe", b"dnslink=\xff", b"dnslink=/ipns/\xff.org", LATIN]) is None


def test_two_links_are_garbage() -> None:
    """Nobody but the owner could say which of them is meant."""
    with pytest.raises(InvalidUpstreamResponse, match="more than one DNSLink"):
        read_dnslink([b"dnslink=" + IPFS.encode(), b"dnslink=" + KEY.encode()])
