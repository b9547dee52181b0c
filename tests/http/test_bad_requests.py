"""Bad input at the API: a clear problem, and nothing recorded."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cases import case
from tests.contract import Answer
from tests.service import Service, running_service

CID = "bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with running_service(tmp_path) as service:
        yield service


BAD_CIDS = [
    "x",
    "zQmRAQB6YaCyidP37UdDnjFY5vQuiBrcqdyoW1CuDgwxkD4",
    "QmRAQB6YaCyidP37UdDnjFY5vQuiBrcqdyoW1CuDgwxkD",
    CID + "aa",
    CID[:-2],
    "bA" + CID[2:],
    "f0170122029f2d17be6139079dc48696d1f582a8530eb9805b561eda517e22a892c7e3f1f00",
    "f0170121f29f2d17be6139079dc48696d1f582a8530eb9805b561eda517e22a892c7e3f",
    "f0199011220" + "00" * 32,
    "f015599" + "0120" + "00" * 32,
    "f01551100" + "00" * 32,
    "f81001220" + "00" * 32,
    "f0255" + "1220" + "00" * 32,
    "f0172002408011220" + "00" * 32,
    "f0155" + "00" + "8101" + "00" * 129,
    "%F0%9F%90%B8",
    "bafy%2Fbei",
    "bafy%00bei",
    "f" + "0" * 1500,
]


async def test_a_bad_cid_is_a_clear_400(service: Service) -> None:
    """Trailing bytes, wrong lengths, unknown bases, codecs and hashes: refused, nothing queued."""
    for cid in BAD_CIDS:
        with case(cid):
            answer = await service.pin(cid)
            assert (answer.status, answer.json["code"]) == (400, "invalid-cid")
            assert answer.json["detail"].endswith(".")


async def test_a_body_is_refused_wherever_it_is_sent(service: Service) -> None:
    """None of these takes a body: one that comes is refused, and nothing is done."""
    for method, path in (
        ("GET", "/version"),
        ("GET", "/spec"),
        ("GET", "/domain/resolve/a.eth"),
        ("POST", f"/ipfs/pin/add/{CID}"),
        ("GET", f"/ipfs/pin/status/{CID}"),
        ("GET", "/ipfs/pin/ls"),
        ("DELETE", f"/ipfs/pin/rm/{CID}"),
    ):
        answer = await service.ask(method, path, body=b'{"a": 1}')
        assert (answer.status, answer.json["code"]) == (400, "unexpected-body")
        assert answer.headers["connection"] == "close"
    assert (await service.pin(CID)).json["message"] == "Pin added"


@pytest.mark.parametrize(
    ("body", "media_type", "status"),
    [
        (b"{}", "application/json", 200),
        (b" {\n} ", "application/json; charset=utf-8", 200),
        (b"[]", "application/json", 400),
        (b"{}{}", "application/json", 400),
        (b"{" + b" " * 20 + b"}", "application/json", 400),
        (b"{}", "text/plain", 400),
    ],
)
async def test_an_empty_object_is_no_body(
    service: Service, body: bytes, media_type: str, status: int
) -> None:
    """Some generated clients send one wherever a method may have a body."""
    fields = [("Content-Type", media_type)]
    answer = await service.pin(CID, body=body, headers=fields)
    assert answer.status == status
    assert answer.json.get("code") == (None if status == 200 else "unexpected-body")


METHODS = ["PUT", "DELETE", "PATCH", "TRACE", "QUERY"]


async def test_a_wrong_method_is_405_everywhere(service: Service) -> None:
    """Methods that the contract does not list are refused, and Allow says which are taken."""
    for method in METHODS:
        with case(method):
            for path, allow in (
                ("/version", "GET, HEAD, OPTIONS"),
                ("/spec", "GET, HEAD, OPTIONS"),
                ("/domain/resolve/a.eth", "GET, HEAD, OPTIONS"),
                (f"/ipfs/pin/add/{CID}", "OPTIONS, POST"),
                (f"/ipfs/pin/status/{CID}", "GET, HEAD, OPTIONS"),
                ("/ipfs/pin/ls", "GET, HEAD, OPTIONS"),
            ):
                answer = await service.ask(method, path, key=None)
                assert (answer.status, answer.headers["allow"]) == (405, allow)
                assert answer.json["code"] == "method-not-allowed"
            assert (await service.ask("GET", f"/ipfs/pin/add/{CID}")).status == 405


UNKNOWN_PATHS = [
    "//",
    "/Version",
    "/version/",
    "/spec/x",
    "/domain/resolve/",
    "/address/resolve",
    "/domain/resolve/a/b",
    "/metrics",
    "/ipfs/pin/add/",
    "/docs/",
    "/assets",
    "/console/x",
    "/openapi.json",
    "/%76ersion/x",
    "/ipfs/pin/ls/",
    "/ipfs/bafkqaaa",
    "/psa.",
    "/psax/pins",
]


async def test_an_unknown_path_is_404(service: Service) -> None:
    """What the contract does not describe does not exist, with or without a key."""
    for path in UNKNOWN_PATHS:
        with case(path):
            for key in ("me", None):
                answer = await service.ask("GET", path, key=key)
                assert (answer.status, answer.json["code"]) == (404, "not-found")


async def _get_and_head(
    service: Service, path: str, key: str | None, fields: list[tuple[str, str]]
) -> tuple[Answer, Answer]:
    """The answers to both, in a moment in which what is told does not change."""
    while True:
        get = await service.ask("GET", path, key=key, headers=fields)
        head = await service.ask("HEAD", path, key=key, headers=fields)
        after = await service.ask("GET", path, key=key, headers=fields)
        if get.body == after.body or b"requestId" in get.body:
            return get, head


async def test_head_is_answered_wherever_get_is(tmp_path: Path) -> None:
    """The same status and header fields as GET has, and no body (RFC 9110 section 9.3.2); and it
    asks for a key where GET does."""
    away = {"pins__backend": "ipfs-cluster", "ipfs_cluster__urls": ["http://127.0.0.1:9"]}
    async with running_service(tmp_path, **away) as service:  # where a pin stays what it is
        assert (await service.pin(CID)).status == 200
        resolving = (
            "/",
            "/console",
            "/version",
            "/spec",
            "/domain/resolve/a.eth",
            "/domain/resolve/a..eth",
        )
        pins = ("/ipfs/pin/ls", f"/ipfs/pin/status/{CID}", "/psa/pins")
        for path in (*resolving, *pins, "/ipns/result/none", "/nowhere"):
            for key in ("me", None):
                fields = [] if key is None else [("Authorization", f"Bearer {key}")]
                get, head = await _get_and_head(service, path, key, fields)
                assert (head.status, head.body) == (get.status, b"")
                unlike = {"x-request-id", "date"}
                if b"requestId" not in get.body:
                    assert head.headers["content-length"] == str(len(get.body))
                else:
                    unlike.add("content-length")
                assert {
                    name: value for name, value in head.headers.items() if name not in unlike
                } == {name: value for name, value in get.headers.items() if name not in unlike}
        assert (await service.ask("HEAD", f"/ipfs/pin/add/{CID}")).status == 405
