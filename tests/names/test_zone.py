"""The zone file: what it may say, that an edit shows at once, and that a slip breaks nothing."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from content_gateway.errors import NameNotFound, WrongSettings
from content_gateway.model.cid import Cid
from content_gateway.model.domain import DomainName
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.records import IpfsContent, IpnsContent, Records
from content_gateway.model.wallet import CoinType
from content_gateway.names.zone import ZoneFile, parse_zone
from tests.clock import Clock
from tests.samples import CID_TEXT, KEY_TEXT, WALLET

ZONE = f"""
authority = ["demo", ".Local."]

[names."alias.demo"]
address = "{WALLET.lower()}"

[names."Site.demo"]
address = "{WALLET}"
content = "ipfs://{CID_TEXT}"

[names."blog.demo"]
content = "ipns://{KEY_TEXT}"

[names."docs.example.com"]
content = "ipns://docs.example.org"

[names."bücher.eth"]
address = "{WALLET}"
"""
ALIAS = DomainName.parse("alias.demo")
BASE = CoinType(0x80000000 | 8453)
OTHER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


def test_every_kind_of_entry_is_read() -> None:
    """Wallets, fixed content, keys and DNSLink names; names are normalised like any other."""
    zone = parse_zone(ZONE)
    content = IpfsContent(Cid.parse(CID_TEXT))
    dnslink = IpnsContent(IpnsName.parse("docs.example.org"))
    for text, records in {
        "alias.demo": Records(WALLET),
        "SITE.demo": Records(WALLET, content),
        "blog.demo": Records(None, IpnsContent(IpnsName.parse(KEY_TEXT))),
        "docs.example.com": Records(None, dnslink),
        "BÜCHER.eth": Records(WALLET),
    }.items():
        assert zone.find(DomainName.parse(text)) == records


def test_the_file_has_the_last_word_below_its_suffixes() -> None:
    """Below `demo` an unlisted name does not exist; elsewhere another service may know it."""
    zone = parse_zone(ZONE)
    for text in ("other.demo", "www.alias.demo", "printer.local"):
        with pytest.raises(NameNotFound):
            zone.find(DomainName.parse(text))
    for text in ("vitalik.eth", "xdemo.eth", "demo.eth", "www.docs.example.com", "a.notdemo"):
        assert zone.find(DomainName.parse(text)) is None


def test_addresses_on_other_chains_are_listed_by_coin_type() -> None:
    """None stands in for another: of a chain that is not listed there is the content alone."""
    zone = parse_zone(
        f'''
        [names."alias.demo"]
        address = "{WALLET}"
        addresses.{BASE} = "{OTHER.lower()}"
        addresses.0 = "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"
        [names."site.demo"]
        content = "ipfs://{CID_TEXT}"
        addresses.{BASE} = "{OTHER}"
        '''
    )
    site, content = DomainName.parse("site.demo"), IpfsContent(Cid.parse(CID_TEXT))
    bitcoin = CoinType(0)
    assert zone.find(ALIAS) == Records(WALLET)
    assert zone.find(ALIAS, BASE) == Records(OTHER)
    assert zone.find(ALIAS, bitcoin) == Records("bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq")
    assert zone.find(site, BASE) == Records(OTHER, content)
    assert zone.find(site) == Records(None, content)
    with pytest.raises(NameNotFound):
        zone.find(ALIAS, CoinType(2))


def test_an_empty_file_is_an_empty_zone() -> None:
    """A zone file may be made first and filled later."""
    assert parse_zone("").find(ALIAS) is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("this is not TOML", "line 1"),
        ("name = 1", "'name'"),
        ('authority = "demo"', "authority"),
        ("authority = [1]", "authority"),
        ("names = []", "names"),
        ('[names."a.demo"]', "a.demo"),
        ('names."a.demo" = "0x"', "a.demo"),
        ('[names."a.demo"]\naddres = "0x"', "a.demo"),
        ('[names."a.demo"]\naddress = "0x12"', "a.demo"),
        ('[names."a.demo"]\naddress = ""', "a.demo"),
        ('[names."a.demo"]\naddress = 5', "a.demo"),
        (f'[names."a.demo"]\naddress = "{WALLET}0"', "a.demo"),
        (f'[names."a.demo"]\naddress = "{WALLET[2:]}"', "a.demo"),
        ('[names."a.demo"]\naddresses = []', "a.demo"),
        ('[names."a.demo"]\naddresses.x = "0x12"', "a.demo"),
        (f'[names."a.demo"]\naddresses.{BASE} = "0x12"', "a.demo"),
        ('[names."a.demo"]\naddresses.0 = "two words"', "a.demo"),
        ('[names."a.demo"]\naddresses.0 = 5', "a.demo"),
        (f'[names."a.demo"]\naddress = "{WALLET}"\naddresses.60 = "{WALLET}"', "a.demo"),
        ('[names."a.demo"]\ncontent = "ipfs://"', "a.demo"),
        (f'[names."a.demo"]\ncontent = "{CID_TEXT}"', "a.demo"),
        (f'[names."a.demo"]\ncontent = "http://{CID_TEXT}"', "a.demo"),
        (f'[names."a.demo"]\ncontent = "ipfs://{CID_TEXT}/x"', "a.demo"),
        (f'[names."a.demo"]\ncontent = "ipfs://{KEY_TEXT}"', "a.demo"),
        (f'[names."a.demo"]\ncontent = "ipns://{CID_TEXT}x"', "a.demo"),
        ('[names."a.demo"]\ncontent = 5', "a.demo"),
        (f'[names."demo"]\naddress = "{WALLET}"', "demo"),
        (f'[names."a..demo"]\naddress = "{WALLET}"', "a..demo"),
        (f'[names.a.demo]\naddress = "{WALLET}"', "a"),
        ("x = " + "[" * 10_000, ""),
    ],
)
def test_a_wrong_file_is_refused_naming_the_entry(tmp_path: Path, text: str, named: str) -> None:
    """The operator reads which file and which entry is wrong, and why."""
    path = tmp_path / "zone.toml"
    path.write_text(text)
    with pytest.raises(WrongSettings) as refused:
        ZoneFile(path)
    assert str(path) in refused.value.detail
    assert "names.zone_file" in refused.value.detail
    assert named in refused.value.detail


@pytest.mark.parametrize("content", [b"\xff\xfe", b"#" * (16 * 1024 * 1024 + 1)])
def test_a_file_that_is_not_text_or_too_large_is_refused(tmp_path: Path, content: bytes) -> None:
    """The service does not start with such a file."""
    path = tmp_path / "zone.toml"
    path.write_bytes(content)
    with pytest.raises(WrongSettings):
        ZoneFile(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """So is a file that is not there, or a folder."""
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(WrongSettings, match=r"names\.zone_file"):
            ZoneFile(path)


def entry(address: str) -> str:
    return f'[names."alias.demo"]\naddress = "{address}"\n'


def write(path: Path, text: str) -> None:
    """Write *text*, a moment after whatever was written before."""
    later = path.stat().st_mtime_ns + 1_000_000 if path.exists() else None
    path.write_text(text)
    if later is not None:
        os.utime(path, ns=(later, later))


def test_an_edit_shows_within_a_second(tmp_path: Path, clock: Clock) -> None:
    """No restart: the file is read again when it has changed, and looked at once a second."""
    path = tmp_path / "zone.toml"
    write(path, entry("0x" + "11" * 20))
    zone = ZoneFile(path, clock=clock)
    assert zone.find(ALIAS) == Records("0x" + "11" * 20)
    write(path, entry("0x" + "22" * 20))
    clock.pass_(1)
    assert zone.find(ALIAS) == Records("0x" + "22" * 20)
    write(path, "")
    clock.pass_(1)
    assert zone.find(ALIAS) is None


def test_a_file_put_in_its_place_is_seen(tmp_path: Path, clock: Clock) -> None:
    """Editors and deployment tools replace files; same size and time, another file."""
    path, other = tmp_path / "zone.toml", tmp_path / "new.toml"
    write(path, entry("0x" + "11" * 20))
    zone = ZoneFile(path, clock=clock)
    write(other, entry("0x" + "22" * 20))
    stamp = path.stat().st_mtime_ns
    os.utime(other, ns=(stamp, stamp))
    other.replace(path)
    clock.pass_(1)
    assert zone.find(ALIAS) == Records("0x" + "22" * 20)


@pytest.mark.parametrize("broken", ["[names", "x = 1", entry("0x12"), None])
def test_a_file_that_breaks_keeps_the_last_good_zone(
    tmp_path: Path, clock: Clock, broken: str | None
) -> None:
    """While the file is wrong or missing the last good zone is used; a repaired one is loaded."""
    path = tmp_path / "zone.toml"
    write(path, entry("0x" + "11" * 20))
    zone = ZoneFile(path, clock=clock)
    if broken is None:
        path.unlink()
    else:
        write(path, broken)
    clock.pass_(1)
    assert zone.find(ALIAS) == Records("0x" + "11" * 20)
    write(path, entry("0x" + "22" * 20))
    clock.pass_(1)
    assert zone.find(ALIAS) == Records("0x" + "22" * 20)


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_zone_or_a_value_error(text: str) -> None:
    """Nothing but ValueError ever comes out of the parser."""
    for before in ("", '[names."a.demo"]\n', "authority = ", 'names."a.demo" = '):
        try:
            parse_zone(before + text)
        except ValueError:
            continue
