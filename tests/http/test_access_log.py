"""The access log: a line for each request, for some or for none; and the ids requests bring."""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from content_gateway.http.traffic import AccessLog, Traffic
from content_gateway.telemetry.line_writer import LineWriter
from tests.process import COMMAND, QUIET, running
from tests.waiting import eventually
from tests.world.peers import free_port

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


async def lines_of(
    folder: Path, requests: int, fields: Mapping[str, str] | None = None, **settings: str
) -> list[dict[str, Any]]:
    """What a service logs of so many requests for its version, each with these *fields*."""
    chosen = {"CONTENT_GATEWAY_KEYS__MODE": "open", "CONTENT_GATEWAY_LOG__FORMAT": "json"}
    chosen |= {f"CONTENT_GATEWAY_{name}": value for name, value in settings.items()}
    async with running("serve", folder / "data", chosen) as service:
        async with aiohttp.ClientSession(headers=fields) as session:
            for _ in range(requests):
                async with session.get(f"{service.url}/version") as answer:
                    assert answer.status == 200
        assert await service.stop() == 0
    log = (folder / "data.log").read_text()
    entries = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return [entry for entry in entries if entry["event"] == "request"]


async def test_every_request_has_its_line(tmp_path: Path) -> None:
    """With its route, status, time, key and id; none is lost when the service stops."""
    lines = await lines_of(tmp_path, 250, LOG__ACCESS="on")
    assert len(lines) == 250
    first = lines[0]
    assert (first["method"], first["route"], first["status"]) == ("GET", "/version", 200)
    assert first["ms"] > 0
    assert first["key"] is None
    assert len({line["request_id"] for line in lines}) == 250


async def test_its_lines_are_as_the_others(tmp_path: Path) -> None:
    """As text too: the same timestamp (RFC 3339, UTC), so that both sort together."""
    chosen = {"CONTENT_GATEWAY_KEYS__MODE": "open", "CONTENT_GATEWAY_LOG__FORMAT": "text"}
    async with (
        running(
            "serve", tmp_path / "data", chosen | {"CONTENT_GATEWAY_LOG__ACCESS": "on"}
        ) as service,
        aiohttp.ClientSession() as session,
    ):
        async with session.get(f"{service.url}/key") as answer:  # a refusal has a line of its own
            assert answer.status == 401
        assert await service.stop() == 0
    lines = (tmp_path / "data.log").read_text().splitlines()
    told = [line for line in lines if "[info     ]" in line]
    assert {"key", "request"} <= {line.split("] ")[1].split()[0] for line in told}
    for line in told:
        assert re.match(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z \[", line), line


async def test_a_sample_is_one_of_a_hundred(tmp_path: Path) -> None:
    """The first, and each hundredth behind it; and whatever failed, which here nothing did."""
    lines = await lines_of(tmp_path, 250)
    assert 3 <= len(lines) <= 10  # those that took a second are told too
    assert len([line for line in lines if line["ms"] < 1_000]) == 3


async def test_off_is_off(tmp_path: Path) -> None:
    """No line at all."""
    assert await lines_of(tmp_path, 5, LOG__ACCESS="off") == []


@pytest.mark.parametrize(
    ("fields", "taken"),
    [
        ({"X-Request-Id": "from-the-proxy-1"}, "from-the-proxy-1"),
        ({"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}, TRACE),
    ],
)
async def test_the_id_of_a_request_goes_on(
    tmp_path: Path, fields: dict[str, str], taken: str
) -> None:
    """From a proxy or a client through the answer into the log."""
    (line,) = await lines_of(tmp_path, 1, fields, LOG__ACCESS="on")
    assert line["request_id"] == taken


def test_a_flood_of_failures_is_told_at_a_pace(tmp_path: Path) -> None:
    """In an overload every refusal failed: the first hundred are told, then ten a second, with how
    many were left out; and the sample of all goes on."""
    with (tmp_path / "log").open("wb") as file:
        clock = count()  # a thousandth of a second each
        traffic = Traffic(
            AccessLog(LineWriter(file.fileno()), is_json=True, every=100),
            clock=lambda: 1_000 + next(clock) / 2_000,
        )
        # Not on a loop: they are counted when the test says so.
        ended = [traffic.begin(str(number), ()) for number in range(10_000)]
        for one in ended:
            one.method, one.status, one.seconds = "GET", 503, 0.0
        assert traffic.access is not None
        traffic.access.tell(ended)
        traffic.close()
    told = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert 100 + 100 <= len(told) <= 100 + 100 + 10 * 10
    assert {line["status"] for line in told} == {503}
    left_out = sum(line.get("left_out", 0) for line in told)
    assert 10_000 - len(told) - 100 <= left_out <= 10_000 - len(told)


async def test_a_log_that_nobody_reads_stops_no_request(tmp_path: Path) -> None:
    """The reader of the pipe is there and reads nothing: access lines and events are lost, requests
    are answered, and the service ends when it is told to."""
    port, (reader, writer) = free_port(), os.pipe()
    settings = {"KEYS__MODE": "open", "LOG__ACCESS": "on", "DATA_DIR": str(tmp_path / "data")}
    settings["PORT"] = str(port)
    environ = {name: value for name, value in os.environ.items() if "GATEWAY" not in name} | QUIET
    environ |= {f"CONTENT_GATEWAY_{name}": value for name, value in settings.items()}
    with subprocess.Popen([*COMMAND, "serve"], env=environ, stdout=writer, stderr=writer) as child:
        try:
            async with aiohttp.ClientSession(
                f"http://127.0.0.1:{port}", headers={"x-api-key": "a-key"}
            ) as session:

                async def status(path: str) -> int:
                    try:
                        async with session.get(path) as answer:
                            return answer.status
                    except aiohttp.ClientConnectorError:
                        return 0

                async def listens() -> bool:
                    return await status("/version") == 200

                await eventually(listens)
                async with asyncio.timeout(60):
                    for number in range(1_000):  # three times what the pipe holds
                        assert await status("/version") == 200
                        if number % 10 == 0:  # an event each: `upstream failed`
                            assert await status(f"/domain/resolve/{number}.eth") == 503
            child.terminate()
            assert await asyncio.to_thread(child.wait, 60) == 0
        finally:
            child.kill()
            os.close(reader)
            os.close(writer)
