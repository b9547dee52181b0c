"""More than the service can carry: slow connections, three times the load, one key that takes all.

The loads are those of the benchmarks. Where milliseconds must hold, a server that does nothing is
asked beside the service by the same clients: what its answers take is the machine's and theirs."""

import asyncio
from typing import Final

from yarl import URL

from bench import fairness, overload
from bench.overload import many_files
from bench.postgres import fill as fill_database
from bench.servers import bare
from bench.ways import WAYS
from tests.faults.asking import Single, connect, tails_of_version
from tests.faults.ground import NOBODY, Ground, PostgresGround
from tests.faults.row import Figure, Size

_SLOW: Final = {"full": 10_000, "short": 500}
_HEAD: Final = 10.0  # seconds that a head may take
_NOTICED: Final = 2.0  # seconds, in which one process here hears of ten thousand ends
_LATE: Final = 100.0  # milliseconds
_MOST_TIMES: Final = 3.0
_PINS: Final = {"full": 50_000, "short": 2_000}


async def slow_connections(ground: Ground, size: Size) -> Figure:
    """Half a head each, from eight addresses; somebody asks for /version meanwhile."""
    number, ended = _SLOW[size], list[Single]()
    with many_files():
        async with bare() as other, ground.serving(NOBODY) as service:
            port = URL(service.url).port
            assert port is not None
            over = asyncio.Event()

            def done(single: Single) -> None:
                ended.append(single)
                if len(ended) == number:
                    over.set()

            urls = (service.url, f"http://127.0.0.1:{other.port}")
            async with tails_of_version(*urls) as tails:
                for each in range(number):
                    await connect(port, b"GET / HTTP/1.1\r\nHo", each, done)
                await over.wait()
    late, idle = tails
    longest = max(single.seconds for single in ended)
    return Figure(
        f"{number:,} closed, the last after {longest:.1f} s; good ones beside: p99 {late:.0f} ms,"
        f" a bare server {idle:.0f} ms",
        longest <= _HEAD + _NOTICED and late - idle <= _LATE,
    )


async def three_times_the_load(ground: Ground, size: Size) -> Figure:
    """Three keys with three times the connections of the peak."""
    measured = await overload.three_times(ground.folder, {**NOBODY, **ground.settings})
    return Figure(
        f"{measured.part:.0%} of {measured.peak:,.0f}/s; {measured.refused:,.0f} refusals/s, p99"
        f" {measured.refusal:.1f} ms, a bare server {measured.bare:.1f} ms",
        measured.part >= 0.8 and measured.refused > 0 and measured.refusal - measured.bare <= 10,
    )


async def one_key_at_full_load(ground: Ground, size: Size) -> Figure:
    """Each way to take all; embedded blocks are on one machine, so without a shared ledger."""
    ways = [way for way in WAYS if way not in fairness.STREAMS or not ground.settings]
    if size == "short":
        ways = ["repeated pins"]
    told, holds = [], True
    async with fairness.upstreams() as url:
        for way in ways:
            folder = ground.folder / way.replace(" ", "-")
            place = await _filled(ground, _PINS[size])
            tail = await fairness.measured(folder, way, url, place)
            holds = holds and tail.ratio <= _MOST_TIMES
            told.append(f"{way} {tail.ratio:.1f}")
    return Figure("times p99 alone: " + ", ".join(told), holds)


async def _filled(ground: Ground, pins: int) -> dict[str, str]:
    """The settings of a ledger with many pins of the one; none for a file, which is filled then."""
    if not isinstance(ground, PostgresGround):
        return {}
    new = PostgresGround(ground.folder, ground.server)
    await asyncio.to_thread(fill_database, new.server, new.database, pins)
    return dict(new.settings)
