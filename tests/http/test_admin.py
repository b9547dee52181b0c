"""The admin listener: /livez and /readyz of a service as a process of its own."""

import asyncio
import re
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from content_gateway.http.admin import Readiness
from tests.clock import Clock
from tests.process import running
from tests.waiting import eventually
from tests.world.peers import free_port

CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"


async def told(url: str, method: str = "GET") -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.request(method, url) as answer:
        assert answer.headers["cache-control"] == "no-store"
        return answer.status, await answer.text()


@pytest.fixture
def port() -> int:
    return free_port()


def settings(port: int, **more: str) -> dict[str, str]:
    return {"CONTENT_GATEWAY_ADMIN__PORT": str(port), "CONTENT_GATEWAY_KEYS__MODE": "open", **more}


async def test_a_service_that_is_well_is_ready(tmp_path: Path, port: int) -> None:
    """Each check has its line; what else is asked for is told plainly."""
    async with running("serve", tmp_path / "data", settings(port)):
        admin = f"http://127.0.0.1:{port}"
        assert await told(f"{admin}/livez") == (200, "ok\n")
        assert await told(f"{admin}/readyz") == (200, "[+]stopping ok\n[+]ledger ok\nready\n")
        assert (await told(f"{admin}/readyz", "HEAD"))[0] == 200
        assert (await told(f"{admin}/"))[0] == 404
        assert (await told(f"{admin}/livez", "POST"))[0] == 405


async def test_a_ledger_that_is_taken_away_is_not_ready(tmp_path: Path, port: int) -> None:
    """And the process lives: it is not restarted for its disk."""
    async with running("serve", tmp_path / "data", settings(port)):
        (tmp_path / "data" / "ledger.sqlite").rename(tmp_path / "elsewhere")
        admin = f"http://127.0.0.1:{port}"

        async def is_red() -> bool:
            status, text = await told(f"{admin}/readyz")
            return status == 503 and "[-]ledger failed: " in text

        await eventually(is_red)
        assert (await told(f"{admin}/livez"))[0] == 200


async def test_a_pin_that_waits_too_long_is_not_ready(tmp_path: Path, port: int) -> None:
    """Where the operator says how long is too long; without it a backlog is no reason."""
    waiting = {"CONTENT_GATEWAY_ADMIN__OLDEST_WAITING": "0.5"}
    async with running("serve", tmp_path / "data", settings(port, **waiting)) as service:
        headers = {"x-api-key": "me"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(f"{service.url}/ipfs/pin/add/{CID}") as answer,
        ):
            assert answer.status == 200

        async def is_red() -> bool:
            status, text = await told(f"http://127.0.0.1:{port}/readyz")
            said = re.search(r"\[-\]backlog failed: .* longer than 0.5 s", text)
            return status == 503 and said is not None

        await eventually(is_red)


async def test_a_port_that_is_taken_stops_the_start_in_words(tmp_path: Path, port: int) -> None:
    """Before anything is promised."""
    listener = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
    async with listener:
        with pytest.raises(AssertionError, match=r"admin\.host, admin\.port: cannot listen"):
            async with running("serve", tmp_path / "data", settings(port)):
                raise NotImplementedError("it has started")


async def test_many_probes_are_one_check() -> None:
    """A report stands for a second, however many ask."""
    clock, rounds = Clock(), 0

    async def check() -> str | None:
        nonlocal rounds
        rounds += 1
        return "red" if rounds == 2 else None

    readiness = Readiness({"one": check}, clock=clock)
    with capture_logs() as logs:
        reports = await asyncio.gather(*(readiness.report() for _ in range(100)))
        assert {report.is_ready for report in reports} == {True}
        assert rounds == 1
        clock.pass_(2)
        assert (await readiness.report()).text() == "[-]one failed: red\nnot ready\n"
        clock.pass_(2)
        assert (await readiness.report()).is_ready
    assert [entry["is_ready"] for entry in logs] == [False, True]


async def test_a_check_that_fails_is_not_ready() -> None:
    """A bug in one is told, and no reason to answer nothing."""

    async def broken() -> str | None:
        raise LookupError

    assert (
        "[-]one failed: it could not be checked"
        in (await Readiness({"one": broken}).report()).text()
    )


async def test_a_drain_is_seen_at_once() -> None:
    """A load balancer that asks in the same second must not hear that all is well."""
    is_draining = False

    async def stopping() -> str | None:
        return "the service is stopping" if is_draining else None

    readiness = Readiness({"stopping": stopping}, is_draining=lambda: is_draining, clock=Clock())
    assert (await readiness.report()).is_ready
    is_draining = True
    assert not (await readiness.report()).is_ready
