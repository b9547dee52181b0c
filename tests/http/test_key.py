"""GET /key: a key learns what it may do."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from content_gateway.api_keys import SCOPES
from tests.revoked import revoke
from tests.service import Service, running_service

CID = "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"


@pytest.fixture
async def issued(tmp_path: Path) -> AsyncIterator[Service]:
    async with running_service(tmp_path, keys__mode="issued") as service:
        yield service


@pytest.mark.parametrize("scopes", [SCOPES, ("resolve",), ("pin",)])
async def test_an_issued_key_is_described(issued: Service, scopes: tuple[str, ...]) -> None:
    """With any scope; how many pins it has is told where it may pin."""
    made = await issued.gateway.issued_keys.create("team", scopes, timedelta(days=1))
    assert made is not None
    key, record = made
    if "pin" in scopes:
        await issued.pin(CID, key=key)
    result = (await issued.ask("GET", "/key", key=key)).json["result"]
    assert (result["scopes"], result["name"]) == (list(scopes), "team")
    assert result["created"] < result["expires"]
    assert result.get("pins") == (1 if "pin" in scopes else None)
    assert record.prefix not in str(result)


async def test_a_key_that_lets_nobody_in_is_told_nothing(issued: Service) -> None:
    """Missing, unknown and revoked keys get the one 401."""
    made = await issued.gateway.issued_keys.create("team", SCOPES, None)
    assert made is not None
    await revoke(issued.gateway.issued_keys, "team")
    answers = [await issued.ask("GET", "/key", key=key) for key in (None, "nobody", made[0])]
    bodies = [{**answer.json, "requestId": ""} for answer in answers]
    assert [answer.status for answer in answers] == [401] * 3
    assert bodies[0] == bodies[1] == bodies[2]


async def test_an_open_key_may_do_everything(service: Service) -> None:
    """Nothing is stored of it."""
    assert (await service.ask("GET", "/key")).json["result"] == {"scopes": [*SCOPES], "pins": 0}
