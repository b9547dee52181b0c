"""`make bench`: the service against a bare ASGI function, both measured in turn in one run.

Prints the ratio of requests per second for a warm resolve, the time from the start of the
process to its first answer, and the memory of an idle process. Both servers run the same
uvicorn settings and protocol, one process each, one at a time, with the client on the other
core; the ratio is what counts, the absolute figures are the machine's."""

import asyncio
import statistics
import tempfile
from pathlib import Path

import uvloop

from bench.load import requests_per_second
from bench.servers import Started, bare, service

ROUNDS = 7
SECONDS = 1.5
CONNECTIONS = 32
DOMAIN = "site.demo"


async def main() -> None:
    """Measure, and print a line for each figure with its goal."""
    with tempfile.TemporaryDirectory() as folder:
        first_answers, memory = [], []
        for number in range(ROUNDS):
            async with service(Path(folder) / f"start{number}") as started:
                first_answers.append(started.first_answer)
                memory.append(started.resident_megabytes())
        async with bare() as plain, service(Path(folder) / "warm") as ours:
            ratios, rates = await compare(plain, ours)
    print(f"warm resolve      {statistics.median(ratios):.2f} of bare ASGI (goal 0.60)")
    print(f"                  {statistics.median(rates):.0f} requests/s, one process")
    print(f"                  ratios {' '.join(f'{ratio:.2f}' for ratio in ratios)}")
    print(f"start to answer   {statistics.median(first_answers):.2f} s (goal 1.00)")
    print(f"idle memory       {statistics.median(memory):.0f} MB resident (goal 110)")


async def compare(plain: Started, ours: Started) -> tuple[list[float], list[float]]:
    """Ratio and our requests per second of each round; the two servers take turns."""
    path = f"/domain/resolve/{DOMAIN}"
    ratios, rates = [], []
    for number in range(ROUNDS + 1):
        theirs = await requests_per_second(plain.port, path, CONNECTIONS, SECONDS)
        rate = await requests_per_second(ours.port, path, CONNECTIONS, SECONDS)
        if number:  # the first round warms both up
            ratios.append(rate / theirs)
            rates.append(rate)
    return ratios, rates


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
