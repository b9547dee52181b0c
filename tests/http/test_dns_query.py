"""DNS over HTTPS: questions of RFC 8484 and of the JSON form, through the whole service."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import dns.message
import dns.rcode
import pytest

from tests.contract import Answer
from tests.service import Service, running_service

CID = "bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"
IPNS = "k51qzi5uqu5dihst24f3rp2ej4co9berxohfkxaenbq1wjty7nrd5e9xp4afx1"
WALLET = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
ZONE = f"""
authority = ["demo"]

[names."site.demo"]
content = "ipfs://{CID}"

[names."moving.demo"]
content = "ipns://{IPNS}"

[names."wallet.demo"]
address = "{WALLET}"
"""
GATEWAY = ["192.0.2.7", "2001:db8::7"]


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    zone = tmp_path / "zone.toml"
    zone.write_text(ZONE)
    async with running_service(
        tmp_path / "data", names__zone_file=zone, doh__addresses=GATEWAY
    ) as service:
        yield service


def wire_of(name: str, kind: str = "TXT", **options: Any) -> bytes:
    """A question, with the id that RFC 8484 advises."""
    return dns.message.make_query(name, kind, id=options.pop("id", 0), **options).to_wire()


async def ask_wire(service: Service, wire: bytes, **options: Any) -> Answer:
    """The answer to *wire* by GET."""
    text = base64.urlsafe_b64encode(wire).decode().rstrip("=")
    return await service.ask("GET", f"/dns-query?dns={text}", **options)


async def ask(service: Service, name: str, kind: str = "TXT", **options: Any) -> Any:
    """The DNS message that answers."""
    answer = await ask_wire(service, wire_of(name, kind, **options))
    assert answer.status == 200
    return dns.message.from_wire(answer.body)


def records(message: Any) -> list[str]:
    """The records of the answer section, as text."""
    return [data.to_text() for one in message.answer for data in one]


@pytest.mark.parametrize("name", ["site.demo", "_dnslink.site.demo", "_DNSLink.Site.DEMO"])
async def test_content_is_a_dnslink(service: Service, name: str) -> None:
    """TXT of a name, and of `_dnslink.` before it, says the CID in DNSLink's words."""
    assert records(await ask(service, name)) == [f'"dnslink=/ipfs/{CID}"']
