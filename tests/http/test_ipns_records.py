"""GET /ipns/{key}: records of IPNS names, for clients that verify them themselves."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from content_gateway.demo.publisher import ipns_name, sign_record
from content_gateway.ipns.record import verify
from tests.cases import case
from tests.contract import Answer
from tests.fakes.origin import Origin
from tests.service import Service, running_service
from tests.waiting import eventually

CID = "bafybeibj6lixxzqtsb45ysdjnupvqkufgdvzqbnvmhw2kf7cfkesy7r7d4"
OTHER = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"
KEY = Ed25519PrivateKey.from_private_bytes(b"\x09" * 32)
NAME = ipns_name(KEY)
OTHER_NAME = ipns_name(Ed25519PrivateKey.from_private_bytes(b"\x0b" * 32))
NOBODY = ipns_name(Ed25519PrivateKey.from_private_bytes(b"\x0a" * 32))
RECORD_TYPE = "application/vnd.ipfs.ipns-record"
HOUR = timedelta(hours=1)


@pytest.fixture
async def service(tmp_path: Path, origin: Origin) -> AsyncIterator[Service]:
    """It has resolved NAME, whose record is in the origin, and that was asked for nothing else."""
    origin.records[NAME.text] = sign_record(KEY, f"/ipfs/{CID}", sequence=1, ttl=HOUR)
    async with running_service(
        tmp_path / "data", ipns__routers=[origin.url], embedded__serve=True, ens__rpc_urls=[]
    ) as service:
        await resolve(service)
        origin.requests.clear()
        yield service


async def resolve(service: Service) -> None:
    """Look NAME up, and wait for the end of that."""
    started = await service.ask("POST", f"/ipns/resolve/{NAME}")

    async def is_over() -> bool:
        answer = await service.ask("GET", f"/ipns/result/{started.json['result']['taskId']}")
        return bool(answer.json["result"]["state"] != "pending")

    await eventually(is_over)


async def get(
    service: Service, name: object, query: str = "?format=ipns-record", **fields: str
) -> Answer:
    headers = [(name.replace("_", "-"), value) for name, value in fields.items()]
    return await service.ask("GET", f"/ipns/{name}{query}", key=None, headers=headers)


async def test_a_record_is_served_as_it_was_signed(service: Service, origin: Origin) -> None:
    """To anybody, in every spelling of the name; HEAD says the same, and no source is asked."""
    record = origin.records[NAME.text]
    for query, fields in (("?format=ipns-record", {}), ("", {"Accept": RECORD_TYPE})):
        answer = await get(service, NAME, query, **fields)
        assert (answer.status, answer.body) == (200, record)
        expected = {
            "content-type": RECORD_TYPE,
            "content-length": str(len(record)),
            "content-disposition": f'attachment; filename="{NAME}.ipns-record"',
            "cache-control": "public, max-age=3600",
            "vary": "accept",
            "x-ipfs-path": f"/ipns/{NAME}",
        }
        assert {name: answer.headers.get(name) for name in expected} == expected
        assert 0 <= int(answer.headers["age"]) < 600
        place = None if query else f"/ipns/{NAME}?format=ipns-record"
        assert answer.headers.get("content-location") == place
    verify(NAME, answer.body, datetime.now(UTC))
    assert (await get(service, "K" + NAME.text[1:].upper())).body == record
    head = await service.ask("HEAD", f"/ipns/{NAME}?format=ipns-record", key=None)
    assert (head.status, head.headers["etag"]) == (200, answer.headers["etag"])
    assert head.headers["content-length"] == str(len(record))
    assert origin.requests == []


async def test_one_instance_feeds_another(service: Service, tmp_path: Path) -> None:
    """Which has it as a trustless gateway, and asks nobody else for records."""
    async with running_service(
        tmp_path / "other", ipns__gateways=[service.url], ens__rpc_urls=[]
    ) as other:
        await resolve(other)
        answer = await other.ask("POST", f"/ipns/resolve/{NAME}")
        assert answer.json["result"]["ipnsCache"] == CID


async def test_it_is_kept_and_validated(service: Service) -> None:
    """Under the name that the client wants, and not sent again to who has it."""
    named = await get(service, NAME, "?format=ipns-record&filename=test%D1%82.ipns-record")
    assert named.headers["content-disposition"] == (
        "attachment; filename=\"test_.ipns-record\"; filename*=UTF-8''test%D1%82.ipns-record"
    )
    same = await get(service, NAME, if_none_match=f'"x", W/{named.headers["etag"]}')
    assert (same.status, same.body) == (304, b"")
    assert same.headers["cache-control"] == "public, max-age=3600"


async def test_what_is_not_known_is_looked_up(service: Service, origin: Origin) -> None:
    """Once; but not for who wants only what is there. None is 404, an outage is not."""
    answer = await get(service, NOBODY, cache_control="only-if-cached")
    assert (answer.status, answer.json["code"]) == (412, "not-held")
    assert origin.requests == []
    for _ in range(2):
        answer = await get(service, NOBODY)
        assert (answer.status, answer.json["code"]) == (404, "not-held")
    assert len(origin.requests) == 1
    origin.records[OTHER_NAME.text] = b"whatever"
    answer = await get(service, OTHER_NAME)
    assert (answer.status, answer.json["code"]) == (503, "upstream-unavailable")


async def test_an_address_may_have_few_names_looked_up(tmp_path: Path, origin: Origin) -> None:
    """Whoever has no key; what is known goes on to be served."""
    origin.records[NAME.text] = sign_record(KEY, f"/ipfs/{CID}", sequence=1, ttl=HOUR)
    async with running_service(
        tmp_path / "data",
        ipns__routers=[origin.url],
        embedded__serve=True,
        ens__rpc_urls=[],
        gateway__lookups_per_minute=2,
    ) as service:
        assert [(await get(service, name)).status for name in (NAME, NOBODY)] == [200, 404]
        limited = await get(service, OTHER_NAME)
        assert (limited.status, limited.json["code"]) == (429, "rate-limited")
        assert (await get(service, NAME)).status == 200
        assert len(origin.requests) == 2


async def test_nothing_else_is_served(service: Service) -> None:
    """Not what the name leads to, nor of a domain, which has no record."""
    for asked, accept, status, code in (
        (f"{NAME}?format=car", "", 406, "not-acceptable"),
        (f"{NAME}?format=raw", RECORD_TYPE, 406, "not-acceptable"),
        (f"{NAME}", "text/html", 406, "not-acceptable"),
        (f"{NAME}", "*/*", 400, "format-missing"),
        (f"{NAME}?format=ipns-record&format=ipns-record", "", 400, "invalid-query"),
        (f"{NAME}?dag-scope=all", "", 400, "invalid-query"),
        ("example.org?format=ipns-record", "", 400, "invalid-ipns-name"),
        (f"{CID}?format=ipns-record", "", 400, "invalid-ipns-name"),
        ("k51?format=ipns-record", "", 400, "invalid-ipns-name"),
    ):
        with case(asked):
            path, _, query = asked.partition("?")
            answer = await get(service, path, f"?{query}" if query else "", Accept=accept or "*/*")
            assert (answer.status, answer.json["code"]) == (status, code)
    below = await service.ask("GET", f"/ipns/{NAME}/docs?format=ipns-record", key=None)
    assert below.status == 404


async def test_a_newer_record_takes_its_place(service: Service, origin: Origin) -> None:
    """Also one that has a shorter life: as long as it is valid, caches may keep it."""
    origin.records[NAME.text] = sign_record(
        KEY, f"/ipfs/{OTHER}", sequence=2, ttl=HOUR, lifetime=timedelta(minutes=5)
    )

    async def is_new() -> bool:
        await resolve(service)  # at most once in five seconds
        return (await get(service, NAME)).body == origin.records[NAME.text]

    await eventually(is_new)
    seconds = int((await get(service, NAME)).headers["cache-control"].rpartition("=")[2])
    assert 0 < seconds <= 300


async def test_it_outlives_the_service(tmp_path: Path, origin: Origin) -> None:
    """With its age; nobody has to be asked for it again while it is fresh."""
    settings = {"ipns__routers": [origin.url], "embedded__serve": True, "ens__rpc_urls": []}
    record = sign_record(KEY, f"/ipfs/{CID}", sequence=1, ttl=HOUR)
    origin.records[NAME.text] = record
    async with running_service(tmp_path / "data", **settings) as service:
        assert (await get(service, NAME)).body == record
    asked = len(origin.requests)
    async with running_service(tmp_path / "data", **settings) as service:
        assert (await get(service, NAME, cache_control="only-if-cached")).body == record
        answer = await get(service, NAME)
        assert (answer.status, answer.body) == (200, record)
    assert len(origin.requests) == asked


async def test_what_is_blocked_is_refused(tmp_path: Path, origin: Origin) -> None:
    """The name itself, and one whose record leads to blocked content; known or not."""
    origin.records[NAME.text] = sign_record(KEY, f"/ipfs/{CID}", sequence=1, ttl=HOUR)
    blocked = tmp_path / "operator.deny"
    blocked.write_text("# nothing\n")
    async with running_service(
        tmp_path / "data",
        ipns__routers=[origin.url],
        embedded__serve=True,
        ens__rpc_urls=[],
        denylist__content_file=blocked,
    ) as service:
        await resolve(service)
        for line, name in (
            (f"/ipfs/{CID}", NAME),
            (f"/ipns/{NAME}", NAME),
            (f"/ipns/{NOBODY}", NOBODY),
        ):
            new = blocked.with_suffix(".new")
            new.write_text(f"{line}\n")
            new.replace(blocked)

            async def is_refused(name: object = name) -> bool:
                return (await get(service, name)).status == 451

            await eventually(is_refused)


async def test_it_is_off_by_itself(tmp_path: Path) -> None:
    """As the whole trustless gateway."""
    async with running_service(tmp_path, ens__rpc_urls=[]) as service:
        answer = await get(service, NAME)
        assert (answer.status, answer.json["code"]) == (404, "not-found")
