"""`make bench`: what the service costs, against the least it could cost, in one run.

Prints a line for each figure with its goal. Ratios and differences are what counts, the absolute
figures are the machine's: the service and what it is compared with take turns, one process each,
with the client on the other core. Without the real servers (`make peers`) the figures that need
them are left out, and said to be."""

import asyncio
import statistics
import tempfile
from pathlib import Path

import uvloop

from bench import (
    chain,
    codecs,
    fairness,
    overload,
    pins,
    postgres,
    psa,
    shared_limits,
    workers,
)
from bench.load import requests_per_second
from bench.retrieval import retrieval
from bench.servers import Started, bare, service
from tests.world.peers import find_peer

STARTS = 7
ROUNDS = 21
SECONDS = 0.7
CONNECTIONS = 32
DOMAIN = "site.demo"


async def main() -> None:
    """Measure, and print."""
    with tempfile.TemporaryDirectory() as folder:
        await warm(Path(folder))
        await by_workers(Path(folder))
        if find_peer("valkey-server") is None:
            print("shared limits     not measured: `make peers` has not been run")
        else:
            await limited(Path(folder))
        computation()
        await fair(Path(folder))
        await overloaded(Path(folder))
        await pinned(Path(folder))
        if find_peer("postgresql-15") is None:
            print("pins, PostgreSQL  not measured: `make peers` has not been run")
        else:
            await shared(Path(folder))
        if find_peer("anvil") is None:
            print("cold resolve      not measured: `make peers` has not been run")
        else:
            await with_a_node(Path(folder))
        if find_peer("ipfs-cluster-service") is None:
            print("pins by PSA       not measured: `make peers` has not been run")
        else:
            await with_a_cluster(Path(folder))


async def warm(folder: Path) -> None:
    """The service's start, and a name that it knows, against a bare ASGI function."""
    first_answers, memory = [], []
    for number in range(STARTS):
        async with service(folder / f"start{number}") as started:
            first_answers.append(started.first_answer)
            memory.append(started.resident_megabytes())
    async with bare() as plain, service(folder / "warm") as ours:
        ratios, rates = await compare(plain, ours)
    quartiles = statistics.quantiles(ratios)
    print(f"warm resolve      {quartiles[1]:.2f} of bare ASGI (goal 0.70)")
    print(f"                  middle half of rounds {quartiles[0]:.2f} to {quartiles[2]:.2f}")
    print(f"                  {statistics.median(rates):.0f} requests/s, one process")
    print(f"start to answer   {statistics.median(first_answers):.2f} s (goal 1.00)")
    print(f"idle memory       {statistics.median(memory):.0f} MB resident (goal 110)")


async def by_workers(folder: Path) -> None:
    """What a second core is worth."""
    found = await workers.two_against_one(folder)
    print(f"two workers       {found.ratio:.2f} times one, by CPU time a request (goal 1.70)")
    print(f"                  {found.two:.0f} us each with their supervisor, {found.one:.0f} us")


async def limited(folder: Path) -> None:
    """Limits that services share through a store."""
    ratio = await shared_limits.cost(folder / "sharing")
    print(f"shared limits     {ratio:.2f} of warm resolve without (goal 0.97)")
    over = sorted(await shared_limits.beyond(folder / "beyond"))
    median = statistics.median(over)
    print(f"                  {median:.0f} beyond a limit of 1000, {over[-1]} at worst")


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


def computation() -> None:
    """Names and records, in this process."""
    plain = codecs.name_microseconds("name{}.some-parent.eth")
    other = codecs.name_microseconds("b\u00fccher{}.eth")
    print(f"name and codecs   {plain:.0f} us plain, {other:.0f} us not plain (goal 150)")
    print(f"ipns verification {codecs.record_microseconds():.0f} us (goal 100)")


async def fair(folder: Path) -> None:
    """One key at full load, and what another has of it."""
    async for tail in fairness.tails(folder / "fair"):
        print(fairness.shown(tail))


async def overloaded(folder: Path) -> None:
    """What is left for those who behave."""
    half = await overload.half_open(folder)
    print(f"half-open         p99 {half.beside:.1f} ms beside {half.open} of them (goal 100)")
    print(f"                  {half.alone:.1f} ms alone")
    over = await overload.three_times(folder)
    print(f"three times       {over.served / over.peak:.2f} of the peak is served (goal 0.80)")
    print(f"                  {over.refused:.0f}/s refused, p99 {over.refusal:.1f} ms (goal 10)")


async def pinned(folder: Path) -> None:
    """Pins in the ledger, and content in the embedded store."""
    rates = await pins.rates(folder)
    print(f"new pins          {rates.new:.0f}/s durable, {pins.CLIENTS} clients (goal 8000)")
    print(f"                  {rates.new_of_bare:.2f} of bare ASGI")
    print(f"repeated pins     {rates.of_bare:.2f} of bare ASGI (goal 0.50), {rates.repeats:.0f}/s")
    for what, leaves, size in (("10 kB blocks", 10_000, 10_000), ("256 KiB blocks", 400, 2**18)):
        speed = await retrieval(leaves, size)
        print(f"pin by CAR        {speed.ratio:.2f} of plain download, {what} (goal 0.50)")
        print(f"                  {speed.ours:.0f} MB/s against {speed.plain:.0f} MB/s")
    # Last, as it leaves the disk with gigabytes to write.
    tails = await pins.tails(folder)
    print(f"add with many     p99 {tails.ratio:.2f} times that with {pins.FEW} (goal 1.20)")
    print(f"                  {tails.many:.1f} ms with {pins.MANY}, {tails.few:.1f} ms")


async def shared(folder: Path) -> None:
    """Pins in a ledger in PostgreSQL."""
    rates = await postgres.rates(folder / "postgres")
    print(f"pins, PostgreSQL  {rates.new_of_sqlite:.2f} of SQLite's new ones (goal 0.80)")
    print(f"                  {rates.new:.0f}/s new, {rates.repeats:.0f}/s repeated")
    print(f"                  {rates.of_bare:.2f} of bare ASGI, repeated (goal 0.40)")
    tails = await postgres.tails(folder / "tails")
    print(f"                  p99 {tails.ratio:.2f} times that with {pins.FEW} (goal 1.20)")
    print(f"                  {tails.many:.1f} ms with {pins.MANY}, {tails.few:.1f} ms")


async def with_a_node(folder: Path) -> None:
    """Cold names, and an outage."""
    async with chain.stand(folder) as stand:
        ours, raw = await chain.cold(stand)
        print(f"cold resolve      {ours - raw:.2f} ms more than a raw eth_call (goal 1)")
        print(f"                  {ours:.2f} ms against {raw:.2f} ms, medians")
        outage = await chain.outage(stand)
    print(f"node stopped      known names {outage.known:.2f} ms (goal 5), marked as stale")
    print(f"                  unknown names refused in {outage.unknown:.2f} ms (goal 50)")
    print(f"node back         unknown names after {outage.recovery_unknown:.1f} s (goal 5)")
    print(f"                  known ones unmarked after {outage.recovery_known:.1f} s (goal 5)")


async def with_a_cluster(folder: Path) -> None:
    """Pins, beside a cluster's own APIs."""
    rates = await psa.rates(folder / "psa")
    print(f"pins by PSA       {rates.ratio:.2f} of the cluster's own (goal 0.50)")
    print(f"                  {rates.ours:.0f}/s; REST {rates.rest:.0f}, its PSA {rates.psa:.0f}")


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
