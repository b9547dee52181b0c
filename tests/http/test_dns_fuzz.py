"""DNS over HTTPS for questions that nobody wrote: wire and JSON agree, other readers read every
answer, and no message, however broken, gets anything but a DNS answer or a refusal."""

import base64
from collections.abc import AsyncIterator
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
from tests.http.direct import ask_directly
from tests.service import Service, running_service
from tests.world.dns_packet import read_messages

WIRE = "application/dns-message"


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    zone = tmp_path / "zone.toml"
    zone.write_text(ZONE)
    addresses = ["192.0.2.7", "2001:db8::7"]
    async with running_service(
        tmp_path / "data", names__zone_file=zone, doh__addresses=addresses
    ) as service:
        yield service


class Asked:
    """Asks the service without sockets, and compares with the description what is of a new kind:
    the same status and fields, of which it says no more."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._known = set[Any]()

    async def get(self, query: str) -> Answer:
        answer = await ask_directly(self._service.gateway.api, "GET", f"/dns-query?{query}")
        return self._checked("GET", answer)

    async def post(self, wire: bytes) -> Answer:
        api = self._service.gateway.api
        return self._checked("POST", await ask_directly(api, "POST", "/dns-query", wire, WIRE))

    def _checked(self, method: str, answer: Answer) -> Answer:
        fields, members = answer.headers, list[Any]()
        if fields["content-type"].endswith("json"):
            members = [(name, type(value), bool(value)) for name, value in answer.json.items()]
        kind = (
            *(method, answer.status, fields["content-type"], fields["cache-control"]),
            *(frozenset(fields), *members),
        )
        if kind not in self._known:
            self._service.contract.check(method, "/dns-query", answer)
            self._known.add(kind)
        return answer


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


async def forms_agree(asked: Asked, name: str, kind: str, wants_dnssec: bool) -> bytes:
    """Check one question by GET, POST and JSON; its answer in bytes."""
    wire = wire_of(name, kind, wants_dnssec=wants_dnssec)
    text = base64.urlsafe_b64encode(wire).decode().rstrip("=")
    got = await asked.get(f"dns={text}")
    posted = await asked.post(wire)
    query = f"name={quote(name, safe='')}&type={quote(kind)}&do={int(wants_dnssec)}"
    form = await asked.get(query)
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
    asked = Asked(service)
    messages = [await forms_agree(asked, *one) for one in questions(SEED, number)]
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
    asked = Asked(service)
    for wire in mutated(SEED, number):
        with case(wire.hex()):
            answer = await asked.post(wire)
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
async def test_wire_and_json_agree_in_depth(service: Service) -> None:
    """As above, for ten thousand questions."""
    await all_agree(service, 10_000)


@pytest.mark.deep
async def test_broken_messages_in_depth(service: Service) -> None:
    """As above, for a hundred thousand messages."""
    await never_fails(service, 100_000)
