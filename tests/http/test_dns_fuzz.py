"""DNS over HTTPS for questions that nobody wrote: wire and JSON agree, other readers read every
answer, and no message, however broken, gets anything but a DNS answer or a refusal."""

import asyncio
import base64
from collections.abc import AsyncIterator
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import dns.message
import dns.rdatatype
import pytest

from tests.cases import case
from tests.chance import SEED
from tests.contract import Answer
from tests.dns_questions import ZONE, mutated, questions, wire_of
from tests.http.direct import post_directly
from tests.service import Service, running_service
from tests.world.dns_packet import read_messages

WIRE = ("Content-Type", "application/dns-message")
AT_ONCE = 20


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    zone = tmp_path / "zone.toml"
    zone.write_text(ZONE)
    addresses = ["192.0.2.7", "2001:db8::7"]
    async with running_service(
        tmp_path / "data", names__zone_file=zone, doh__addresses=addresses
    ) as service:
        yield service


async def post(service: Service, wire: bytes) -> Answer:
    return await service.ask("POST", "/dns-query", headers=[WIRE], body=wire)


def records(sets: Any) -> list[dict[str, Any]]:
    """What the JSON form should say of a section."""
    return [
        {
            "name": one.name.to_text(),
            "type": int(one.rdtype),
            "TTL": one.ttl,
            "data": data.to_text(),
        }
        for one in sets
        for data in one
    ]


async def forms_agree(service: Service, name: str, kind: str, wants_dnssec: bool) -> bytes:
    """Check one question by GET, POST and JSON; its answer in bytes."""
    wire = wire_of(name, kind, wants_dnssec=wants_dnssec)
    text = base64.urlsafe_b64encode(wire).decode().rstrip("=")
    got = await service.ask("GET", f"/dns-query?dns={text}")
    posted = await post(service, wire)
    query = f"name={quote(name, safe='')}&type={quote(kind)}&do={int(wants_dnssec)}"
    form = await service.ask("GET", f"/dns-query?{query}")
    with case(name, kind):
        assert (got.status, got.body) == (posted.status, posted.body) == (200, posted.body)
        assert form.status == 200
        read = dns.message.from_wire(got.body)
        assert form.json["Status"] == read.rcode()
        assert form.json["Question"] == [
            {"name": one.name.to_text(), "type": int(one.rdtype)} for one in read.question
        ]
        assert form.json.get("Answer", []) == records(read.answer)
        assert form.json.get("Authority", []) == records(read.authority)
        lasting = [one.ttl for one in [*read.answer, *read.authority]]
        freshness = f"private, max-age={min(lasting)}" if lasting else "no-store"
        for answer in (got, posted, form):
            assert answer.headers["cache-control"] == freshness
        assert bool(lasting) == (read.rcode() in (0, 3))
    return got.body


async def all_agree(service: Service, number: int) -> None:
    """Check so many questions, and have dns-packet read every answer."""
    asked, messages = questions(SEED, number), list[bytes]()
    while some := list(islice(asked, AT_ONCE)):
        messages += await asyncio.gather(*(forms_agree(service, *one) for one in some))
    assert len(messages) == number
    for message, other in zip(messages, await read_messages(messages), strict=True):
        read = dns.message.from_wire(message)
        with case(read.question):
            assert other["id"] == read.id
            said = sorted(record[1:3] for record in other["answers"])
            ours = [
                [dns.rdatatype.to_text(one.rdtype), one.ttl] for one in read.answer for _ in one
            ]
            assert said == sorted(ours)
            links = {data for _, kind, _, data in other["answers"] if kind == "TXT"}
            assert all(link.startswith("dnslink=/ip") for link in links)
            minimums = [soa[0].minimum for soa in read.authority]
            assert [record[3] for record in other["authorities"]] == minimums


async def never_fails(service: Service, number: int) -> None:
    """Send so many broken messages, without a connection that could break as well."""
    api = service.gateway.api
    for wire in mutated(SEED, number):
        answer = await post_directly(api, "/dns-query", wire, "application/dns-message")
        with case(wire.hex()):
            service.contract.check("POST", "/dns-query", answer)
            if answer.status == 400:
                # Not even its header is that of a question.
                assert len(wire) < 12 or wire[2] & 0x80
            else:
                assert answer.status == 200
                assert answer.body[:2] == wire[:2]
                assert dns.message.from_wire(answer.body).flags & dns.flags.QR


async def test_wire_and_json_agree(service: Service) -> None:
    """GET, POST and JSON say the same, and dnspython and dns-packet read the same in it."""
    await all_agree(service, 500)


async def test_broken_messages_get_a_dns_answer_or_a_refusal(service: Service) -> None:
    """Whatever was done to a message, its sender hears DNS, or 400 where it is no question."""
    await never_fails(service, 2_000)


@pytest.mark.deep
@pytest.mark.timeout(1800)
async def test_wire_and_json_agree_in_depth(service: Service) -> None:
    """As above, for ten thousand questions."""
    await all_agree(service, 10_000)


@pytest.mark.deep
@pytest.mark.timeout(3600)
async def test_broken_messages_in_depth(service: Service) -> None:
    """As above, for a hundred thousand messages."""
    await never_fails(service, 100_000)
