"""`make bench-before BEFORE=DIR`: this checkout's service against that of another checkout.

DIR holds another revision with a `.venv` of its own (`make setup` there). Both services take turns
on one core with the clients on the other, so that a ratio holds while the machine's speed drifts.
Each request here is told in the access log and counted against its key's limits, there as far as
that revision can. What is measured is left to the modules of `make bench`."""

import asyncio
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from bench.__main__ import CONNECTIONS, DOMAIN
from bench.load import Load, requests_per_second
from bench.pins import CLIENTS, NOBODY, additions, repeats
from bench.servers import Started, on_one_core, service
from content_gateway.concurrency.contention import ALONE_AFTER

ROUNDS = 41  # of fewer the median is a matter of chance: half of them are five per cent off
STARTS = 21
SECONDS = 0.7
_NEVER = str(10**9)
WATCHED = NOBODY | {
    "CONTENT_GATEWAY_LOG__ACCESS": "on",
    "CONTENT_GATEWAY_LIMITS__REQUESTS_PER_MINUTE": _NEVER,
    "CONTENT_GATEWAY_LIMITS__REQUESTS_PER_DAY": _NEVER,
}


async def main(other: Path) -> None:
    """Measure, and print each figure as a part of what it was in *other*."""
    python = str(other / ".venv" / "bin" / "python")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"start             {await _starts(folder, python):.2f} of the speed before")
        async with (
            service(folder / "before", WATCHED, python=python) as before,
            service(folder / "after", WATCHED) as after,
        ):
            await asyncio.sleep(ALONE_AFTER)  # whoever waited for their first answer was another
            with on_one_core(before, after):
                for what, measure in (
                    ("warm resolve", _resolves),
                    ("new pins", _new_pins),
                    ("repeated pins", _repeated_pins),
                ):
                    await _compare(what, measure, before, after)


async def _starts(folder: Path, python: str) -> float:
    """How fast the first answer comes, as a part of how fast it came from *python*'s checkout."""
    ratios = []
    for number in range(STARTS + 1):
        seconds = {}
        # Who is first changes from round to round, as in `_compare`.
        for who in (python, sys.executable) if number % 2 else (sys.executable, python):
            async with service(folder / f"start{number}{who == python}", python=who) as server:
                seconds[who] = server.first_answer
        if number:  # the first round compiles what is imported
            ratios.append(seconds[python] / seconds[sys.executable])
    return statistics.median(ratios)


async def _compare(
    what: str, measure: Callable[[Started], Awaitable[float]], before: Started, after: Started
) -> None:
    """Print how *measure* of the two compares, in the median and the middle half of the rounds."""
    ratios = []
    for number in range(ROUNDS + 1):
        # Who is first changes from round to round: what is left over from a turn hurts the next.
        order = (before, after) if number % 2 else (after, before)
        rates = {server.pid: await measure(server) for server in order}
        if number:  # the first round warms both up
            ratios.append(rates[after.pid] / rates[before.pid])
    low, middle, high = statistics.quantiles(ratios)
    print(f"{what:17} {middle:.2f} of before, middle half of rounds {low:.2f} to {high:.2f}")


async def _resolves(server: Started) -> float:
    path = f"/domain/resolve/{DOMAIN}"
    return await requests_per_second(server.port, path, CONNECTIONS, SECONDS)


async def _new_pins(server: Started) -> float:
    return (await Load(server.port, additions(server.port), CLIENTS).run(SECONDS)).rate


async def _repeated_pins(server: Started) -> float:
    return (await Load(server.port, repeats(server.port), CLIENTS).run(SECONDS)).rate


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(Path(sys.argv[1])))
