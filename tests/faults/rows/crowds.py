"""More than the service can carry: slow connections, three times the load, one key that takes all.

The loads are those of the benchmarks, which measure in real seconds; nothing else should run on
the machine meanwhile."""

import asyncio
from typing import Final

from yarl import URL

from bench import fairness, overload
from bench.overload import many_files
from bench.postgres import fill as fill_database
from bench.ways import WAYS
from tests.faults.asking import Single, ask, connect, percentile, session
from tests.faults.ground import NOBODY, Ground, PostgresGround
from tests.faults.row import Figure, Size

_SLOW: Final = {"full": 10_000, "short": 500}
_HEAD: Final = 10.0  # seconds that a head may take
_NOTICED: Final = 2.0  # seconds, in which one process here hears of ten thousand ends
_MOST_TIMES: Final = 3.0
_PINS: Final = {"full": 50_000, "short": 2_000}


async def slow_connections(ground: Ground, size: Size) -> Figure:
    """Half a head each, from eight addresses; somebody asks for /version meanwhile."""
    number, ended = _SLOW[size], list[Single]()
    with many_files():
        async with ground.serving(NOBODY) as service, session() as asking:
            port = URL(service.url).port
            assert port is not None
            over = asyncio.Event()

            def done(single: Single) -> None:
                ended.append(single)
                if len(ended) == number:
                    over.set()

            good = []
            for each in range(number):
                await connect(port, b"GET / HTTP/1.1\r\nHo", each, done)
            while not over.is_set():
                good.append(await ask(asking, "GET", f"{service.url}/version"))
                await asyncio.sleep(0.005)
    late = percentile([answer.seconds for answer in good], 99)
    longest = max(single.seconds for single in ended)
    return Figure(
        f"{number:,} closed, the last after {longest:.1f} s; {len(good):,} good ones beside,"
        f" p99 {late:.0f} ms",
        longest <= _HEAD + _NOTICED and late <= 100 and {one.status for one in good} == {200},
    )


async def three_times_the_load(ground: Ground, size: Size) -> Figure:
    """Three keys with three times the connections of the peak."""
    measured = await overload.three_times(ground.folder, {**NOBODY, **ground.settings})
    part = measured.served / measured.peak
    return Figure(
        f"{part:.0%} of {measured.peak:,.0f}/s; {measured.refused:,.0f} refusals/s, p99"
        f" {measured.refusal:.1f} ms",
        part >= 0.8 and measured.refusal <= 10,
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
