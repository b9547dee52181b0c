"""A service that kills itself with SIGKILL at a named point, without its edge.

Run as a program it wires the real ledger, reconciler, resync and backend as the service does, takes
requests as lines ("add KEY CID", "remove KEY CID") and says each back once it is
acknowledged. A process passes a point before and after every call of a port; at the given passage
of the given point it is gone."""

import asyncio
import inspect
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

from content_gateway.api_keys import OpenKeys
from content_gateway.denylist.denylist import Denylist
from content_gateway.errors import PinNotFound
from content_gateway.model.cid import Cid
from content_gateway.pins.pinning import Pinning
from content_gateway.settings.model import Settings
from content_gateway.settings.sources import load
from content_gateway.telemetry.logs import configure
from content_gateway.wiring.ledgers import ledger_of
from content_gateway.wiring.pins import wire_pins


def _around(*calls: str) -> tuple[str, ...]:
    return tuple(f"{when} {call}" for call in calls for when in ("before", "after"))


RESYNC_POINTS: Final = _around(
    "acquire_job", "pinset", "known", "final_pins", "report", "finish_job"
)
"""Passed once in a short life."""
FAILPOINTS: Final = (
    *_around("add", "remove", "lease", "status", "begin", "pin", "unpin", "record_outcomes"),
    *RESYNC_POINTS,
)


class Failpoint:
    """The point at which this process dies, when it has passed it so many times."""

    def __init__(self, point: str, passages: int) -> None:
        self._point = point
        self._left = passages

    def passing(self, point: str) -> None:
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class Watched:
    """A port whose calls pass a point before and after."""

    def __init__(self, port: Any, failpoint: Failpoint) -> None:
        self._port = port
        self._failpoint = failpoint

    def __getattr__(self, name: str) -> Any:
        attribute, failpoint = getattr(self._port, name), self._failpoint
        if inspect.isasyncgenfunction(attribute):

            async def listed(*arguments: Any, **named: Any) -> AsyncIterator[Any]:
                failpoint.passing(f"before {name}")
                async for each in attribute(*arguments, **named):
                    yield each
                failpoint.passing(f"after {name}")

            return listed
        if not inspect.iscoroutinefunction(attribute):
            return attribute

        async def watched(*arguments: Any, **named: Any) -> Any:
            failpoint.passing(f"before {name}")
            answer = await attribute(*arguments, **named)
            failpoint.passing(f"after {name}")
            return answer

        return watched


@asynccontextmanager
async def opened(settings: Settings, failpoint: Failpoint) -> AsyncIterator[Pinning]:
    """The running parts that keep pins, as the service wires them."""
    async with AsyncExitStack() as stack:
        ledger = await stack.enter_async_context(ledger_of(settings))
        around: Any = lambda port: Watched(port, failpoint)  # noqa: E731 - a port is any
        pins = await wire_pins(stack, settings, ledger, Denylist(None, None), around=around)
        if pins.blocks is not None:
            pins.blocks.collect()
        pins.reconciler.start()
        pins.resync.start()
        yield pins.pinning


async def grant(pinning: Pinning, request: str) -> None:
    """Do what a line asks for, and say that it is done."""
    what, key, cid = request.split()
    requestor = OpenKeys().remembered(key).id
    if what == "add":
        await pinning.add(requestor, cid)
    else:
        with suppress(PinNotFound):
            await pinning.remove(requestor, Cid.parse(cid))
    print(request, flush=True)


async def main(point: str, passages: str) -> None:
    """Serve the lines of standard input until it ends, or until death."""
    settings = load(environ=dict(os.environ)).settings
    configure("error", "text")
    lines = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(lines)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    failpoint = Failpoint(point, int(passages))
    async with opened(settings, failpoint) as pinning, asyncio.TaskGroup() as tasks:
        while line := await lines.readline():
            tasks.create_task(grant(pinning, line.decode().strip()))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
