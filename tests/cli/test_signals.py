"""A service told to reload, to drain and to stop while clients ask it: as a process of its own."""

import asyncio
import signal
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from tests.http.load import load_on
from tests.process import Running, running
from tests.waiting import eventually, until
from tests.world.peers import free_port


def port_of(service: Running) -> int:
    port = URL(service.url).port
    assert port is not None
    return port


async def is_ready(port: int) -> bool:
    url = f"http://127.0.0.1:{port}/readyz"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status == 200


async def test_a_hangup_drops_no_request(tmp_path: Path) -> None:
    """Five of them under load: each is logged, and every request has its answer."""
    async with running("serve", tmp_path / "data") as service:
        with load_on(port_of(service)) as load:
            for number in range(1, 6):
                seen = load.answered
                await until(lambda seen=seen: load.answered > seen + 100)  # type: ignore[misc]
                service.child.send_signal(signal.SIGHUP)
                await until(
                    lambda n=number: service.log.read_text().count("were read again") == n  # type: ignore[misc]
                )
            seen = load.answered
            await until(lambda: load.answered > seen + 100)
        assert (load.failures, load.repeated) == ([], 0)
        assert load.answered > 600
        assert await service.stop() == 0


async def test_a_hangup_tells_what_a_restart_would_change(tmp_path: Path) -> None:
    """By name; and when the settings are wrong now, so that a restart would fail."""
    config = tmp_path / "gateway.toml"
    config.write_text("")
    named = {"CONTENT_GATEWAY_CONFIG": str(config)}
    async with running("serve", tmp_path / "data", named) as service:
        for text, said in (
            ('[names]\nfresh = "7m"\n[limits]\nlookups = 99\n', "names.fresh"),
            ("[namse]\n", "did you mean [names]?"),
            ("", "those of the start"),
        ):
            config.write_text(text)
            service.child.send_signal(signal.SIGHUP)
            await until(lambda said=said: said in service.log.read_text())  # type: ignore[misc]
        assert "limits.lookups" in service.log.read_text()
        assert service.child.poll() is None


async def test_a_hangup_ends_the_demonstration(tmp_path: Path) -> None:
    """Its terminal is gone; gracefully, as by Ctrl-C."""
    async with running("dev", tmp_path / "data") as service:
        service.child.send_signal(signal.SIGHUP)
        assert await asyncio.to_thread(service.child.wait, 20) == 0


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_drain_is_seen_before_the_stop(tmp_path: Path, workers: int) -> None:
    """/readyz turns red while every request is still answered: a load balancer that looks leaves in
    time, and no request of its fails."""
    port = free_port()
    settings = {"CONTENT_GATEWAY_ADMIN__PORT": str(port), "CONTENT_GATEWAY_ADMIN__DRAIN": "3s"}
    settings["CONTENT_GATEWAY_WORKERS"] = str(workers)
    async with running("serve", tmp_path / "data", settings) as service:
        assert await is_ready(port)
        with load_on(port_of(service)) as load:
            await until(lambda: load.answered > 100)
            service.child.send_signal(signal.SIGTERM)

            async def is_red() -> bool:
                return not await is_ready(port)

            await eventually(is_red)
            seen = load.answered
            await until(lambda: load.answered > seen + 50)
        assert (load.failures, load.repeated) == ([], 0)
        assert await asyncio.to_thread(service.child.wait, 20) == 0


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_second_signal_ends_the_drain(tmp_path: Path, workers: int) -> None:
    """Whoever cannot wait says so again, and what is under way still has its answer."""
    port = free_port()
    settings = {"CONTENT_GATEWAY_ADMIN__PORT": str(port), "CONTENT_GATEWAY_ADMIN__DRAIN": "1h"}
    settings["CONTENT_GATEWAY_WORKERS"] = str(workers)
    async with running("serve", tmp_path / "data", settings) as service:
        service.child.send_signal(signal.SIGTERM)

        async def is_red() -> bool:
            return not await is_ready(port)

        await eventually(is_red)
        assert service.child.poll() is None
        assert await service.stop() == 0


async def test_a_listener_that_others_reach_is_warned_of(tmp_path: Path) -> None:
    """Once for each of the two; not where only this machine can reach them."""
    ports = {"CONTENT_GATEWAY_ADMIN__PORT": str(free_port())}
    warning = "other machines can reach a listener that has no TLS"
    async with running("serve", tmp_path / "data", ports) as service:
        assert await service.stop() == 0
        assert warning not in service.log.read_text()
    hosts = {"CONTENT_GATEWAY_HOST": "0.0.0.0", "CONTENT_GATEWAY_ADMIN__HOST": "0.0.0.0"}
    async with running("serve", tmp_path / "data", ports | hosts) as service:
        # A thread writes the log: its lines may come after the address.
        await until(lambda: service.log.read_text().count(warning) == 2)
