"""The lockfile beside a ledger: whether a service runs, and how the last one was set."""

import asyncio
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from content_gateway.cli import lockfile
from content_gateway.cli.lockfile import Lockfile
from content_gateway.errors import WrongSettings
from content_gateway.settings.model import Settings
from content_gateway.settings.sources import load
from tests.process import running


def settings(folder: Path, **chosen: Any) -> Settings:
    values = {name.replace("__", "."): value for name, value in chosen.items()}
    return load(environ={}, command_line={"data_dir": folder} | values).settings


@pytest.fixture
def current(tmp_path: Path) -> Settings:
    return settings(tmp_path)


def test_a_folder_without_a_service_has_no_mark(current: Settings) -> None:
    assert not lockfile.is_held(current)
    assert lockfile.last(current) is None


def test_a_service_is_seen_until_the_last_one_ends(current: Settings) -> None:
    """Several may have one ledger; how the latest was set is known afterwards too."""
    with lockfile.held(current, has_demo=False):
        assert lockfile.is_held(current)
        other = settings(current.data_dir, keys__mode="open")
        with lockfile.held(other, has_demo=True):
            assert lockfile.is_held(current)
        assert lockfile.is_held(current)
    assert not lockfile.is_held(current)
    assert lockfile.last(current) == Lockfile("embedded", "open", has_demo=True)


def test_a_ledger_has_one_backend_at_a_time(current: Settings) -> None:
    """A second service with another backend would find everything missing: it is refused."""
    other = settings(current.data_dir, pins__backend="kubo")
    with (
        lockfile.held(current, has_demo=False),
        pytest.raises(WrongSettings, match="embedded"),
        lockfile.held(other, has_demo=False),
    ):
        pass
    with lockfile.held(other, has_demo=False):
        assert lockfile.is_held(current)


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads that take turns as often as processes would."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
async def test_of_many_that_start_at_once_one_backend_wins(current: Settings) -> None:
    """All of them check before anybody has begun; those that run then have one backend."""
    backends = ["embedded", "kubo", "ipfs-cluster"]
    chosen = [settings(current.data_dir, pins__backend=backend) for backend in 4 * backends]
    for _ in range(10):
        gate, running, end = threading.Barrier(len(chosen)), list[str](), threading.Event()

        def start(
            one: Settings,
            gate: threading.Barrier = gate,
            running: list[str] = running,
            end: threading.Event = end,
        ) -> bool:
            gate.wait(60)
            try:
                with lockfile.held(one, has_demo=False):
                    running.append(one.pins.backend)
                    end.wait(60)
            except WrongSettings:
                return False
            return True

        with ThreadPoolExecutor(len(chosen)) as pool:
            starts = [pool.submit(start, one) for one in chosen]
            while sum(one.done() for one in starts) + len(running) < len(starts):
                await asyncio.sleep(0.01)
            last = lockfile.last(current)
            end.set()
        assert len(set(running)) == 1, running
        assert last is not None
        assert last.backend == running[0]


def test_a_shorter_mark_replaces_a_longer_one(current: Settings) -> None:
    with lockfile.held(settings(current.data_dir, pins__backend="ipfs-cluster"), has_demo=False):
        pass
    with lockfile.held(settings(current.data_dir, pins__backend="kubo"), has_demo=False):
        pass
    assert lockfile.last(current) == Lockfile("kubo", "issued", has_demo=False)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b'{"backend": 1}', b"[]"])
def test_a_broken_mark_says_nothing(current: Settings, text: bytes) -> None:
    (current.data_dir / "ledger.sqlite.service").write_bytes(text)
    assert lockfile.last(current) is None
    assert not lockfile.is_held(current)


def test_a_mark_that_cannot_be_written_is_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(WrongSettings, match="data_dir"),
        lockfile.held(settings(tmp_path / "file" / "in"), has_demo=False),
    ):
        pass


async def test_many_that_check_at_once_see_no_service(current: Settings) -> None:
    """A status check takes the lock for a moment; others that check then do not mistake it for a
    service."""
    with lockfile.held(current, has_demo=False):
        pass
    checks = [asyncio.to_thread(lockfile.is_held, current) for _ in range(200)]
    assert not any(await asyncio.gather(*checks))


async def test_a_killed_service_leaves_no_lock(tmp_path: Path) -> None:
    """Kill -9 ends the lock with the process, and what the service was stays known."""
    async with running("serve", tmp_path / "data") as service:
        current = settings(tmp_path / "data")
        assert lockfile.is_held(current)
        service.kill()
        assert not lockfile.is_held(current)
        assert lockfile.last(current) == Lockfile("embedded", "issued", has_demo=False)
