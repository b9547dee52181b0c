"""What a running service notes of its keys: the last use, and each kind of refusal."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from content_gateway.model.audit import AuditSearch
from tests.revoked import revoke
from tests.service import Service, running_service

CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    (tmp_path / "denied").write_text(f"/ipfs/{CID}\n")
    chosen = {"keys__mode": "issued", "denylist__content_file": tmp_path / "denied"}
    async with running_service(tmp_path / "data", **chosen) as service:
        yield service


async def issue(service: Service, name: str, *scopes: str) -> str:
    created = await service.gateway.issued_keys.create(name, scopes, None)
    assert created is not None
    return created[0]


async def counted(service: Service) -> dict[tuple[str, str], int]:
    """How often each key was refused each code."""
    await service.gateway.activity.flush()
    entries = await service.gateway.ledger.search_audit(AuditSearch())
    names = {record.id: record.name for record in await service.gateway.issued_keys.all()}
    return {
        (names[entry.requestor], entry.detail): entry.number
        for entry in entries
        if entry.action == "refused"
    }


async def test_refusals_are_counted_by_key_and_code(service: Service) -> None:
    """A scope that is missing, content that is denied, a key that was revoked; on both APIs. What
    is asked with a key that nobody issued, or is wrong in itself, is no refusal of a key."""
    reader, pinner = (
        await issue(service, "reader", "resolve"),
        await issue(service, "pinner", "pin"),
    )
    gone = await issue(service, "gone", "pin")
    await revoke(service.gateway.issued_keys, "gone")
    for _ in range(3):
        assert (await service.pin(CID, key=reader)).status == 403
        assert (await service.pin(CID, key=pinner)).status == 451
        assert (await service.pin(CID, key=gone)).status == 401
    assert (await service.psa("POST", key=pinner, body={"cid": CID})).status == 451
    assert (await service.pin("nonsense", key=pinner)).status == 400
    assert (await service.pin(CID, key="nobody")).status == 401
    assert (await service.pin(CID, key=None)).status == 401
    assert await counted(service) == {
        ("reader", "scope-missing"): 3,
        ("pinner", "blocked"): 4,
        ("gone", "key-revoked"): 3,
    }


async def test_the_last_use_of_a_key_is_noted(service: Service) -> None:
    """Also where it is refused what it asked for; not of a key that is never used."""
    reader = await issue(service, "reader", "resolve")
    await issue(service, "idle", "resolve")
    assert (await service.pin(CID, key=reader)).status == 403
    await service.gateway.activity.flush()
    used, idle = await service.gateway.issued_keys.all()
    assert used.used_at is not None
    assert idle.used_at is None


async def test_pins_over_http_are_told(service: Service) -> None:
    key = await issue(service, "team", "pin")
    other = "bafkqabtimvwgy3yk"
    assert (await service.pin(other, key=key)).status == 200
    assert (await service.pin(other, key=key)).status == 200
    assert (await service.ask("DELETE", f"/ipfs/pin/rm/{other}", key=key)).status == 200
    entries = await service.gateway.ledger.search_audit(AuditSearch())
    assert [(entry.action, entry.is_operator) for entry in entries] == [
        ("unpin", False),
        ("pin", False),
        ("create", True),
    ]
