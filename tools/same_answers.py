"""`make same-answers BEFORE=DIR`: do this checkout and another one answer alike, byte for byte?

DIR holds another revision with a `.venv` of its own (`make setup` there). Both serve the same
demonstration and get the same requests in the same order; what is of the moment (dates, request
ids, ports) is masked. Prints each difference and fails if there is one.
"""

import asyncio
import contextlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.servers import Started, service

ROOT: Final = "bafybeihjn6ouxuk5ott4qyyzqbuoudefi6yxyxjppiwjh5wk2qrit5qahi"
_V0: Final = "QmdfTbBqBPQ7VNxZEYEj14VmRuZBkqFbiwReogJgS1zR1n"
_EMPTY: Final = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"
_PEER_KEY: Final = "k51qzi5uqu5dgutdk6i1ynyzgkqngpha5xpgia3a5qqp4jsh0u4csozksxel2r"
_UUID: Final = "00000000-0000-4000-8000-000000000000"

_MASKS: Final = (
    (rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", b"<moment>"),
    (rb"(?i)(\r\ndate: )[^\r]+", rb"\1<date>"),
    (rb"(?i)(\r\nretry-after: )\d+", rb"\1<seconds>"),
    (rb"(?i)(\r\nage: )\d+", rb"\1<seconds>"),
    (rb"(ttl=)-?\d+", rb"\1<seconds>"),
    (rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", b"<id>"),
    (rb'("requestId": ?")[^"]+', rb"\1<id>"),
    (rb'("(requestid|taskId)":")[0-9a-f]+-', rb"\1<moment>-"),
    (rb"(?i)(\r\nx-request-id: )[^\r]+", rb"\1<id>"),
    (rb"(127\.0\.0\.1|localhost):\d+", rb"\1:<port>"),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request; *body* is sent with its length."""

    method: str
    path: str
    fields: tuple[str, ...] = ("x-api-key: me",)
    body: bytes | None = None

    def wire(self) -> bytes:
        """Its bytes on a connection that ends with the answer."""
        lines = [f"{self.method} {self.path} HTTP/1.1", "Host: localhost", "Connection: close"]
        lines += self.fields
        if self.body is not None:
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*lines, "", ""]).encode() + (self.body or b"")


_JSON: Final = "content-type: application/json"
_BEARER: Final = "authorization: Bearer me"

_DOMAINS: Final = (
    *("site.demo", "alias.demo", "blog.demo", "SITE.demo", "nobody.demo", "demo", "a.b.site.demo"),
    *("vitalik.eth", "wallet.crypto", "name.base.eth", "example.com", "-", ".", "..demo", "a..b"),
    *("%00.eth", "%FF.eth", "caf%C3%A9.eth", "x" * 64 + ".eth", "a" * 256 + ".eth"),
    *("a." * 511 + "demo", "xn--caf-dma.demo", "%F0%9F%98%80.demo", "site.demo.", "site%2Edemo"),
    *("site%20.demo", "[aa].eth", "_x.demo", "site.demo%2F", "0x1234", "%E2%80%8D.demo"),
)
_CIDS: Final = (
    *(ROOT, ROOT.upper(), "f" + "01701220" + "e9" * 32, _V0, _EMPTY, "QmTooShort", "bafy", "-"),
    *("%00", "z" * 200, "b" * 2000, "1" * 46, "bafkqaaa", "bafkqabtimvwgy3yk", _PEER_KEY),
    *("f0155002", "f01551400", "f0155122000", "B" + ROOT[1:].upper(), "M" + ROOT[1:], ROOT + "a"),
    *(ROOT + "/index.html", ROOT + "%2Findex.html", "uAXASIA", "m", "9" * 50),
)
_QUERIES: Final = ("?x=1", "?coinType=", "?coinType=60&coinType=60", "?", "?%00=1", "?a=%FF", "?&&")
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW")
_PATHS: Final = (
    *("/", "/version", "/spec", "/domain/resolve/site.demo", "/domain/records/site.demo"),
    *(f"/ipns/resolve/{_PEER_KEY}", "/ipns/result/unknown", f"/ipfs/pin/add/{_V0}", "/ipfs/pin/ls"),
    *(f"/ipfs/pin/status/{_V0}", f"/ipfs/pin/rm/{_EMPTY}", "/psa/pins", f"/psa/pins/{_UUID}"),
    *(
        f"/ipfs/{ROOT}?format=raw",
        "/nowhere",
        "/version/",
        "//version",
        "/ipfs/pin",
        "/%2e%2e/spec",
    ),
)
_KEYS: Final = (
    *((), ("x-api-key:",), ("x-api-key: a", "x-api-key: b"), ("x-api-key: " + "k" * 257,)),
    *(("x-api-key: \tme ",), ("x-api-key: m\x7fe",), (_BEARER,), ("authorization: Basic bWU6",)),
    *(("x-api-key: me", _BEARER), ("authorization: bearer  me",), ("x-api-key: cgk_wrong",)),
    *((f"x-api-key: cgk_{'a' * 32}000000",), ("authorization: Bearer",)),
)


def _open_requests() -> Iterator[Asked]:
    """What is asked where any key goes."""
    for method in _METHODS:
        yield from (Asked(method, path) for path in _PATHS)
    for domain in _DOMAINS:
        yield Asked("GET", f"/domain/resolve/{domain}")
        yield Asked("GET", f"/domain/records/{domain}")
    for query in _QUERIES:
        yield Asked("GET", f"/domain/resolve/site.demo{query}")
        yield Asked("GET", f"/ipfs/pin/ls{query}")
        yield Asked("GET", f"/psa/pins{query}", (_BEARER,))
        yield Asked("GET", f"/version{query}")
    for coin in ("60", "0", "2", "3", "501", "2147483658", "2147492101", "4294967296", "-1", "x"):
        yield Asked("GET", f"/domain/resolve/site.demo?coinType={coin}")
    for cid in _CIDS:
        yield Asked("POST", f"/ipfs/pin/add/{cid}")
        yield Asked("POST", f"/ipfs/pin/add/{cid}")
        yield Asked("DELETE", f"/ipfs/pin/rm/{cid}")
        yield Asked("POST", f"/ipns/resolve/{cid}")
        yield Asked("GET", f"/ipfs/{cid}?format=car")
    for fields in _KEYS:
        yield Asked("GET", "/domain/resolve/site.demo", fields)
        yield Asked("GET", "/psa/pins", fields)
    for query in ("status=failed", "status=wrong", "limit=0", "limit=1001", "cursor=x", "limit=1"):
        yield Asked("GET", f"/ipfs/pin/ls?{query}")
    for query in (
        *(f"cid={ROOT}", "cid=x", "name=a&match=partial", "match=wrong", "status=pinned,failed"),
        *("limit=0", "limit=1001", "before=x", "after=2020-01-01T00:00:00Z", 'meta={"a":"b"}'),
        *("meta=x", "status=", f"cid={','.join([ROOT] * 11)}", "name=" + "n" * 300),
    ):
        yield Asked("GET", f"/psa/pins?{query}", (_BEARER,))
    for body in (
        *(b"", b"{", b"[]", b"{}", b'{"cid":1}', b'{"cid":"x"}', b'{"cid":"%s"}' % _EMPTY.encode()),
        *(b'{"cid":"bafkqaaa","name":"n","meta":{"a":"b"}}', b'{"cid":"bafkqaaa","origins":["x"]}'),
        *(b'{"cid":"bafkqaaa","meta":{"a":1}}', b'{"cid":"bafkqaaa","name":1}', b"\xff", b"null"),
        *(b'{"cid":"bafkqaaa","more":1}', b"[" * 2000, b'{"cid":"%s"}' % (b"b" * 9000)),
    ):
        yield Asked("POST", "/psa/pins", (_BEARER, _JSON), body)
        yield Asked("POST", f"/psa/pins/{_UUID}", (_BEARER, _JSON), body)
        yield Asked("POST", f"/ipfs/pin/add/{ROOT}", ("x-api-key: me", _JSON), body)
    for fields in (
        *(
            ("host: other",),
            ("accept: text/html",),
            ("expect: 100-continue",),
            ("x" * 9000 + ": y",),
        ),
        *(("if-none-match: *",), ('if-none-match: "x"',), ("range: bytes=0-3",), ("no colon",)),
        *(("origin: https://app.example",), ("transfer-encoding: chunked",), ("upgrade: h2c",)),
        *(
            ("cache-control: no-cache",),
            ("content-length: x",),
            (" folded: x",),
            ("x-request-id: 1",),
        ),
    ):
        yield Asked("GET", "/version", fields)
        yield Asked("GET", "/domain/resolve/site.demo", ("x-api-key: me", *fields))
    for query in (
        "",
        "?format=raw",
        "?format=car",
        "?format=zip",
        "?dag-scope=all",
        "?entity-bytes=x",
    ):
        yield Asked("GET", f"/ipfs/{ROOT}{query}")
        yield Asked("HEAD", f"/ipfs/{_EMPTY}{query}", ("accept: application/vnd.ipld.raw",))
        yield Asked("GET", f"/ipfs/{ROOT}{query}", ("accept: application/vnd.ipld.car;version=1",))


def _issued_requests() -> Iterator[Asked]:
    """What is asked where keys are issued, with none of them."""
    for path in _PATHS:
        yield from (Asked("GET", path, fields) for fields in _KEYS)


async def main(other: Path) -> int:
    """Compare, and say how many answers differ."""
    python = str(other / ".venv" / "bin" / "python")
    more = {"CONTENT_GATEWAY_EMBEDDED__SERVE": "true"}
    asked, different = 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with service(folder / "seed", python=python):  # the key of its IPNS name, once
            pass
        for mode, requests in (("open", _open_requests), ("issued", _issued_requests)):
            for who in ("before", "after"):
                shutil.copytree(folder / "seed", folder / who / mode)
            settings = {**more, "CONTENT_GATEWAY_KEYS__MODE": mode}
            async with (
                service(folder / "before" / mode, settings, python=python) as before,
                service(folder / "after" / mode, settings) as after,
            ):
                for server in (before, after):
                    await _pinned(server)
                for one in requests():
                    asked += 1
                    answers = [await _answer(server, one) for server in (before, after)]
                    if answers[0] != answers[1]:
                        different += 1
                        print(
                            f"{one.wire()!r:.300}\n- {answers[0]!r:.2000}\n+ {answers[1]!r:.2000}"
                        )
    print(f"{asked} requests, {different} answered otherwise")
    return different


async def _pinned(server: Started) -> None:
    """Have the site pinned, so that what is told of it no longer changes."""
    await _answer(server, Asked("POST", f"/ipfs/pin/add/{ROOT}", ("x-api-key: first",)))
    for _ in range(100):
        status = Asked("GET", f"/ipfs/pin/status/{ROOT}", ("x-api-key: first",))
        if b'"pinned"' in (answer := await _answer(server, status)) or b" 401 " in answer[:20]:
            return
        await asyncio.sleep(0.1)
    raise SystemExit("the demonstration's site was not pinned in ten seconds")


async def _answer(server: Started, one: Asked) -> bytes:
    """All bytes that *server* answers, without what is of the moment."""
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        with contextlib.suppress(ConnectionError):
            writer.write(one.wire())
            await writer.drain()
        answer = b""
        with contextlib.suppress(ConnectionError):
            answer = await reader.read(-1)
        writer.close()
    for pattern, mask in _MASKS:
        answer = re.sub(pattern, mask, answer)
    return answer


if __name__ == "__main__":
    sys.exit(bool(asyncio.run(main(Path(sys.argv[1])))))
