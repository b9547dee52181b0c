"""Who is let in: `security` in spec.yaml is checked before anything else."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from content_gateway.api_keys import mint
from tests.revoked import revoke
from tests.service import Service, running_service
from tests.waiting import eventually

CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"
KEYED = [
    ("GET", "/domain/resolve/alias.demo"),
    ("POST", f"/ipfs/pin/add/{CID}"),
    ("GET", f"/ipfs/pin/status/{CID}"),
    ("GET", "/ipfs/pin/ls"),
    ("DELETE", f"/ipfs/pin/rm/{CID}"),
]


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with running_service(tmp_path, keys__mode="issued") as service:
        yield service


async def issue(service: Service, name: str, *scopes: str, days: float | None = None) -> str:
    lifetime = None if days is None else timedelta(days=days)
    created = await service.gateway.issued_keys.create(name, scopes or ("resolve", "pin"), lifetime)
    assert created is not None
    return created[0]


async def test_every_refusal_reads_the_same(service: Service) -> None:
    """Missing, empty, doubled, malformed, unknown, expired, revoked: one 401, word for word."""
    good, revoked = await issue(service, "good"), await issue(service, "revoked")
    expired = await issue(service, "expired", days=-1)
    await revoke(service.gateway.issued_keys, "revoked")
    refused: list[list[tuple[str, str]]] = [
        [],
        [("x-api-key", "")],
        [("x-api-key", good), ("x-api-key", good)],
        [("x-api-key", good), ("X-API-Key", "")],
        [("x-api-key", "x")],
        [("x-api-key", good[:-1] + ("0" if good[-1] != "0" else "1"))],
        [("x-api-key", mint())],
        [("x-api-key", expired)],
        [("x-api-key", revoked)],
        [("x-api-key", "x" * 300)],
        [("x-api-key", "schlüssel")],
        [("x-api-key", good + "é")],
        [("authorization", f"Bearer {good}")],
    ]
    bodies = set()
    for method, path in KEYED:
        for headers in refused:
            answer = await service.ask(method, path, key=None, headers=headers)
            assert answer.status == 401, headers
            assert answer.headers["www-authenticate"].startswith("ApiKey ")
            body = answer.json
            del body["requestId"]
            bodies.add(str(body))
    assert len(bodies) == 1


async def test_the_key_comes_before_everything_else(service: Service) -> None:
    """Without a key, a wrong domain, a wrong CID and a body are not even looked at."""
    for path in ("/domain/resolve/a..b", "/domain/resolve/%00"):
        assert (await service.ask("GET", path, key=None)).status == 401
    assert (await service.ask("POST", "/ipfs/pin/add/garbage", key=None)).status == 401
    assert (await service.pin(CID, key=None, body=b"{}")).status == 401


async def test_a_key_opens_only_what_its_scopes_say(service: Service) -> None:
    """A valid key without the scope is refused with 403; with it, it is let in."""
    resolver, pinner = await issue(service, "r", "resolve"), await issue(service, "p", "pin")
    assert (await service.pin(CID, key=resolver)).status == 403
    assert (await service.resolve("alias.demo", key=pinner)).status == 403
    assert (await service.pin(CID, key=pinner)).status == 200
    assert (await service.resolve("alias.demo", key=resolver)).status == 503


async def test_a_revoked_key_is_out_within_a_second(service: Service) -> None:
    """A key that was just in use stops working soon after it is revoked."""
    key = await issue(service, "k")
    assert (await service.pin(CID, key=key)).status == 200
    await revoke(service.gateway.issued_keys, "k")

    async def is_refused() -> bool:
        return (await service.pin(CID, key=key)).status == 401

    await eventually(is_refused, seconds=10)


async def test_rotation_keeps_the_pins(service: Service) -> None:
    """After rotation the old key is out, and the new one finds the old one's pin."""
    old = await issue(service, "k")
    assert (await service.pin(CID, key=old)).json["apiKey"] == old
    new = await service.gateway.issued_keys.rotate("k")
    assert new is not None
    again = await service.pin(CID, key=new)
    assert again.json == {"message": "A pin already exists for this CID and API key"}


async def test_open_keys_are_any_printable_text(tmp_path: Path) -> None:
    """In open mode 1 to 256 printable ASCII characters name a requestor; nothing else does."""
    async with running_service(tmp_path) as service:
        for key in ("a", "x" * 256, "with blanks and ~!@#"):
            assert (await service.pin(CID, key=key)).json["apiKey"] == key
        for key in ("", "x" * 257, "schlüssel"):
            assert (await service.pin(CID, key=key)).status == 401
