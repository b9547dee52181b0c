"""DNS over HTTPS through the whole service: what is answered, who may ask, and what is refused."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import dns.edns
import dns.flags
import dns.message
import pytest

from content_gateway.api_keys import SCOPES
from tests.cases import case
from tests.contract import Answer
from tests.dns_questions import CID, IPNS, ZONE, wire_of
from tests.fakes.ethereum import Ethereum, Name, running_ethereum
from tests.http.restarts import IPFS, SWARM, WALLET, serving
from tests.service import Service, running_service
from tests.waiting import eventually

GATEWAY = ["192.0.2.7", "2001:db8::7"]
WIRE = ("Content-Type", "application/dns-message")
NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED, BADVERS = (0, 1, 2, 3, 4, 5, 16)


@pytest.fixture
def zone(tmp_path: Path) -> Path:
    path = tmp_path / "zone.toml"
    path.write_text(ZONE)
    return path


@pytest.fixture
async def ethereum() -> AsyncIterator[Ethereum]:
    async with running_ethereum() as ethereum:
        yield ethereum


@pytest.fixture
async def service(tmp_path: Path, zone: Path, ethereum: Ethereum) -> AsyncIterator[Service]:
    names = tmp_path / "names.txt"
    names.write_text("blocked.eth\n*.org\n")
    ethereum.names["site.eth"] = Name(address=WALLET, contenthash=IPFS)
    ethereum.names["🦊.eth"] = Name(contenthash=IPFS)
    ethereum.names["blocked.eth"] = Name(contenthash=IPFS)
    ethereum.names["swarm.eth"] = Name(contenthash=SWARM)
    async with serving(
        tmp_path,
        ethereum,
        names__zone_file=zone,
        doh__addresses=GATEWAY,
        denylist__domains_file=names,
    ) as service:
        yield service


def query_of(wire: bytes, key: str = "") -> str:
    """The path that asks *wire*."""
    text = base64.urlsafe_b64encode(wire).decode().rstrip("=")
    return f"/dns-query{'/' if key else ''}{key}?dns={text}"


async def ask(service: Service, name: str, kind: str = "TXT") -> Any:
    """The DNS message that answers."""
    answer = await service.ask("GET", query_of(wire_of(name, kind)))
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/dns-message"
    return dns.message.from_wire(answer.body)


def records(message: Any) -> list[str]:
    """The records of the answer section, as text."""
    return [data.to_text() for one in message.answer for data in one]


def errors(message: Any) -> list[int]:
    """The extended errors."""
    return [int(one.code) for one in message.options if isinstance(one, dns.edns.EDEOption)]


async def test_content_is_a_dnslink(service: Service) -> None:
    """TXT of a name, and of `_dnslink.` before it, is where its content is, in DNSLink's words."""
    link = [f'"dnslink=/ipfs/{CID}"']
    for name in ("site.demo", "_dnslink.site.demo", "_DNSLink.Site.DEMO", "_dnslink.site.eth"):
        with case(name):
            assert records(await ask(service, name)) == link
    assert records(await ask(service, "_dnslink.moving.demo")) == [f'"dnslink=/ipns/{IPNS}"']


async def test_names_in_any_script_are_asked_in_ascii(service: Service) -> None:
    """Punycode, as DNS clients send it, UTF-8, and the letters themselves in the JSON form."""
    link = [f'"dnslink=/ipfs/{CID}"']
    in_ascii = "xn--" + "🦊".encode("punycode").decode()
    assert records(await ask(service, f"_dnslink.{in_ascii}.eth")) == link
    assert records(await ask(service, r"_dnslink.\240\159\166\138.eth")) == link
    form = await service.ask("GET", "/dns-query?name=%F0%9F%A6%8A.eth&type=txt")
    assert form.json["Answer"][0]["data"] == link[0]
    assert form.json["Question"][0]["name"].startswith("xn--")


async def test_addresses_are_those_of_the_gateway(service: Service) -> None:
    """A and AAAA of every name with content, of no other, and not of `_dnslink.` before it."""
    assert records(await ask(service, "site.eth", "A")) == GATEWAY[:1]
    assert records(await ask(service, "site.demo", "AAAA")) == GATEWAY[1:]
    assert len(records(await ask(service, "site.demo", "ANY"))) == 3
    for name in ("_dnslink.site.demo", "wallet.demo", "swarm.eth"):
        with case(name):
            nothing = await ask(service, name, "A")
            assert (nothing.rcode(), records(nothing)) == (NOERROR, [])


async def test_nothing_there_and_no_such_name(service: Service) -> None:
    """NODATA where the name exists, NXDOMAIN where the directory says that it does not; both with
    the SOA whose minimum is how long that is known."""
    for name, kind, code in (
        ("wallet.demo", "TXT", NOERROR),
        ("site.eth", "MX", NOERROR),
        ("swarm.eth", "TXT", NOERROR),
        ("eth", "TXT", NOERROR),
        ("nobody.eth", "TXT", NXDOMAIN),
        ("_dnslink.nobody.demo", "TXT", NXDOMAIN),
        (r"no\032blanks.eth", "TXT", NXDOMAIN),
    ):
        with case(name, kind):
            answer = await service.ask("GET", query_of(wire_of(name, kind)))
            message = dns.message.from_wire(answer.body)
            assert (message.rcode(), message.answer) == (code, [])
            (soa,) = message.authority
            assert soa[0].minimum == soa.ttl
            assert message.question[0].name.is_subdomain(soa.name)
            assert answer.headers["cache-control"] == f"private, max-age={soa.ttl}"


async def test_an_outage_is_never_absence(service: Service, ethereum: Ethereum) -> None:
    """SERVFAIL that nobody keeps, with the extended error for it; what is known is served on."""
    await ask(service, "site.eth")
    ethereum.go_dark()
    for path in (query_of(wire_of("other.eth")), "/dns-query?name=other.eth&type=TXT"):
        answer = await service.ask("GET", path)
        assert answer.status == 200
        assert answer.headers["cache-control"] == "no-store"
    assert answer.json["Status"] == SERVFAIL
    assert answer.json["Comment"]
    assert errors(await ask(service, "other.eth")) == [22]
    assert records(await ask(service, "site.eth")) == [f'"dnslink=/ipfs/{CID}"']


async def test_what_is_not_ours_or_blocked_is_refused(service: Service) -> None:
    """REFUSED with the extended error that says why; NXDOMAIN would be a lie."""
    for name, why in (
        *(("example.com", 18), ("www.example.net", 18), (".", 18), ("com", 18)),
        ("site.gno", 18),  # Gnosis is not asked
        *(("blocked.eth", 15), ("_dnslink.blocked.eth", 15)),
    ):
        with case(name):
            message = await ask(service, name)
            assert (message.rcode(), errors(message)) == (REFUSED, [why])


async def test_a_name_of_dns_is_ours_where_the_zone_file_lists_it(service: Service) -> None:
    """As the operator says so; no name beside it is."""
    assert records(await ask(service, "_dnslink.www.example.com"))
    assert (await ask(service, "other.example.com")).rcode() == REFUSED


async def post(service: Service, wire: bytes, *fields: tuple[str, str]) -> Answer:
    return await service.ask("POST", "/dns-query", headers=fields or [WIRE], body=wire)


def header(ident: int = 7, flags: int = 0x0100, *counts: int) -> bytes:
    """A header, for one question unless *counts* says more."""
    return b"".join(
        number.to_bytes(2, "big") for number in (ident, flags, *(counts or (1, 0, 0, 0)))
    )


NAME = b"\x04site\x04demo\x00"
TXT_IN = b"\x00\x10\x00\x01"


@pytest.mark.parametrize(
    ("wire", "code"),
    [
        pytest.param(header() + NAME + TXT_IN, NOERROR, id="sound"),
        pytest.param(header(), FORMERR, id="no question"),
        pytest.param(header(7, 0, 0, 0, 0, 0), FORMERR, id="none announced"),
        pytest.param(header(7, 0, 2, 0, 0, 0) + (NAME + TXT_IN) * 2, FORMERR, id="two"),
        pytest.param(header() + NAME + TXT_IN + b"\0", FORMERR, id="a byte behind"),
        pytest.param(header() + b"\xc0\x0c" + TXT_IN, FORMERR, id="a pointer to itself"),
        pytest.param(header() + b"\xc0\x0e\xc0\x0c" + TXT_IN, FORMERR, id="a loop"),
        pytest.param(header() + b"\x01a\xc0\x0c" + TXT_IN, FORMERR, id="a loop through a label"),
        pytest.param(header() + b"\x3f" + b"a" * 63 + b"\0", FORMERR, id="cut off"),
        pytest.param(header() + (b"\x3f" + b"a" * 63) * 4 + b"\0" + TXT_IN, FORMERR, id="256"),
        pytest.param(header() + b"\x40a" + TXT_IN, FORMERR, id="a reserved label"),
        pytest.param(header() + NAME + TXT_IN + b"\0" * 65_000, FORMERR, id="64 KiB"),
        pytest.param(header(7, 0, 1, 0, 0, 0xFFFF) + NAME + TXT_IN, FORMERR, id="many records"),
        pytest.param(
            header(7, 0, 1, 0, 0, 1) + NAME + TXT_IN + b"\0\xff\0\x12\x34\0\0\0\0\0\0",
            FORMERR,
            id="another record than EDNS",
        ),
        pytest.param(header() + NAME + b"\x00\x10\x00\x03", REFUSED, id="class CH"),
        pytest.param(header() + NAME + b"\x00\xfc\x00\x01", NOTIMP, id="a transfer"),
        pytest.param(header() + NAME + b"\x00\x29\x00\x01", FORMERR, id="OPT as a question"),
        pytest.param(header(7, 0x2800) + NAME + TXT_IN, NOTIMP, id="an update"),
        pytest.param(
            header(7, 0, 1, 0, 0, 1) + NAME + TXT_IN + b"\0\0\x29\x04\xd0\0\x01\0\0\0\0",
            BADVERS,
            id="EDNS 1",
        ),
        pytest.param(
            header(7, 0, 1, 0, 0, 2) + NAME + TXT_IN + b"\0\0\x29\x04\xd0\0\0\0\0\0\0" * 2,
            FORMERR,
            id="EDNS twice",
        ),
    ],
)
async def test_what_is_wrong_with_a_message_is_said_in_dns(
    service: Service, wire: bytes, code: int
) -> None:
    """With its id, by the code that DNS has for it."""
    answer = await post(service, wire)
    assert answer.status == 200
    message = dns.message.from_wire(answer.body)
    assert (message.id, message.rcode()) == (7, code)
    assert message.flags & dns.flags.QR


async def test_a_name_of_255_octets_is_a_name(service: Service) -> None:
    """The longest that DNS has; one octet more is FORMERR."""
    longest = (b"\x3d" + b"a" * 61) * 3 + b"\x3e" + b"a" * 62 + b"\x04demo\0"
    assert len(longest) == 255
    said = [
        dns.message.from_wire((await post(service, header() + name + TXT_IN)).body).rcode()
        for name in (longest, b"\x3e" + b"a" * 62 + longest[62:])
    ]
    assert said == [NXDOMAIN, FORMERR]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/dns-query", "invalid-query"),
        ("/dns-query?dns=", "invalid-query"),
        ("/dns-query?dns=A", "invalid-query"),
        ("/dns-query?dns=AAAB%3D%3D", "invalid-query"),
        ("/dns-query?dns=A+/A", "invalid-query"),
        ("/dns-query?dns=AAAB&name=site.demo", "invalid-query"),
        ("/dns-query?dns=AAAB&dns=AAAB", "invalid-query"),
        ("/dns-query?name=site.demo&type=NONSENSE", "invalid-query"),
        ("/dns-query?name=site.demo&type=65536", "invalid-query"),
        ("/dns-query?name=site.demo&type=0", "invalid-query"),
        ("/dns-query?name=site.demo&do=perhaps", "invalid-query"),
        ("/dns-query?name=a..demo", "invalid-query"),
        (f"/dns-query?name={'a' * 64}.demo", "invalid-query"),
        (f"/dns-query?name={'%C3%BC' * 64}.demo", "invalid-query"),
        (f"/dns-query?name={'a.' * 513}demo", "invalid-query"),
        ("/dns-query?name=site.demo&colour=red", "invalid-query"),
    ],
)
async def test_what_is_no_dns_is_400(service: Service, path: str, code: str) -> None:
    """A problem document, as there is no message that an answer could be to."""
    answer = await service.ask("GET", path)
    assert (answer.status, answer.json["code"]) == (400, code)


async def test_bodies_that_are_no_question_are_refused(service: Service) -> None:
    """By HTTP: another media type, too much, none, and what is no question."""
    sound = wire_of("site.demo")
    assert (await post(service, sound, ("Content-Type", "application/json"))).status == 415
    assert (await post(service, sound, ("Content-Type", "application/dns-json"))).status == 415
    assert (await post(service, b"\0" * 65_537)).status == 413
    assert (await post(service, b"")).status == 400
    assert (await post(service, b"\0" * 11)).status == 400
    assert (await post(service, header(7, 0x8180) + NAME + TXT_IN)).status == 400
    other = await service.ask("PUT", "/dns-query", headers=[WIRE], body=sound)
    assert (other.status, other.headers["allow"]) == (405, "GET, HEAD, OPTIONS, POST")


async def test_the_id_is_the_client_s(service: Service) -> None:
    """0, as RFC 8484 advises for caches, or any other."""
    for ident in (0, 1, 0xBEEF):
        answer = await post(service, wire_of("site.demo", ident=ident))
        assert dns.message.from_wire(answer.body).id == ident


async def test_edns_is_answered_with_edns(service: Service) -> None:
    """With the DO bit as it was sent; without EDNS there is none, and no extended error."""
    answer = await post(service, wire_of("example.com", wants_dnssec=True))
    message = dns.message.from_wire(answer.body)
    assert (message.edns, bool(message.ednsflags & dns.flags.DO)) == (0, True)
    plain = dns.message.from_wire((await post(service, header() + NAME + TXT_IN)).body)
    assert plain.edns == -1


async def test_head_is_as_get(service: Service) -> None:
    """Its fields, and no body."""
    answer = await service.ask("HEAD", query_of(wire_of("site.demo")))
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-type"] == "application/dns-message"


@pytest.fixture
async def issued(tmp_path: Path, zone: Path) -> AsyncIterator[Service]:
    async with running_service(
        tmp_path / "issued", keys__mode="issued", names__zone_file=zone
    ) as service:
        yield service


async def test_a_key_comes_in_the_header_or_the_path(issued: Service) -> None:
    """Either lets in, with the scope `resolve`; a wrong one does not, and none does not."""
    keys = issued.gateway.issued_keys
    key, _ = await keys.create("reader", ["resolve"], None) or ("", None)
    pinner, _ = await keys.create("pinner", [one for one in SCOPES if one != "resolve"], None) or (
        "",
        None,
    )
    wire = wire_of("site.demo")
    assert (await issued.ask("GET", query_of(wire), key=key)).status == 200
    assert (await issued.ask("GET", query_of(wire, key), key=None)).status == 200
    in_path = await issued.ask("POST", f"/dns-query/{key}", key=None, headers=[WIRE], body=wire)
    assert in_path.status == 200
    for path, header_key, status in (
        (query_of(wire), None, 401),
        (query_of(wire), "wrong", 401),
        (query_of(wire), "", 401),
        (query_of(wire, "wrong"), None, 401),
        (query_of(wire, "wrong"), key, 401),
        (query_of(wire, pinner), None, 403),
        (query_of(wire), pinner, 403),
    ):
        with case(path, header_key):
            assert (await issued.ask("GET", path, key=header_key)).status == status


async def test_everybody_may_ask_where_the_operator_says_so(tmp_path: Path, zone: Path) -> None:
    """Without a key, as often as the limit of an address allows; shared caches may keep that, and
    what was answered to a key they may not. A key has limits of its own."""
    async with running_service(
        tmp_path / "data", names__zone_file=zone, doh__open=True, doh__requests_per_minute=3
    ) as service:
        path = query_of(wire_of("site.demo"))
        answers = [await service.ask("GET", path, key=None) for _ in range(4)]
        assert [answer.status for answer in answers] == [200, 200, 200, 429]
        assert answers[0].headers["cache-control"] == "max-age=30"
        assert int(answers[3].headers["retry-after"]) > 0
        keyed = await service.ask("GET", path)
        assert (keyed.status, keyed.headers["cache-control"]) == (200, "private, max-age=30")
        # No other operation is opened by it.
        assert (await service.resolve("site.demo", key=None)).status == 401


async def test_behind_a_trusted_proxy_each_client_has_its_limit(tmp_path: Path, zone: Path) -> None:
    """Of IPv6 each /64; what a client says of itself before the proxy's word counts for nothing."""
    async with running_service(
        tmp_path / "data",
        names__zone_file=zone,
        doh__open=True,
        doh__requests_per_minute=1,
        trusted_proxies=["127.0.0.0/8"],
    ) as service:

        async def status(forwarded: str) -> int:
            fields = [("X-Forwarded-For", forwarded)]
            path = query_of(wire_of("site.demo"))
            return (await service.ask("GET", path, key=None, headers=fields)).status

        assert [await status("192.0.2.1"), await status("192.0.2.2")] == [200, 200]
        assert [await status("192.0.2.9, 192.0.2.1"), await status("nonsense")] == [429, 200]
        assert [await status("2001:db8::1"), await status("2001:db8::2:1")] == [200, 429]


async def test_an_edit_of_the_zone_file_shows(service: Service, zone: Path) -> None:
    """An edit of the zone file is in DNS as soon as it is here, and clients hear of it within the
    short time that is said of such names."""
    zone.write_text(ZONE.replace('"site.demo"', '"other.demo"'))
    await eventually(lambda: _is_gone(service))
    assert records(await ask(service, "other.demo"))


async def _is_gone(service: Service) -> bool:
    code: int = (await ask(service, "site.demo")).rcode()
    return code == NXDOMAIN
