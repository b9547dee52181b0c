"""Gateways with a rate limit: what they hold is fetched in one attempt."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.gateways import TrustlessGateways
from content_gateway.backends.embedded.rate_limit import (
    LONGEST_PAUSE,
    LONGEST_REST,
    MOST_PAUSES,
    RateLimit,
    parse_retry_after,
)
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.errors import PinDeferred, PinFailed
from content_gateway.model.content_state import TrackerStatus
from content_gateway.net.http_client import HttpClient
from tests.backends.backends import pin, status
from tests.fakes.origin import Origin
from tests.ipld.dags import file, raw

NOW = datetime(2026, 11, 22, 8, 0, 0, tzinfo=UTC)


@pytest.fixture
def alone(blocks: Blockstore, outbound: HttpClient, origin: Origin) -> EmbeddedStore:
    return EmbeddedStore(blocks, TrustlessGateways(outbound, [origin.url], seconds=30))


@pytest.mark.parametrize("cars", [True, False], ids=["cars", "raw blocks only"])
@pytest.mark.parametrize("retry_after", ["1", None], ids=["says when", "does not say when"])
async def test_a_limited_gateway_brings_in_a_tree_in_one_try(
    alone: EmbeddedStore, origin: Origin, cars: bool, retry_after: str | None
) -> None:
    """Its refusals are heard: few requests are refused, and no try ends because of them."""
    root, origin.blocks = file(150, 50)
    origin.cars, origin.cut_after = cars, 20  # a CAR of it breaks off: the rest is raw blocks
    origin.rate, origin.burst, origin.retry_after = 300.0, 20.0, retry_after
    begun = time.monotonic()
    async with asyncio.timeout(60):
        await pin(alone, root)
    took = time.monotonic() - begun
    assert await status(alone, root) is TrackerStatus.PINNED
    # A busy machine may be slower than the limit.
    assert origin.refused or len(origin.requests) < origin.burst + origin.rate * took
    # Half, where a busy machine lets its bursts gather; without being heard it is nearly all.
    assert origin.refused < len(origin.requests) / 2


async def test_who_asks_to_be_left_alone_is_and_others_are_asked_meanwhile(
    store: EmbeddedStore, origin: Origin, other: Origin
) -> None:
    """For as long as it said: the other gateway brings in the tree."""
    root, origin.blocks = file(100, 50)
    other.blocks = origin.blocks
    origin.cars = other.cars = False
    origin.rate, origin.burst, origin.retry_after = 1.0, 10.0, "30"
    async with asyncio.timeout(60):
        await pin(store, root)
    assert origin.refused <= 20  # what was on its way when the first was refused
    assert len(origin.requests) <= 10 + 20 + 1


@pytest.mark.parametrize("retry_after", ["86400", str(10**30), "0", None])
async def test_one_that_takes_nothing_puts_the_pin_off(
    alone: EmbeddedStore, origin: Origin, retry_after: str | None
) -> None:
    """For a day, or again and again: the pin says so, and nobody waits for a day."""
    root, origin.blocks = raw(b"hello")
    origin.rate, origin.retry_after = 0.0, retry_after
    async with asyncio.timeout(60):
        with pytest.raises(PinDeferred, match="429"):
            await pin(alone, root)
    assert len(origin.requests) <= MOST_PAUSES


async def test_a_refusal_is_no_verdict_on_a_block(
    store: EmbeddedStore, origin: Origin, other: Origin
) -> None:
    """One gateway does not have it, and the other takes no requests now: the pin is put off."""
    root, _ = raw(b"hello")
    origin.rate, origin.retry_after = 0.0, "3600"
    with pytest.raises(PinDeferred):
        await pin(store, root)
    assert len(origin.requests) == 1


@pytest.mark.parametrize("status", [200, 400, 406, 415])
async def test_a_gateway_that_serves_files_only_is_named_so(
    alone: EmbeddedStore, origin: Origin, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """It did nothing wrong: it is no trustless gateway, and the reason says that."""
    root, origin.blocks = file(3, 10)
    origin.files_only = status
    with pytest.raises(PinFailed, match="It serves files only") as failed:
        await pin(alone, root)
    assert "wrong bytes" not in failed.value.detail
    said = capsys.readouterr()
    assert "wrong bytes" not in said.out + said.err


@pytest.mark.parametrize(
    ("field", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90.0),
        (format_datetime(NOW - timedelta(days=1), usegmt=True), 0.0),
        ("Sunday, 22-Nov-26 08:00:30 GMT", 30.0),  # RFC 850, which recipients must understand
        ("Sun Nov 22 08:00:30 2026", 30.0),  # asctime, likewise
        (None, None),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("1.5", None),
        ("\u0663", None),
        ("Sun, 99 Nov 2026 08:00:00 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(field: str | None, seconds: float | None) -> None:
    """RFC 9110 section 10.2.3; what is neither is as if it were not there."""
    assert parse_retry_after(field, NOW) == seconds


def test_a_number_without_end_is_no_number_without_end() -> None:
    assert (parse_retry_after("9" * 5_000, NOW) or 0) >= LONGEST_REST


class Bucket:
    """A gateway's limit on a clock of its own: a rate, and a burst."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst = rate, burst
        self.tokens, self.since = burst, 0.0

    def takes(self, now: float) -> bool:
        self.tokens = min(self.burst, self.tokens + (now - self.since) * self.rate)
        self.since = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


@pytest.mark.parametrize(("rate", "burst"), [(50.0, 1.0), (50.0, 50.0), (50.0, 500.0), (5.0, 1.0)])
async def test_the_rate_of_a_gateway_is_found(rate: float, burst: float) -> None:
    """On a virtual clock: 2,300 requests take about as long as the limit makes them, and few
    are refused."""
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    pace, bucket = RateLimit(lambda: now, sleep), Bucket(rate, burst)
    answered = refused = 0
    while answered < 2_300:
        await pace.turn()
        asked_at, now = pace.now(), now + 0.001
        if bucket.takes(now):
            answered += 1
            pace.answered()
        else:
            refused += 1
            pace.refused(asked_at, 1.0)
    ideal = (2_300 - burst) / rate
    assert now < 1.25 * ideal + 5
    assert refused < 2_300 / 50


async def test_a_pause_is_bounded() -> None:
    """Whatever a gateway asks for, it is asked again some day."""
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    pace = RateLimit(lambda: now, sleep)
    pace.refused(now, 10.0**12)
    assert pace.takes_nothing
    assert LONGEST_PAUSE < pace.pause <= LONGEST_REST
    now += LONGEST_REST
    assert not pace.takes_nothing
    await pace.turn()
    assert now < LONGEST_REST + 30
