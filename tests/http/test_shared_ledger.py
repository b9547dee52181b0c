"""Two services on one ledger in PostgreSQL: what one of them answers, the other knows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from content_gateway.model.records import Records, Resolved
from content_gateway.model.wallet import ETHEREUM
from tests.ledgers import cid
from tests.service import Service, running_service
from tests.waiting import eventually
from tests.world import postgres

CID = "bafkqabtimvwgy3yk"
OTHER = str(cid(1))
NOBODY: dict[str, Any] = {
    "pins__backend": "ipfs-cluster",
    "ipfs_cluster__urls": ["http://127.0.0.1:9"],
    "keys__mode": "issued",
}


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[tuple[Service, Service]]:
    """Two services, as on two machines: each with a folder of its own."""
    url = postgres.shared("15").new_ledger()
    async with AsyncExitStack() as stack:
        yield tuple(  # type: ignore[misc]
            [
                await stack.enter_async_context(
                    running_service(tmp_path / name, database__url=url, **NOBODY)
                )
                for name in ("one", "other")
            ]
        )


async def issue(service: Service, name: str = "team") -> str:
    created = await service.gateway.issued_keys.create(name, ["resolve", "pin"], None)
    assert created is not None
    return created[0]


async def test_a_key_and_its_pins_are_known_to_both(both: tuple[Service, Service]) -> None:
    one, other = both
    key = await issue(one)
    assert (await one.pin(CID, key=key)).json["message"] == "Pin added"
    assert "already exists" in (await other.pin(CID, key=key)).json["message"]
    assert (await other.ask("GET", f"/ipfs/pin/status/{CID}", key=key)).status == 200
    assert (await other.ask("GET", "/ipfs/pin/ls", key=key)).json["count"] == 1
    assert (await other.ask("GET", "/key", key=key)).json["result"]["pins"] == 1
    assert (await other.ask("DELETE", f"/ipfs/pin/rm/{CID}", key=key)).status == 200
    assert (await one.ask("GET", f"/ipfs/pin/status/{CID}", key=key)).status == 404


async def test_of_one_request_at_both_one_pin_is_made(both: tuple[Service, Service]) -> None:
    key = await issue(both[0])
    answers = await asyncio.gather(*(both[n % 2].pin(CID, key=key) for n in range(64)))
    assert all(answer.status == 200 for answer in answers)
    assert sum("Pin added" in answer.json["message"] for answer in answers) == 1


async def test_a_revoked_key_ends_everywhere(both: tuple[Service, Service]) -> None:
    """Within the second for which a key is remembered."""
    one, other = both
    key = await issue(one)
    assert (await other.ask("GET", "/key", key=key)).status == 200
    (record,) = await one.gateway.issued_keys.all()
    assert await one.gateway.issued_keys.revoke(record.id)

    async def is_refused() -> bool:
        return (await other.ask("GET", "/key", key=key)).status == 401

    await eventually(is_refused)


async def test_the_pinning_service_api_is_the_same_at_both(both: tuple[Service, Service]) -> None:
    """A pin made here is replaced and removed there."""
    one, other = both
    key = await issue(one)
    made = await one.psa("POST", key=key, body={"cid": CID, "name": "site", "meta": {"a": "b"}})
    assert made.status == 202
    waiting = "/pins?status=queued&meta=%7B%22a%22%3A%22b%22%7D"
    (found,) = (await other.psa("GET", waiting, key=key)).json["results"]
    request = found["requestid"]
    replaced = await other.psa("POST", f"/pins/{request}", key=key, body={"cid": OTHER})
    assert replaced.status == 202
    assert (await one.psa("GET", f"/pins/{request}", key=key)).status == 404
    new = replaced.json["requestid"]
    assert (await one.psa("DELETE", f"/pins/{new}", key=key)).status == 202


async def test_an_answer_about_a_name_is_known_to_both(both: tuple[Service, Service]) -> None:
    """What one has resolved, the other tells as last known, without asking anybody."""
    one, other = both
    key = await issue(one)
    resolved = Resolved(Records("0x" + "aa" * 20), datetime.now(UTC))
    async with one.gateway.ledger.last_known() as known:
        known.store("site.eth", ETHEREUM, resolved)

    async def is_known() -> bool:
        return (await other.ask("GET", "/domain/records/site.eth", key=key)).status == 200

    await eventually(is_known)
    assert (await other.resolve("site.eth", key=key)).status == 200


async def test_without_its_database_a_service_says_so(tmp_path: Path) -> None:
    """Pins are refused with 503, /version answers, and nothing is promised."""
    with postgres.durable("15") as server:
        url = server.new_ledger()
        async with running_service(
            tmp_path, database__url=url, database__timeout=1.0, **NOBODY | {"keys__mode": "open"}
        ) as service:
            assert (await service.pin(CID)).status == 200
            await asyncio.to_thread(server.stop)
            assert (await service.pin(OTHER)).status == 503
            assert (await service.ask("GET", f"/ipfs/pin/status/{CID}")).status == 503
            assert (await service.ask("GET", "/version", key=None)).status == 200
            (server.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
            await asyncio.to_thread(server.start)

            async def is_back() -> bool:
                return (await service.pin(OTHER)).status == 200

            await eventually(is_back)
            assert "already exists" in (await service.pin(CID)).json["message"]
