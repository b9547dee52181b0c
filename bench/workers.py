"""Two workers against one: what a request costs, and what that makes of two cores.

The client needs a core too, so on two cores the rates themselves would say what is left of the
machine. So every process of the service is kept to one core and loaded until that is full, and
measured is the CPU time of all of them together for each request: in two workers it has all that
they do for each other, their supervisor, and the smaller batches of each. Two cores then serve
twice what one core does at that cost. What two cores do to each other's caches is not in it."""

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.load import requests_per_second
from bench.servers import Started, on_one_core, serve

CONNECTIONS = 64
SECONDS = 0.7
ROUNDS = 21
PATH = "/domain/resolve/site.demo"
ZONE = '[names."site.demo"]\naddress = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"\n'


@dataclass(frozen=True)
class Measured:
    """*ratio* of what two workers serve on two cores to what one process serves on one; the medians
    of CPU microseconds a request that it is made of, and what part of them *busiest* took."""

    ratio: float
    one: float
    two: float
    busiest: float


async def two_against_one(folder: Path) -> Measured:
    """The median of rounds in turn; both count a limit that is never reached."""
    zone = folder / "zone.toml"
    zone.write_text(ZONE)
    settings = {
        "CONTENT_GATEWAY_KEYS__MODE": "open",
        "CONTENT_GATEWAY_NAMES__ZONE_FILE": str(zone),
        "CONTENT_GATEWAY_LIMITS__REQUESTS_PER_MINUTE": "100000000",
        "CONTENT_GATEWAY_ADMIN__PORT": "0",
    }
    rounds = []
    async with (
        serve(folder / "one", settings) as one,
        serve(folder / "two", settings | {"CONTENT_GATEWAY_WORKERS": "2"}) as two,
    ):
        with on_one_core(one, two, *two.children()):
            for number in range(ROUNDS + 1):
                each = await costs(one), await costs(two)
                if number:  # the first round warms all of them up
                    rounds.append(each)
    return Measured(
        statistics.median(2 * sum(alone) / sum(both) for alone, both in rounds),
        statistics.median(sum(alone) * 1e6 for alone, _ in rounds),
        statistics.median(sum(both) * 1e6 for _, both in rounds),
        statistics.median(max(both) / sum(both) for _, both in rounds),
    )


async def costs(server: Started) -> list[float]:
    """CPU seconds a request, of each process of the service."""
    with _cpu_of([server, *server.children()]) as seconds:
        rate = await requests_per_second(server.port, PATH, CONNECTIONS, SECONDS)
    return [each / (rate * SECONDS) for each in seconds]


@contextmanager
def _cpu_of(processes: list[Started]) -> Iterator[list[float]]:
    """The CPU seconds of each process until the exit."""
    before = [_cpu_seconds(each.pid) for each in processes]
    took: list[float] = []
    yield took
    took += [_cpu_seconds(each.pid) - then for each, then in zip(processes, before, strict=True)]


def _cpu_seconds(pid: int) -> float:
    """What all threads of the process had of the CPU so far (schedstat of proc(5))."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in tasks) / 1e9
