"""`serve --workers N`: processes that come and go under load, behind one listener."""

import asyncio
import os
import signal
from pathlib import Path

import aiohttp
import pytest

from tests.cli.command import run
from tests.http.load import load_on
from tests.process import running
from tests.waiting import eventually, until
from tests.workers import Workers, with_workers, workers_of

REPLACED = "the workers were replaced"


async def test_a_hangup_replaces_every_worker_and_drops_no_request(tmp_path: Path) -> None:
    """Twice under load: nobody is refused, no answer breaks off, and no worker of before is
    left."""
    async with with_workers(tmp_path / "data") as workers:
        with load_on(workers.port) as load:
            for number in range(1, 3):
                seen, before = load.answered, workers.pids
                await until(lambda seen=seen: load.answered > seen + 100)  # type: ignore[misc]
                workers.service.child.send_signal(signal.SIGHUP)
                await workers.logged(REPLACED, number)
                await until(lambda before=before: not before & workers.pids, seconds=60)  # type: ignore[misc]
                assert len(workers.pids) == 2
            seen = load.answered
            await until(lambda: load.answered > seen + 100)
        assert (load.failures, load.repeated) == ([], 0)
        assert await workers.service.stop(60) == 0


async def test_a_hangup_takes_the_settings_as_they_are_now(tmp_path: Path) -> None:
    """A limit that is set holds, one more worker comes; wrong settings, and those for a restart,
    change nothing and are told."""
    config = tmp_path / "gateway.toml"
    config.write_text("")
    named = {"CONTENT_GATEWAY_CONFIG": str(config), "CONTENT_GATEWAY_KEYS__MODE": "open"}
    async with with_workers(tmp_path / "data", settings=named) as workers:
        supervisor = workers.service.child
        before = workers.pids
        for text, said in (
            ("[namse]\n", "did you mean [names]?"),
            ('[pins]\nbackend = "kubo"\n', "pins.backend: only a restart can change that"),
            ('[limits.types.reader]\noperations = ["resolveDomian"]\n', "did you mean resolve"),
        ):
            config.write_text(text)
            supervisor.send_signal(signal.SIGHUP)
            await workers.logged(said)
            assert await status(workers, "/key") == 200
        assert workers.pids == before
        config.write_text("[limits]\nrequests_per_minute = 3\n")
        supervisor.send_signal(signal.SIGHUP)
        await workers.logged(REPLACED)
        await until(lambda: not before & workers.pids, seconds=60)

        async def is_refused() -> bool:
            return await status(workers, "/key") == 429

        await eventually(is_refused)
        assert await workers.service.stop(60) == 0


async def test_a_killed_worker_is_replaced_and_its_requests_alone_fail(tmp_path: Path) -> None:
    """By kill -9 twice: of the clients, only those that it served at that moment hear of it."""
    async with with_workers(tmp_path / "data") as workers:
        with load_on(workers.port, clients=4) as load:
            for number in range(1, 3):
                seen = load.answered
                await until(lambda seen=seen: load.answered > seen + 100)  # type: ignore[misc]
                before = workers.pids
                os.kill(min(before), signal.SIGKILL)
                await workers.logged("a worker ended, and is replaced", number)
                await until(lambda before=before: len(workers.pids - before) == 1, seconds=60)  # type: ignore[misc]
            seen = load.answered
            await until(lambda: load.answered > seen + 100)
        assert len(load.failures) + load.repeated <= 2 * 8, load.failures
        assert not [each for each in load.failures if "Refused" in each or "status" in each]
        assert await workers.number("workers_replaced_total") == 2
        assert await workers.service.stop(60) == 0


async def test_what_ends_again_and_again_is_replaced_with_backoff(tmp_path: Path) -> None:
    """At once the first time, and then later and later; the service comes back by itself."""
    async with with_workers(tmp_path / "data") as workers:
        for wait in ("0.0", "0.5", "1.0"):
            before = workers.pids
            for pid in before:
                os.kill(pid, signal.SIGKILL)
            await workers.logged(f"again_in={wait}", 2)
            await until(lambda before=before: len(workers.pids - before) == 2, seconds=60)  # type: ignore[misc]

        async def answers() -> bool:
            return (await workers.page("/readyz"))[0] == 200

        await eventually(answers, seconds=60)
        assert await status(workers, "/version") == 200


async def test_a_stop_during_a_reload_is_a_stop(tmp_path: Path) -> None:
    """Neither generation is left."""
    async with with_workers(tmp_path / "data") as workers:
        before = workers.pids
        workers.service.child.send_signal(signal.SIGHUP)
        await until(lambda: len(workers.pids) > 2)
        both = workers.pids
        assert await workers.service.stop(60) == 0
        assert before < both
        await until(lambda: not any(map(is_alive, both)), seconds=60)


async def test_a_stop_answers_whom_it_has_accepted(tmp_path: Path) -> None:
    """Under load, with a listener of its own: who comes too late is refused, and nobody else hears
    of it."""
    async with with_workers(tmp_path / "data") as workers:
        with load_on(workers.port) as load:
            await until(lambda: load.answered > 200)
            assert await workers.service.stop(60) == 0
        assert not load.repeated
        assert not [each for each in load.failures if "refused" not in each], load.failures


async def test_what_ends_with_its_workers_is_over_at_once(tmp_path: Path) -> None:
    """By kill -9 of the supervisor: its workers end by themselves, and the ledger is free."""
    async with with_workers(tmp_path / "data") as workers:
        pids = workers.pids
        workers.service.kill()
        await until(lambda: not any(map(is_alive, pids)), seconds=60)
    backup = str(tmp_path / "backup.sqlite")
    for arguments in (("backup", backup), ("restore", backup)):
        done = run(tmp_path / "data", "ledger", *arguments)
        assert done.returncode == 0, done.stderr


async def test_a_start_that_fails_says_why_once(tmp_path: Path) -> None:
    """As one process does: status 2, in words, and no process is left."""
    types = '{"reader": {"operations": ["resolveDomian"]}}'
    settings = {"CONTENT_GATEWAY_WORKERS": "2", "CONTENT_GATEWAY_LIMITS__TYPES": types}
    with pytest.raises(AssertionError, match=r"(?s)it ended with 2.*did you mean resolveDomain"):
        async with running("serve", tmp_path / "data", settings):
            raise NotImplementedError("it has started")


async def test_readiness_needs_half_of_the_workers(tmp_path: Path) -> None:
    """One of two that stands still changes nothing, none that answers turns it red, and it is green
    again when they go on."""
    async with with_workers(tmp_path / "data") as workers:
        one, other = workers.pids
        assert (await workers.page("/readyz"))[0] == 200
        os.kill(one, signal.SIGSTOP)
        try:
            assert (await workers.page("/readyz"))[0] == 200
            os.kill(other, signal.SIGSTOP)
            code, text = await workers.page("/readyz")
            assert (code, "0 of 2 can be sent traffic, 1 are needed" in text) == (503, True)
            assert (await workers.page("/livez"))[0] == 200
            assert "does not answer" in (await workers.page("/status"))[1]
        finally:
            for pid in (one, other):
                os.kill(pid, signal.SIGCONT)

        async def is_ready() -> bool:
            return (await workers.page("/readyz"))[0] == 200

        await eventually(is_ready, seconds=60)


async def status(workers: Workers, path: str, key: str = "me") -> int:
    """The status of one request, on a connection of its own."""
    url = f"http://127.0.0.1:{workers.port}{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers={"x-api-key": key, "connection": "close"}) as answer,
    ):
        return answer.status


def is_alive(pid: int) -> bool:
    """Whether the process is there, and no zombie."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


async def test_one_worker_is_one_process(tmp_path: Path) -> None:
    """As ever: nobody supervises it."""
    async with running("serve", tmp_path / "data", {"CONTENT_GATEWAY_WORKERS": "1"}) as service:
        assert workers_of(service) == set()
        assert await asyncio.wait_for(service.stop(60), 60) == 0
