"""The real command as a process of its own: started, asked, killed.

Its settings reach nobody but loopback; it dies with the test."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

COMMAND = [sys.executable, "-m", "content_gateway"]
# Nobody to ask, and no second listener.
QUIET = {
    "CONTENT_GATEWAY_ENS__RPC_URLS": "[]",
    "CONTENT_GATEWAY_BASENAMES__RPC_URLS": "[]",
    "CONTENT_GATEWAY_GNOSIS__RPC_URLS": "[]",
    "CONTENT_GATEWAY_IPNS__ROUTERS": "[]",
    "CONTENT_GATEWAY_IPNS__GATEWAYS": "[]",
    "CONTENT_GATEWAY_EMBEDDED__GATEWAYS": "[]",
    "CONTENT_GATEWAY_CONTENT__GATEWAYS": "[]",
    "CONTENT_GATEWAY_ADMIN__PORT": "0",
}


class Running:
    """A started command that listens at *url*; *said* is what it printed until then."""

    def __init__(self, child: subprocess.Popen[str], url: str, said: str, log: Path) -> None:
        self.child = child
        self.url = url
        self.said = said
        self.log = log  # where all that it prints is

    def kill(self) -> None:
        """Kill -9, now."""
        self.child.send_signal(signal.SIGKILL)
        self.child.wait(60)

    @property
    def most_memory(self) -> int:
        """The most memory it has had so far, in bytes (VmHWM of proc(5))."""
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024

    async def stop(self, seconds: float = 20.0) -> int:
        """SIGTERM, and the exit status once it has ended."""
        self.child.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(self.child.wait, seconds)


@asynccontextmanager
async def running(
    command: str,
    data: Path,
    settings: Mapping[str, str] | None = None,
    program: Sequence[str] = COMMAND,
    *,
    handed: Sequence[int] = (),
) -> AsyncIterator[Running]:
    """`content-gateway` *command* (`dev`, `serve`) on a free port, with its data in *data*.

    *program* stands in for `content-gateway`, and the descriptors *handed* stay open in it."""
    environment = {name: value for name, value in os.environ.items() if "GATEWAY" not in name}
    environment |= QUIET | {
        "CONTENT_GATEWAY_DATA_DIR": str(data),
        "CONTENT_GATEWAY_PORT": "0",
        "PYTHONUNBUFFERED": "1",
    }
    environment |= settings or {}
    with (data.parent / f"{data.name}.log").open("a+") as log:
        child = subprocess.Popen(
            [*program, command],
            env=environment,
            stdout=log,
            stderr=log,
            text=True,
            pass_fds=handed,
        )
        try:
            said, url = await _address(child, Path(log.name), log.tell())
            yield Running(child, url, said, Path(log.name))
        finally:
            if child.poll() is None:
                child.kill()
            child.wait(60)


async def _address(child: subprocess.Popen[str], log: Path, start: int) -> tuple[str, str]:
    """What the child printed, and the address in it."""
    for _ in range(1000):
        said = log.read_text()[start:]
        if found := re.search(r"istening on (http://[^\s,]+)", said):
            return said, found[1]
        if child.poll() is not None:
            raise AssertionError(f"it ended with {child.returncode}: {said}")
        await asyncio.sleep(0.02)
    raise AssertionError(f"it does not listen: {said}")
