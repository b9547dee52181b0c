"""A process of the race: it pins contents that others pin at the same time, and tells what it got.

Run as `python -m tests.ledger.race URL PROCESS CONTENTS REQUESTS REQUESTORS`; it begins when a line
comes on standard input, and prints one JSON object."""

import asyncio
import random
import sys
from collections import Counter
from typing import Any

import msgspec
import uvloop

from content_gateway.ledger.options import LedgerOptions
from content_gateway.ledger.postgres.ledger import PostgresLedger, ServerOptions
from content_gateway.model.pins import NO_LABEL, Pin
from tests.ledgers import cid

_AT_ONCE = 256


async def race(url: str, process: int, contents: int, requests: int, requestors: int) -> None:
    """Send *requests*, each for one of *contents* by one of *requestors*, as the others do."""
    drawn = random.Random(process)
    added: list[tuple[int, int]] = []
    answers: Counter[str] = Counter()
    server = ServerOptions(url, seconds=60.0)  # a busy machine refuses nobody
    async with PostgresLedger(server, LedgerOptions(60.0, 1_000)) as ledger:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        left = iter(range(requests))

        async def client() -> None:
            for number in left:
                # All go through the contents at about the same pace, in no order.
                content = (number * contents // requests + drawn.randrange(64)) % contents
                who = drawn.randrange(requestors)
                try:
                    one = cid(content)
                    pin = await ledger.pins.add(f"who {who}", one, str(one), NO_LABEL)
                except Exception as wrong:
                    answers[f"{type(wrong).__name__}: {wrong}"] += 1
                else:
                    answers["added" if isinstance(pin, Pin) else "there"] += 1
                    added.append((who, content))

        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(client())
    told: dict[str, Any] = {"answers": answers, "acknowledged": sorted(set(added))}
    sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")


if __name__ == "__main__":
    place, *numbers = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(race(place, *map(int, numbers)))
