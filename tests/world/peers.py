"""The servers that `make peers` installed, and how a test owns one of them.

Finds their files, picks ports, starts and ends processes, speaks HTTP to them.
Knows nothing of what they serve; that is for the module named after each."""

import asyncio
import contextlib
import ctypes
import fcntl
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import aiohttp
import pytest

from tests.waiting import eventually


def find_peer(name: str) -> Path | None:
    """The path of the program or npm package *name*, None if it was not installed."""
    default = Path.home() / ".cache" / "content-gateway" / "peers"
    peers = Path(os.environ.get("PEERS_DIR") or default)
    modules = [
        peers / part / "node_modules" / name
        for part in ("npm", "clients", "browser", "generators", "dns")
    ]
    places = (peers / "bin" / name, *modules)
    return next((path for path in places if path.exists()), None)


def require_peer(name: str) -> Path:
    """The path of the program or npm package *name*; without it the test skips.

    With REQUIRE_PEERS=1 in the environment the test fails instead.
    """
    return find_peer(name) or absent(f"{name} is not installed: run `make peers`")


def absent(reason: str) -> NoReturn:
    """Skip the running test for *reason*, or fail it where peers are required."""
    if os.environ.get("REQUIRE_PEERS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


_claims: dict[int, int] = {}  # ports given out by this process, and the locks that say so


def free_port() -> int:
    """A loopback TCP port that nobody listens on, given out once while this process runs.

    Taken from below the range that outgoing connections use, so that it stays
    free while its server is down; claimed by a lock on a file, so that test runs
    beside each other never get the same one.
    """
    folder = Path(tempfile.gettempdir()) / "content-gateway-test-ports"
    folder.mkdir(exist_ok=True)
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        if port in _claims:
            continue
        claim = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            os.close(claim)
            continue
        _claims[port] = claim
        return port


async def ask(
    method: str, url: str, *, data: aiohttp.FormData | bytes | None = None, **options: Any
) -> tuple[int, str]:
    """Status and text of one HTTP exchange, on a connection of its own.

    Without a pooled session the helpers belong to no event loop, so a fixture
    may outlive the loop that made it. Raises aiohttp.ClientError when nobody answers.
    """
    timeout = aiohttp.ClientTimeout(total=30)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.request(method, url, data=data, **options) as response,
    ):
        return response.status, await response.text()


async def answers(status: int, method: str, url: str) -> bool:
    """Whether *url* answers with *status* by now; a closed port is a plain no."""
    try:
        return (await ask(method, url))[0] == status
    except aiohttp.ClientError:
        return False


# Loaded before any fork: the child must not take locks another thread may hold.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """A child process that a test owns; it ends with the test run, however that ends.

    Start it from the main thread: Linux ends it when the thread that started it ends.
    """

    def __init__(
        self, command: Sequence[str | Path], *, log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self._command = [str(word) for word in command]
        self._log = log
        self._env = {**os.environ, **(env or {})}
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._child.pid if self._child else None

    @property
    def cpu_seconds(self) -> float:
        """The CPU time it has taken since it was started last; 0 while it does not run."""
        if self._child is None:
            return 0.0
        # proc(5): utime and stime are fields 14 and 15, behind a name that may hold anything.
        fields = Path(f"/proc/{self._child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def start(self, ready: Callable[[], Awaitable[bool]], *, seconds: float = 20) -> None:
        """Start, and return once *ready* says so.

        Raises RuntimeError with the end of the log when it ends or is not ready in time.
        """
        child = self._child = self._spawn()

        async def ready_or_ended() -> bool:
            return child.poll() is not None or await ready()

        try:
            await eventually(ready_or_ended, what="ready", seconds=seconds)
            if child.poll() is not None:
                raise RuntimeError(f"{self._command[0]} ended at once\n{self._tail()}")
        except TimeoutError as late:
            await self.kill9()
            raise RuntimeError(f"{self._command[0]}: {late}\n{self._tail()}") from late
        except BaseException:
            await self.kill9()
            raise

    def _spawn(self) -> subprocess.Popen[bytes]:
        assert self._child is None, "it is running"
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - it makes one system call
            )

    async def run(self) -> None:
        """Run it to its end. Raises RuntimeError with the end of the log when it fails."""
        child = self._spawn()
        if await asyncio.to_thread(child.wait, 60):
            raise RuntimeError(f"{self._command[0]} failed\n{self._tail()}")

    async def stop(self, *, patience: float = 10) -> None:
        """Ask it to end, and kill it when it has not done so in *patience* seconds."""
        if self._child is None:
            return
        self._child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self._child.wait, patience)
        await self.kill9()

    async def kill9(self) -> None:
        """End it at once, as a power cut would."""
        if self._child is None:
            return
        self._child.kill()  # nothing, if it has ended
        await asyncio.to_thread(self._child.wait, 10)
        self._child = None

    def _tail(self) -> str:
        return self._log.read_bytes()[-2000:].decode(errors="replace")
