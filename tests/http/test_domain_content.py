"""GET /domain/ipfs/{domain}/{path}: files of a domain, over a node and a gateway in miniature."""

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
from aiohttp import ClientError
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from content_gateway.demo.publisher import ipns_name, sign_record
from content_gateway.model.cid import Cid
from tests.cases import case
from tests.contract import Answer
from tests.fakes.ethereum import Ethereum, Name
from tests.fakes.miniature import Mood
from tests.fakes.origin import Origin
from tests.http.test_trustless import hold
from tests.service import Service, running_service
from tests.unixfs import made
from tests.waiting import eventually

LARGE = Random(1).randbytes(200_000)
PAGE = b"<!doctype html><title>A site</title>"
ABOUT = b"<!doctype html><title>About</title>"
SITE = made.directory(
    {
        "index.html": made.raw(PAGE),
        "style.css": made.raw(b"body { color: black }"),
        "empty.txt": made.raw(b""),
        "noending": made.raw(b"\x89PNG\r\n\x1a\n..."),
        "large.bin": made.file(LARGE, chunk=10_000, width=8),
        "link": made.symlink(b"style.css"),
        "about us": made.directory({"index.html": made.raw(ABOUT)}),
        "empty": made.directory({}),
    }
)


def contenthash(cid: Cid) -> bytes:
    """An IPFS content record (ENSIP-7)."""
    return bytes.fromhex("e301") + bytes(cid)


@pytest.fixture
async def service(tmp_path: Path, ethereum: Ethereum, origin: Origin) -> AsyncIterator[Service]:
    origin.blocks |= SITE[1]
    ethereum.names["site.eth"] = Name(contenthash=contenthash(SITE[0]))
    async with running_service(
        tmp_path,
        ens__rpc_urls=[ethereum.url],
        content__gateways=[origin.url],
        ipns__routers=[origin.url],
    ) as service:
        yield service


async def get(service: Service, path: str, method: str = "GET", **fields: str) -> Answer:
    headers = [(name.replace("_", "-"), value) for name, value in fields.items()]
    return await service.ask(method, f"/domain/ipfs/{path}", headers=headers)


FILES = [
    ("", "index.html", "text/html; charset=utf-8", PAGE),
    ("index.html", "index.html", "text/html; charset=utf-8", PAGE),
    ("style.css", "style.css", "text/css; charset=utf-8", b"body { color: black }"),
    ("empty.txt", "empty.txt", "text/plain; charset=utf-8", b""),
    ("noending", "noending", "image/png", b"\x89PNG\r\n\x1a\n..."),
    ("large.bin", "large.bin", "application/octet-stream", LARGE),
    ("link", "link", "inode/symlink", b"style.css"),
    ("about%20us/", "index.html", "text/html; charset=utf-8", ABOUT),
    ("about%20us%2Findex.html", "index.html", "text/html; charset=utf-8", ABOUT),
    ("//about%20us//index.html", "index.html", "text/html; charset=utf-8", ABOUT),
]


async def test_a_file_is_served_with_what_there_is_to_know_of_it(service: Service) -> None:
    """Its type, validator, roots, and for how long the name is known to show it."""
    for path, _, media_type, body in FILES:
        with case(path):
            answer = await get(service, f"site.eth/{path}")
            assert (answer.status, answer.body) == (200, body)
            assert answer.headers["content-type"] == media_type
            assert answer.headers["content-length"] == str(len(body))
            roots = answer.headers["x-ipfs-roots"].split(",")
            assert roots[0] == str(SITE[0])
            assert answer.headers["etag"] == f'"{roots[-1]}"'
            assert answer.headers["accept-ranges"] == "bytes"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["x-ipfs-path"] == f"/ipns/site.eth/{path}".replace("%2F", "/")
            lifetime = answer.headers["cache-control"].split(", ")
            assert (lifetime[0], lifetime[2]) == ("private", "stale-while-revalidate=60")
            assert 200 < int(lifetime[1].removeprefix("max-age=")) <= 300
            head = await get(service, f"site.eth/{path}", "HEAD")
            left_out = {"x-request-id", "date", "cache-control"}
            assert (head.status, head.body) == (200, b"")
            for name in answer.headers.keys() - left_out:
                assert head.headers[name] == answer.headers[name]


async def test_a_directory_has_a_slash(service: Service) -> None:
    """Without it the links of its page would lead beside it."""
    for path, place in (
        ("site.eth", "./site.eth/"),
        ("site.eth/about%20us", "./about%20us/"),
        ("site.eth/about%20us?a=1", "./about%20us/?a=1"),
    ):
        answer = await get(service, path)
        assert (answer.status, answer.body, answer.headers["location"]) == (301, b"", place)
        assert answer.headers["cache-control"].startswith("private, max-age=")


MISSING = [
    ("site.eth/nothing.html", "path-not-found"),
    ("site.eth/style.css/deeper", "path-not-found"),
    ("site.eth/empty/", "path-not-found"),
    ("site.eth/..", "path-not-found"),
    ("site.eth/%FF", "path-not-found"),
    ("site.eth/" + "a/" * 200, "path-not-found"),
    ("nobody.eth/", "domain-not-found"),
    ("alias.eth/", "path-not-found"),
]


async def test_what_is_not_there_is_said(service: Service, ethereum: Ethereum) -> None:
    """A name nobody has, one without content, a path without a file, a directory without a page."""
    ethereum.names["alias.eth"] = Name(address="0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045")
    for path, code in MISSING:
        with case(path):
            answer = await get(service, path)
            assert (answer.status, answer.json["code"]) == (404, code)


async def test_a_key_is_needed(service: Service) -> None:
    """So that no page of another name can load a script, or a worker, from our origin."""
    for method in ("GET", "HEAD"):
        answer = await service.ask(method, "/domain/ipfs/site.eth/", key=None)
        assert answer.status == 401


async def test_a_browser_runs_nothing_of_it(service: Service) -> None:
    answer = await get(service, "site.eth/")
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "DENY"


async def test_who_has_it_already_gets_nothing(service: Service) -> None:
    """By the CID of the file, which is another one as soon as a byte of it is."""
    etag = (await get(service, "site.eth/style.css")).headers["etag"]
    answer = await get(service, "site.eth/style.css", If_None_Match=f'"x", W/{etag}')
    assert (answer.status, answer.body, answer.headers["etag"]) == (304, b"", etag)
    assert (await get(service, "site.eth/index.html", If_None_Match=etag)).status == 200


PARTS = [
    ("bytes=0-0", slice(0, 1)),
    ("bytes=9999-10000", slice(9_999, 10_001)),
    ("bytes=15000-175000", slice(15_000, 175_001)),
    ("bytes=199990-", slice(199_990, None)),
    ("bytes=199990-999999", slice(199_990, None)),
    ("bytes=-7", slice(-7, None)),
]


async def test_a_part_of_a_file_is_served(service: Service, origin: Origin) -> None:
    """Its bytes, where they stand, and of the blocks only those that have them."""
    asked = len(origin.requests)
    first = await get(service, "site.eth/large.bin", Range="bytes=195000-195009")
    assert (first.status, first.body) == (206, LARGE[195_000:195_010])
    assert len(origin.requests) - asked <= 5
    for sent, part in PARTS:
        with case(sent):
            answer = await get(service, "site.eth/large.bin", Range=sent)
            assert (answer.status, answer.body) == (206, LARGE[part])
            start, stop, _ = part.indices(len(LARGE))
            assert answer.headers["content-range"] == f"bytes {start}-{stop - 1}/{len(LARGE)}"
            assert answer.headers["content-length"] == str(stop - start)


async def test_the_header_fields_are_of_the_whole(service: Service) -> None:
    """HEAD has no ranges (RFC 9110 section 14.2), not even one behind the end."""
    for sent in ("bytes=0-9", "bytes=200000-"):
        answer = await get(service, "site.eth/large.bin", "HEAD", Range=sent)
        assert (answer.status, answer.headers["content-length"]) == (200, str(len(LARGE)))
        assert "content-range" not in answer.headers


@pytest.mark.parametrize(
    "sent", ["bytes=0-1,5-6", "bytes=5-2", "bytes=x", "items=0-1", "bytes=", "bytes=--1", "bytes=-"]
)
async def test_what_is_no_range_gets_the_whole(service: Service, sent: str) -> None:
    answer = await get(service, "site.eth/style.css", Range=sent)
    assert (answer.status, answer.body) == (200, b"body { color: black }")


async def test_a_range_behind_the_end_is_refused(service: Service) -> None:
    """With the length; but an empty file has no range, and is whole."""
    for sent in ("bytes=21-", "bytes=99-100", "bytes=-0"):
        answer = await get(service, "site.eth/style.css", Range=sent)
        assert (answer.status, answer.json["code"]) == (416, "range-not-satisfiable")
        assert answer.headers["content-range"] == "bytes */21"
    assert (await get(service, "site.eth/empty.txt", Range="bytes=0-")).status == 200


async def test_a_part_of_another_file_is_the_whole(service: Service) -> None:
    """If-Range names what the client has the other parts of."""
    etag = (await get(service, "site.eth/style.css")).headers["etag"]
    for condition, status in ((etag, 206), ('"other"', 200), (f"W/{etag}", 200)):
        answer = await get(service, "site.eth/style.css", Range="bytes=0-1", If_Range=condition)
        assert answer.status == status


async def test_a_name_of_ipns_shows_what_its_record_says(
    service: Service, ethereum: Ethereum, origin: Origin
) -> None:
    """Below the path that the record has; until a record is known, that is said."""
    for domain in ("blog.eth", "unpublished.eth"):
        key = Ed25519PrivateKey.generate()
        name = ipns_name(key)
        ethereum.names[domain] = Name(contenthash=bytes.fromhex("e5010172") + name.multihash)
        if domain == "blog.eth":
            origin.records[name.text] = sign_record(key, f"/ipfs/{SITE[0]}/about us", sequence=1)
    answer = await get(service, "unpublished.eth/")
    assert (answer.status, answer.json["code"]) == (504, "upstream-timeout")
    answer = await get(service, "blog.eth/index.html")
    assert (answer.status, answer.body) == (200, ABOUT)
    assert answer.headers["x-ipfs-path"] == "/ipns/blog.eth/index.html"
    assert answer.headers["x-ipfs-roots"].count(",") == 2
    assert int(answer.headers["cache-control"].split("=")[1].split(",")[0]) <= 300


async def test_an_old_answer_is_kept_by_no_cache(
    service: Service, ethereum: Ethereum, origin: Origin
) -> None:
    """While the name service is down the site is shown, and asked about again each time."""
    await get(service, "site.eth/")
    ethereum.go_dark()
    answer = await get(service, "site.eth/", Cache_Control="no-cache")
    assert (answer.status, answer.body) == (200, PAGE)
    assert answer.headers["cache-control"] == "private, no-cache"


async def test_what_this_machine_holds_is_asked_of_nobody(
    tmp_path: Path, ethereum: Ethereum, origin: Origin
) -> None:
    """A pinned site is served while every gateway is down."""
    origin.blocks |= SITE[1]
    ethereum.names["site.eth"] = Name(contenthash=contenthash(SITE[0]))
    async with running_service(
        tmp_path, ens__rpc_urls=[ethereum.url], embedded__gateways=[origin.url]
    ) as service:
        answer = await get(service, "site.eth/style.css")
        assert (answer.status, answer.json["code"]) == (502, "content-unavailable")
        await hold(service, SITE[0])
        origin.go_dark()
        assert (await get(service, "site.eth/large.bin")).body == LARGE


async def test_wrong_bytes_are_never_served(service: Service, origin: Origin) -> None:
    """A gateway that flips a bit is found out: of a page nothing comes, of a stream no end."""
    page = made.raw(PAGE)[0]
    chunk = made.raw(LARGE[150_000:160_000])[0]
    origin.corrupt |= {page, chunk}
    answer = await get(service, "site.eth/")
    assert (answer.status, answer.json["code"]) == (502, "content-unavailable")
    with pytest.raises(ClientError):
        await get(service, "site.eth/large.bin")
    origin.corrupt.clear()
    async with service.session.get(f"{service.url}/version") as alive:
        assert alive.status == 200


@pytest.mark.parametrize(
    ("mood", "statuses"), [("dark", {503}), ("500", {504}), ("html", {502}), ("404", {502})]
)
async def test_a_gateway_that_fails_is_no_missing_file(
    service: Service, origin: Origin, mood: Mood, statuses: set[int]
) -> None:
    origin.misbehave(mood)
    answer = await get(service, "site.eth/")
    assert answer.status in statuses
    assert "retry-after" in answer.headers
    origin.come_back()


async def test_a_slow_gateway_is_not_waited_for(
    tmp_path: Path, ethereum: Ethereum, origin: Origin, other: Origin
) -> None:
    """Where another one has the block it is asked beside it; where none has, there is an end."""
    other.blocks |= SITE[1]
    origin.misbehave("hang")
    ethereum.names["site.eth"] = Name(contenthash=contenthash(SITE[0]))
    gateways = [origin.url, other.url]
    async with running_service(
        tmp_path, ens__rpc_urls=[ethereum.url], content__gateways=gateways, content__deadline=5
    ) as service:
        assert (await get(service, "site.eth/")).body == PAGE
        other.misbehave("hang")
        answer = await get(service, "site.eth/style.css")
        assert (answer.status, answer.json["code"]) == (504, "upstream-timeout")


async def test_blocked_content_is_451_at_every_block(
    tmp_path: Path, ethereum: Ethereum, origin: Origin
) -> None:
    """A file below a site that may be shown, the last chunk of a file, the name itself; whether the
    block came from a gateway, from memory, or is pinned here."""
    origin.blocks |= SITE[1]
    for name in ("site.eth", "bad.eth"):
        ethereum.names[name] = Name(contenthash=contenthash(SITE[0]))
    denylist = tmp_path / "content.deny"
    denylist.write_text("/ipns/bad.eth\n")
    async with running_service(
        tmp_path,
        ens__rpc_urls=[ethereum.url],
        content__gateways=[origin.url],
        embedded__gateways=[origin.url],
        denylist__content_file=denylist,
    ) as service:
        assert (await get(service, "bad.eth/")).status == 451
        for path in ("site.eth/large.bin", "site.eth/style.css", "site.eth/about%20us/"):
            assert (await get(service, path)).status == 200
        await hold(service, SITE[0])
        chunk = made.raw(LARGE[150_000:160_000])[0]
        blocked = [chunk, made.raw(b"body { color: black }")[0], made.raw(ABOUT)[0]]
        denylist.write_text("".join(f"/ipfs/{cid}\n" for cid in blocked))

        async def is_blocked() -> bool:
            return (await get(service, "site.eth/style.css")).status == 451

        await eventually(is_blocked)
        assert (await get(service, "site.eth/about%20us/")).status == 451
        assert (await get(service, "site.eth/")).status == 200
        # What is blocked stands two nodes below: the stream breaks off before it.
        with pytest.raises(ClientError):
            await get(service, "site.eth/large.bin")
        part = await get(service, "site.eth/large.bin", Range="bytes=155000-155001")
        assert part.status == 451


@pytest.mark.parametrize("mode", ["verified", "redirect"])
async def test_blocked_paths_are_451(
    tmp_path: Path, ethereum: Ethereum, origin: Origin, mode: str
) -> None:
    """Below the CID, or the name; also as the page of a directory. All other paths are served."""
    origin.blocks |= SITE[1]
    for name in ("site.eth", "other.eth"):
        ethereum.names[name] = Name(contenthash=contenthash(SITE[0]))
    denylist = tmp_path / "content.deny"
    denylist.write_text(
        f"/ipfs/{SITE[0]}/about%20us/index.html\n/ipfs/{SITE[0]}/li*\n/ipns/site.eth/style.css\n"
    )
    async with running_service(
        tmp_path,
        ens__rpc_urls=[ethereum.url],
        content__mode=mode,
        content__gateways=[origin.url],
        denylist__content_file=denylist,
    ) as service:
        served = 200 if mode == "verified" else 307
        for path, status in (
            ("site.eth/", served),
            ("site.eth/about%20us/index.html", 451),
            ("site.eth/about%20us//index.html/", 451),
            ("site.eth/link", 451),
            ("site.eth/style.css", 451),
            ("other.eth/style.css", served),
            ("other.eth/link", 451),
        ):
            with case(path):
                assert (await get(service, path)).status == status
        if mode == "verified":  # elsewhere it is not known what is a directory
            assert (await get(service, "site.eth/about%20us/")).status == 451


async def test_redirects_lead_to_another_gateway(
    tmp_path: Path, ethereum: Ethereum, origin: Origin
) -> None:
    """Where the operator wants no content to pass through; nobody is asked for blocks. No path
    leads out of the content, whatever browsers make of it."""
    ethereum.names["site.eth"] = Name(contenthash=contenthash(SITE[0]))
    async with running_service(
        tmp_path,
        ens__rpc_urls=[ethereum.url],
        content__mode="redirect",
        content__gateways=[origin.url],
        content__redirect_to="https://{cid}.ipfs.example{path}",
    ) as service:
        answer = await get(service, "site.eth/about%20us/%E2%9C%93?a=1")
        place = f"https://{SITE[0]}.ipfs.example/about%20us/%E2%9C%93?a=1"
        assert (answer.status, answer.headers["location"]) == (307, place)
        assert (await get(service, "site.eth")).headers["location"].endswith(".example/")
        for path in ("..", "a/..%2F..%2F..%2Fipfs%2Fother", "%2e%2e/x", "./x"):
            with case(path):
                answer = await get(service, f"site.eth/{path}")
                assert (answer.status, answer.json["code"]) == (404, "path-not-found")
        assert origin.requests == []


async def test_it_can_be_switched_off(tmp_path: Path) -> None:
    async with running_service(tmp_path, content__mode="off") as service:
        answer = await get(service, "site.eth/")
        assert (answer.status, answer.json["code"]) == (404, "not-found")
