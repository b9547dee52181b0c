"""Records that somebody else published: Kubo's own test fixtures, of 2023 and valid until 2123.

`make peers` takes them, with their licence, from the Go module that it builds Kubo from. The 14
records of ipfs/gateway-conformance are not to be had that way: the module proxy refuses them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from content_gateway.codecs.multiformats import read_varint
from content_gateway.errors import InvalidUpstreamResponse
from content_gateway.ipns.record import IpnsRecord, verify
from content_gateway.model.ipns_name import IpnsName
from tests.clock import NOW
from tests.ipns.signing import PUBLIC_KEY, SIGNATURE_V1
from tests.world.peers import absent, require_peer

HELLO = "/ipfs/bafkreicysg23kiwv34eg2d7qweipxwosdo2py4ldv42nbauguluen5v6am"
CENTURY = timedelta(hours=876_600)
# File name, which is how the publisher spelt the name; its canonical spelling; what it says.
# All from the README files beside the fixtures, but for the moments, which they do not mention.
ED25519 = (
    "12D3KooWLQzUv2FHWGVPXTXSZpdHs7oHbXub2G5WC8Tx4NQhyd2d",
    "k51qzi5uqu5dk3v4rmjber23h16xnr23bsggmqqil9z2gduiis5se8dht36dam",
    IpnsRecord(HELLO, 0, datetime(2123, 4, 12, 13, 44, 59, 801728, tzinfo=UTC), CENTURY),
)
RSA = (
    "QmVujd5Vb7moysJj8itnGufN7MEtPRCNHkKpNuA4onsRa3",
    "k2k4r8m7xvggw5pxxk3abrkwyer625hg01hfyggrai7lk1m63fuihi7w",
    IpnsRecord(HELLO, 0, datetime(2123, 4, 12, 13, 43, 57, 238038, tzinfo=UTC), CENTURY),
)
DIRECTORY = (
    "k51qzi5uqu5dlxdsdu5fpuu7h69wu4ohp32iwm9pdt9nq3y5rpn3ln9j12zfhe",
    "k51qzi5uqu5dlxdsdu5fpuu7h69wu4ohp32iwm9pdt9nq3y5rpn3ln9j12zfhe",
    IpnsRecord(
        "/ipfs/bafybeib3ffl2teiqdncv3mkz4r23b5ctrwkzrrhctdbne6iboayxuxk5ui",
        0,
        datetime(2123, 4, 12, 15, 32, 22, 646144, tzinfo=UTC),
        CENTURY,
    ),
)
PUBLISHED = {"ed25519": ED25519, "rsa": RSA, "directory": DIRECTORY}


@pytest.fixture(scope="module")
def records() -> Path:
    """The folder that `make peers` puts them into."""
    folder = require_peer("ipfs").parents[1] / "ipns_records"
    return folder if folder.is_dir() else absent("the records are not there: run `make peers`")


@pytest.mark.parametrize(("spelling", "canonical", "says"), PUBLISHED.values(), ids=PUBLISHED)
def test_a_published_record_is_read(
    records: Path, spelling: str, canonical: str, says: IpnsRecord
) -> None:
    """Ed25519 and RSA, as Kubo 0.21 wrote them; every spelling of the name is one name."""
    name = IpnsName.parse(spelling)
    assert name == IpnsName.parse(canonical)
    assert str(name) == canonical
    assert verify(name, (records / f"{spelling}.ipns-record").read_bytes(), NOW) == says


@pytest.mark.parametrize(("spelling", "canonical", "says"), PUBLISHED.values(), ids=PUBLISHED)
def test_no_published_record_counts_for_another_name_or_for_ever(
    records: Path, spelling: str, canonical: str, says: IpnsRecord
) -> None:
    """The other two names, and the first moment of the year after its end."""
    data = (records / f"{spelling}.ipns-record").read_bytes()
    for other, _, _ in PUBLISHED.values():
        if other != spelling:
            with pytest.raises(InvalidUpstreamResponse):
                verify(IpnsName.parse(other), data, NOW)
    with pytest.raises(InvalidUpstreamResponse, match="expired"):
        verify(IpnsName.parse(canonical), data, datetime(2124, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(("spelling", "canonical", "says"), [ED25519, RSA], ids=["ed25519", "rsa"])
def test_every_flipped_bit_of_a_published_record_is_noticed(
    records: Path, spelling: str, canonical: str, says: IpnsRecord
) -> None:
    """All but some of the old fields (V1), and none of those changes what the record says.

    ipfs/specs `ipns-record.md` has it so: a record whose V1 signature is wrong is still valid; and
    an old number that is 0 may as well be missing, under a field that nobody knows."""
    data = (records / f"{spelling}.ipns-record").read_bytes()
    name = IpnsName.parse(canonical)
    unsigned = old_fields(data)
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            assert verify(name, bytes(flipped), NOW) == says
        except InvalidUpstreamResponse:
            continue
        assert bit // 8 in unsigned


def old_fields(data: bytes) -> range:
    """Where the fields 2 to 6 are: behind the value, before the key and the new signature."""
    at, start = 0, 0
    while (number := data[at] >> 3) < PUBLIC_KEY:
        if number == SIGNATURE_V1:
            start = at
        value, behind = read_varint(data, at + 1)
        at = behind + value if data[at] & 7 == 2 else behind
    return range(start, at)
