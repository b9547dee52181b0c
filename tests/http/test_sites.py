"""Sites on hosts of their own (`site.eth.example.limo`), and who asks before a certificate."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from yarl import URL

from content_gateway.http.gateway_hosts import GatewayHosts
from tests.cases import case
from tests.contract import Answer
from tests.fakes.ethereum import Ethereum, Name
from tests.fakes.miniature import Mood
from tests.fakes.origin import Origin
from tests.http.test_domain_content import ABOUT, LARGE, PAGE, SITE, contenthash
from tests.service import Service, running_service
from tests.unixfs import made

HOST = "site.eth.example.limo"


@pytest.fixture
async def service(tmp_path: Path, ethereum: Ethereum, origin: Origin) -> AsyncIterator[Service]:
    origin.blocks |= SITE[1]
    for name in ("site.eth", "a-site.eth", "räksmörgås.eth", "bad.eth"):
        ethereum.names[name] = Name(contenthash=contenthash(SITE[0]))
    ethereum.names["alias.eth"] = Name(address="0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045")
    (tmp_path / "domains").write_text("bad.eth\n")
    async with running_service(
        tmp_path,
        ens__rpc_urls=[ethereum.url],
        content__gateways=[origin.url],
        gateway__hosts=["*.example.limo", "*.localhost"],
        denylist__domains_file=tmp_path / "domains",
        cors__origins=["https://app.example"],
    ) as service:
        yield service


async def visit(
    service: Service, host: str, path: str = "/", method: str = "GET", **fields: str
) -> Answer:
    """The answer to a browser that visits *path* of *host*."""
    headers = {"Host": host} | {name.replace("_", "-"): value for name, value in fields.items()}
    async with service.session.request(
        method, URL(service.url + path, encoded=True), headers=headers, allow_redirects=False
    ) as response:
        lower = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, lower, await response.read())


async def test_a_host_shows_the_site_of_its_name(service: Service) -> None:
    """However the host is written, with a port or without; no key is asked for."""
    for host in (
        HOST,
        "SITE.ETH.Example.Limo:8443",
        "site-eth.example.limo",
        "a--site-eth.example.limo",
        "a-site.eth.example.limo",
        "xn--rksmrgs-5wao1o.eth.example.limo",
        "site.eth.localhost:8080",
        "site.eth.localhost.:8080",
    ):
        with case(host):
            answer = await visit(service, host)
            assert (answer.status, answer.body) == (200, PAGE)
            assert answer.headers["cache-control"].startswith("public, max-age=")
            assert answer.headers["access-control-allow-origin"] == "*"
            assert "content-security-policy" not in answer.headers


async def test_a_site_has_files_parts_and_directories(service: Service) -> None:
    assert (await visit(service, HOST, "/large.bin")).body == LARGE
    part = await visit(service, HOST, "/large.bin", Range="bytes=-9")
    assert (part.status, part.body) == (206, LARGE[-9:])
    answer = await visit(service, HOST, "/about%20us?x=1")
    assert (answer.status, answer.headers["location"]) == (301, "/about%20us/?x=1")
    assert (await visit(service, HOST, "/about%20us/?x=1")).body == ABOUT
    head = await visit(service, HOST, "/large.bin", "HEAD")
    assert (head.status, head.headers["content-length"], head.body) == (200, "200000", b"")
    etag = head.headers["etag"]
    assert (await visit(service, HOST, "/large.bin", If_None_Match=etag)).status == 304
    nothing = await visit(service, HOST, "/nothing")
    assert nothing.json["code"] == "path-not-found"
    assert nothing.headers["access-control-allow-origin"] == "*"


async def test_nothing_of_the_api_is_on_the_host_of_a_site(service: Service) -> None:
    """No console and no description stands beside a page of somebody else; keys change nothing."""
    for path in (
        "/version",
        "/spec",
        "/console",
        "/tls/ask",
        "/domain/resolve/site.eth",
        "/psa/pins",
    ):
        with case(path):
            answer = await visit(service, HOST, path, x_api_key="me")
            assert (answer.status, answer.json["code"]) == (404, "path-not-found")
    answer = await visit(service, HOST, "/ipfs/pin/add/x", "POST", x_api_key="me")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    answer = await visit(service, HOST, "/", "OPTIONS", Origin="https://app.example")
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (204, "*")
    async with service.session.get(f"{service.url}/", headers={"Host": HOST}, data=b"x") as sent:
        assert sent.status == 400


async def test_other_hosts_are_the_service(service: Service) -> None:
    """Also the host that the pattern stands below; and none of these is a name."""
    host = URL(service.url).authority
    assert (await visit(service, host, "/version")).status == 200
    for other in ("example.limo", "site.eth.example.com", "site.ethexample.limo"):
        # With open keys the service answers to local hosts only, and sites to theirs.
        assert (await visit(service, other, "/version")).status == 421
    for wrong in (
        "site.example.limo",
        "eth.example.limo",
        "a..eth.example.limo",
        "xn--site-.eth.example.limo",
    ):
        answer = await visit(service, wrong)
        assert (answer.status, answer.json["code"]) == (400, "invalid-domain")
    assert (await visit(service, "nobody.eth.example.limo")).json["code"] == "domain-not-found"
    assert (await visit(service, "bad.eth.example.limo")).status == 451


RULES = b"""
/old/*     /about%20us/   301
/away      https://elsewhere.example/?a=1  302
/part      /about%20us/#us   302
/app/*     /index.html    200
/broken    /nothing.html  200
/*         /sorry.html    404
"""


async def test_a_site_says_where_its_paths_lead(
    service: Service, ethereum: Ethereum, origin: Origin
) -> None:
    """By its `_redirects`: elsewhere, to a page of its own as if it were there, or as not there."""
    files = {
        "index.html": made.raw(PAGE),
        "sorry.html": made.raw(b"<!doctype html>Sorry"),
        "_redirects": made.raw(RULES),
    }
    root, blocks = made.directory(files)
    origin.blocks |= blocks
    ethereum.names["app.eth"] = Name(contenthash=contenthash(root))
    host = "app.eth.example.limo"
    answer = await visit(service, host, "/old/place?x=1")
    assert (answer.status, answer.headers["location"]) == (301, "/about%20us/?x=1")
    answer = await visit(service, host, "/away?x=1")
    assert (answer.status, answer.headers["location"]) == (
        302,
        "https://elsewhere.example/?a=1&x=1",
    )
    answer = await visit(service, host, "/part?x=1")
    assert (answer.status, answer.headers["location"]) == (302, "/about%20us/?x=1#us")
    answer = await visit(service, host, "/app/some/where")
    assert (answer.status, answer.body) == (200, PAGE)
    answer = await visit(service, host, "/index.html")
    assert (answer.status, answer.body) == (200, PAGE)
    answer = await visit(service, host, "/nowhere", If_None_Match="*", Range="bytes=0-1")
    assert (answer.status, answer.body) == (404, b"<!doctype html>Sorry")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    answer = await visit(service, host, "/broken")
    assert (answer.status, answer.json["code"]) == (404, "path-not-found")
    # Below the paths of the API a site says nothing.
    answer = await service.ask("GET", "/domain/ipfs/app.eth/old/place")
    assert (answer.status, answer.json["code"]) == (404, "path-not-found")


async def test_a_rule_may_lead_to_a_directory(
    service: Service, ethereum: Ethereum, origin: Origin
) -> None:
    """Its page stands there; a slash behind it would be a path to which the rule applies again."""
    files = {
        "docs": made.directory({"index.html": made.raw(PAGE)}),
        "_redirects": made.raw(b"/v1/* /docs 200"),
    }
    root, blocks = made.directory(files)
    origin.blocks |= blocks
    ethereum.names["docs.eth"] = Name(contenthash=contenthash(root))
    answer = await visit(service, "docs.eth.example.limo", "/v1/some/where")
    assert (answer.status, answer.body) == (200, PAGE)
    assert answer.headers["x-ipfs-path"] == "/ipns/docs.eth/docs"


async def test_rules_that_cannot_be_read_are_told(
    service: Service, ethereum: Ethereum, origin: Origin
) -> None:
    """Only where a path is not there: what is, is shown."""
    for number, rules in enumerate((b"/a", b"\xff", b"/a /b\n" * 20_000)):
        files = {"index.html": made.raw(PAGE), "_redirects": made.raw(rules)}
        root, blocks = made.directory(files)
        origin.blocks |= blocks
        ethereum.names[f"r{number}.eth"] = Name(contenthash=contenthash(root))
        host = f"r{number}.eth.example.limo"
        assert (await visit(service, host)).status == 200
        answer = await visit(service, host, "/nothing")
        assert (answer.status, answer.json["code"]) == (500, "redirects-malformed")
        assert "could not parse _redirects: " in answer.json["detail"]


async def ask(service: Service, query: str) -> int:
    answer = await service.ask("GET", f"/tls/ask{query}", key=None)
    assert answer.status in (200, 404)
    if answer.status == 404:
        assert answer.json["code"] == "no-certificate"
    return answer.status


NO = [
    "",
    "?domain=",
    "?domain=example.limo",
    "?domain=gateway.example",
    "?domain=127.0.0.1",
    "?domain=site.eth",
    "?domain=site.example.limo",
    "?domain=nobody.eth.example.limo",
    "?domain=alias.eth.example.limo",
    "?domain=bad.eth.example.limo",
    "?domain=a..eth.example.limo",
    "?domain=xn--.eth.example.limo",
    "?domain=xn--site-.eth.example.limo",
    "?domain=xn--rksmrgs-upao1o.eth.example.limo",  # RÄKSMÖRGÅS
    "?domain=xn--99999999.eth.example.limo",
    "?domain=%00.eth.example.limo",
    "?domain=*.eth.example.limo",
    f"?domain={'a.' * 200}eth.example.limo",
    f"?domain={HOST}&domain={HOST}",
    f"?domain={HOST}&other=1",
    f"?host={HOST}",
]


async def test_a_certificate_is_for_a_name_that_has_content(service: Service) -> None:
    """Yes for a host that shows a site; no for what is not ours, blocked, empty or no name, and for
    other spellings of a name, each of which would have a certificate of its own."""
    for host in (
        HOST,
        "SITE.eth.example.LIMO",
        "site-eth.example.limo",
        "xn--rksmrgs-5wao1o.eth.example.limo",
    ):
        assert await ask(service, f"?domain={host}") == 200
    for query in NO:
        with case(query):
            assert await ask(service, query) == 404
    odd = await service.ask("GET", f"/tls/ask?domain={HOST}", key=None, body=b"x")
    assert (odd.status, odd.json["code"]) == (400, "unexpected-body")


async def test_no_certificate_when_unsure(service: Service, ethereum: Ethereum) -> None:
    """A name that could not be looked up may be anybody's; one that is known is still ours."""
    assert await ask(service, f"?domain={HOST}") == 200
    moods: list[Mood] = ["dark", "html", "hang"]
    for mood in moods:
        ethereum.misbehave(mood)
        assert await ask(service, "?domain=a-site.eth.example.limo") == 404
        assert await ask(service, f"?domain={HOST}") == 200
    ethereum.come_back()
    assert await ask(service, "?domain=a-site.eth.example.limo") == 200


async def test_who_asks_for_many_names_begins_few_lookups(
    tmp_path: Path, ethereum: Ethereum
) -> None:
    """A flood of handshakes for names that do not exist costs the node so many calls a minute."""
    ethereum.names["site.eth"] = Name(contenthash=contenthash(SITE[0]))
    async with running_service(
        tmp_path,
        ens__rpc_urls=[ethereum.url],
        gateway__hosts=["*.example.limo"],
        gateway__certificates_per_minute=10,
    ) as service:
        assert await ask(service, f"?domain={HOST}") == 200
        before = ethereum.eth_calls
        for number in range(40):
            assert await ask(service, f"?domain=no{number}.eth.example.limo") == 404
        assert ethereum.eth_calls - before < 10
        assert await ask(service, f"?domain={HOST}") == 200


async def test_a_visitor_has_so_many_names_looked_up(tmp_path: Path, ethereum: Ethereum) -> None:
    """Nobody has a key here, and each name that does not exist costs a call; names that are known
    cost nothing, and are served to whoever has used that up."""
    ethereum.names["site.eth"] = Name(contenthash=contenthash(SITE[0]))
    async with running_service(
        tmp_path,
        ens__rpc_urls=[ethereum.url],
        content__mode="redirect",
        gateway__hosts=["*.example.limo"],
        gateway__lookups_per_minute=10,
    ) as service:
        assert (await visit(service, HOST)).status == 307
        before = ethereum.eth_calls
        answers = [await visit(service, f"no{n}.eth.example.limo") for n in range(12)]
        assert [answer.status for answer in answers] == [404] * 9 + [429] * 3
        assert ethereum.eth_calls - before == 9
        assert answers[-1].json["code"] == "rate-limited"
        for host in (HOST, "no1.eth.example.limo"):
            assert (await visit(service, host)).status in (307, 404)


async def test_without_hosts_there_is_nothing_to_ask(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        answer = await service.ask("GET", f"/tls/ask?domain={HOST}", key=None)
        assert (answer.status, answer.json["code"]) == (404, "not-found")


def test_a_host_is_read_as_one_name() -> None:
    """The longest pattern counts; one label holds a whole name (ipfs/specs)."""
    hosts = GatewayHosts(["*.limo", "*.example.limo"])
    for host, name in {
        "site.eth.example.limo": "site.eth",
        "site.eth.limo": "site.eth",
        "site-eth.example.limo": "site.eth",
        "my--site-eth.limo": "my-site.eth",
        "site.eth.example.limo.": "site.eth",
        "xn--rksmrgs-5wao1o.eth.limo": "räksmörgås.eth",
        "example.limo": "example",
        "limo": None,
        "site.eth": None,
        "": None,
    }.items():
        assert hosts.name_in(host) == name, host
    assert not GatewayHosts()
    assert GatewayHosts().name_in("site.eth.limo") is None
