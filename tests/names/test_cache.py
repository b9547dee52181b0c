"""The directory's cache by itself: the ages of an answer, clocks that jump, and what gives way."""

import asyncio
from datetime import timedelta

import pytest

from content_gateway.model.record_keys import parse_record_keys
from content_gateway.model.records import Records, Resolved, Staleness
from content_gateway.model.wallet import ETHEREUM, CoinType
from content_gateway.names.cache import (
    MAX_WIDE_BYTES,
    Cache,
    CachedName,
    CachePolicy,
    PlainQuestion,
    PrimaryQuestion,
    WideQuestion,
)
from tests.clock import Clock
from tests.names.services import ALICE, Memory

BOB = Records("0x" + "bb" * 20)
SITE: PlainQuestion = ("site.eth", ETHEREUM)
HOLD_BACK = 3.0


def cache_of(clock: Clock, memory: Memory | None = None, ages: CachePolicy | None = None) -> Cache:
    """A cache on *clock*."""
    return Cache(memory or Memory(), ages=ages, clock=clock, today=clock.today)


def store(cache: Cache, clock: Clock, records: Records | None = ALICE) -> CachedName:
    """Let the cache store *records* now."""
    return cache.store(SITE, records, clock())


# -- ages -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "is_fresh", "revalidating", "if_error"),
    [
        (0, True, True, True),
        (299.9, True, True, True),
        (300, False, True, True),
        (599.9, False, True, True),
        (600, False, False, True),
        (3599.9, False, False, True),
        (3600, False, False, False),
    ],
)
async def test_an_answer_passes_through_four_ages(
    clock: Clock, age: float, is_fresh: bool, revalidating: bool, if_error: bool
) -> None:
    """Fresh, stale while revalidating, stale if there is an error, too old; to the moment."""
    cache = cache_of(clock)
    store(cache, clock)
    clock.pass_(age)
    entry = await cache.load(SITE)
    assert entry is not None
    assert (clock() < entry.ask_again_at) == is_fresh == (cache.staleness(entry) is None)
    assert cache.serves_while_revalidating(entry) == revalidating
    assert cache.serves_if_error(entry) == if_error


def test_absence_is_never_stretched(clock: Clock) -> None:
    """It is fresh for thirty seconds, and never served stale, errors or not."""
    cache = cache_of(clock)
    entry = store(cache, clock, None)
    assert not cache.serves_while_revalidating(entry)
    assert not cache.serves_if_error(entry)
    assert entry.ask_again_at == clock() + 30


def test_staleness_tells_age_and_delay(clock: Clock) -> None:
    """Both in seconds since it was stored and since it was fresh."""
    cache = cache_of(clock)
    entry = store(cache, clock)
    clock.pass_(1000)
    assert cache.staleness(entry) == Staleness(timedelta(seconds=1000), timedelta(seconds=700))


async def test_what_is_stored_replaces_what_was_known(clock: Clock) -> None:
    """Absence included, in memory and in the database."""
    memory = Memory()
    cache = cache_of(clock, memory)
    store(cache, clock)
    clock.pass_(1)
    store(cache, clock, BOB)
    assert memory.kept[SITE] == Resolved(BOB, clock.today())
    store(cache, clock, None)
    assert not memory.kept
    assert await cache.last(SITE) is None


# -- a refresh that fails -------------------------------------------------------------------


def test_after_a_failure_nobody_asks_for_a_while(clock: Clock) -> None:
    """Three seconds, but not beyond the age at which the answer is too old."""
    cache = cache_of(clock)
    entry = store(cache, clock)
    clock.pass_(400)
    cache.record_failure(SITE, clock(), HOLD_BACK)
    assert entry.ask_again_at == clock() + HOLD_BACK
    clock.pass_(3599 - 400)
    cache.record_failure(SITE, clock(), HOLD_BACK)
    assert entry.ask_again_at == clock() + 1


@pytest.mark.parametrize("limit", [0.0, 100.0, 3600.0])
def test_a_forced_refresh_that_fails_does_not_age_a_fresh_answer(
    clock: Clock, limit: float
) -> None:
    """A caller who forces a refresh during an outage takes the answer from nobody."""
    cache = cache_of(clock, ages=CachePolicy(while_revalidating=min(600.0, limit), if_error=limit))
    entry = store(cache, clock)
    clock.pass_(200)
    cache.record_failure(SITE, clock(), HOLD_BACK)
    assert entry.ask_again_at == clock() + 100
    assert cache.serves_if_error(entry)
    assert entry.asked_at == clock()


def test_a_failed_refresh_of_an_absence_counts_as_one(clock: Clock) -> None:
    """The next one may not be forced at once, and the absence lives no longer for it."""
    cache = cache_of(clock)
    entry = store(cache, clock, None)
    until = entry.ask_again_at
    clock.pass_(10)
    cache.record_failure(SITE, clock(), HOLD_BACK)
    assert (entry.asked_at, entry.ask_again_at) == (clock(), until)


async def test_a_failed_refresh_of_an_unknown_name_stores_nothing(clock: Clock) -> None:
    """A failed look-up of an unknown name takes no room in the cache."""
    cache = cache_of(clock)
    cache.record_failure(SITE, clock(), HOLD_BACK)
    assert await cache.load(SITE) is None


# -- the database ---------------------------------------------------------------------------


async def test_what_another_process_stored_has_its_true_age(clock: Clock) -> None:
    """As if this process had stored it at that time."""
    memory = Memory()
    memory.kept[SITE] = Resolved(ALICE, clock.today() - timedelta(seconds=400))
    cache = cache_of(clock, memory)
    entry = await cache.load(SITE)
    assert entry is not None
    assert entry.records is ALICE
    assert cache.staleness(entry) == Staleness(timedelta(seconds=400), timedelta(seconds=100))
    assert entry.asked_at == clock() - 400
    memory.kept.clear()
    assert await cache.load(SITE) is entry, "it was not kept in memory"


async def test_an_answer_from_the_future_is_not_believed(clock: Clock) -> None:
    """A time of storage in the future says nothing about its age."""
    memory = Memory()
    memory.kept[SITE] = Resolved(ALICE, clock.today() + timedelta(seconds=1))
    assert await cache_of(clock, memory).load(SITE) is None


async def test_the_time_of_day_may_jump(clock: Clock) -> None:
    """The age of an entry in memory is counted by the monotonic clock."""
    ahead = [timedelta(0)]
    cache = Cache(Memory(), clock=clock, today=lambda: clock.today() + ahead[-1])
    entry = store(cache, clock)
    for days in (400, -400):
        ahead.append(timedelta(days=days))
        clock.pass_(10)
        assert await cache.load(SITE) is entry
        assert cache.staleness(entry) is None
        assert cache.serves_if_error(entry)


@pytest.mark.parametrize(("limit", "age"), [(0.0, 299), (100.0, 299), (3600.0, 3599)])
async def test_a_restart_believes_what_memory_would(clock: Clock, limit: float, age: float) -> None:
    """A fresh answer serves whatever the limit for stale ones, and no other beyond it."""
    ages = CachePolicy(while_revalidating=min(600.0, limit), if_error=limit)
    memory = Memory()
    store(cache_of(clock, memory, ages), clock)
    clock.pass_(age)
    assert await cache_of(clock, memory, ages).load(SITE) is not None
    clock.pass_(1)
    assert await cache_of(clock, memory, ages).load(SITE) is None


async def test_the_last_answer_is_told_however_old(clock: Clock) -> None:
    """From memory, or from the database; asking for it moves nothing."""
    memory = Memory()
    cache = cache_of(clock, memory)
    resolved = Resolved(ALICE, clock.today())
    store(cache, clock)
    clock.pass_(1_000_000)
    assert await cache.last(SITE) == resolved
    assert await cache_of(clock, memory).last(SITE) == resolved
    assert await cache_of(clock, memory).load(SITE) is None


async def test_a_known_absence_hides_what_the_database_still_has(clock: Clock) -> None:
    """The database may be late, or locked."""
    memory = Memory()
    cache = cache_of(clock, memory)
    store(cache, clock, None)
    memory.kept[SITE] = Resolved(ALICE, clock.today())
    assert await cache.last(SITE) is None
    entry = await cache.load(SITE)
    assert entry is not None
    assert entry.records is None


class Slow(Memory):
    """A database that holds nothing, and says so when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.says = asyncio.Event()

    async def load(self, domain: str, coin: CoinType) -> Resolved | None:
        await self.says.wait()
        return None


async def test_what_was_stored_while_the_database_was_read_is_known(clock: Clock) -> None:
    """A read that takes long, and finds nothing, does not have the name looked up once more."""
    memory = Slow()
    cache = cache_of(clock, memory)
    loading = asyncio.create_task(cache.load(SITE))
    await asyncio.sleep(0)
    stored = store(cache, clock)
    memory.says.set()
    assert await loading is stored


# -- bounds ---------------------------------------------------------------------------------


def name(number: int, coin: CoinType = ETHEREUM) -> PlainQuestion:
    return f"{number}.eth", coin


class Forgetful(Memory):
    """A database that cannot be read or written; it counts how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def load(self, domain: str, coin: CoinType) -> Resolved | None:
        self.asked += 1
        return None

    def store(self, domain: str, coin: CoinType, resolved: Resolved | None) -> None:
        pass


async def known(cache: Cache, *numbers: int) -> list[int]:
    """Which of the names are in memory; this does not count as use (LRU)."""
    return [number for number in numbers if await cache.last(name(number)) is not None]


async def test_the_name_that_was_asked_for_longest_ago_gives_way(clock: Clock) -> None:
    """To ask for a name or to store it keeps it; to read its last known records does not."""
    cache = cache_of(clock, Forgetful(), CachePolicy(max_entries=3))
    for number in range(3):
        cache.store(name(number), ALICE, clock())
    await cache.load(name(0))
    await cache.last(name(1))
    cache.store(name(3), ALICE, clock())
    assert await known(cache, 0, 1, 2, 3) == [0, 2, 3]
    cache.store(name(2), BOB, clock())
    cache.store(name(4), ALICE, clock())
    assert await known(cache, 0, 2, 3, 4) == [2, 3, 4]


async def test_absences_take_room_like_answers(clock: Clock) -> None:
    """Absences count towards the bound on entries."""
    cache = cache_of(clock, Forgetful(), CachePolicy(max_entries=100))
    for number in range(10_000):
        cache.store(name(number), None, clock())
    assert len([n for n in range(10_000) if await cache.load(name(n)) is not None]) == 100


async def test_storing_again_takes_no_more_room(clock: Clock) -> None:
    """One name is one entry; each coin of it is another."""
    cache = cache_of(clock, Forgetful(), CachePolicy(max_entries=2))
    cache.store(name(1), ALICE, clock())
    for _ in range(10):
        cache.store(name(2), ALICE, clock())
    assert await known(cache, 1, 2) == [1, 2]
    cache.store(name(2, CoinType(0)), ALICE, clock())
    assert await known(cache, 1, 2) == [2]


async def test_the_database_is_asked_only_for_what_is_not_in_memory(clock: Clock) -> None:
    """An answer that is in memory needs no database."""
    memory = Forgetful()
    cache = cache_of(clock, memory)
    store(cache, clock)
    for _ in range(100):
        await cache.load(SITE)
        await cache.last(SITE)
    assert memory.asked == 0


# -- more records ---------------------------------------------------------------------------


def wide(number: int) -> WideQuestion:
    return WideQuestion(f"name{number}.eth", ETHEREUM, parse_record_keys("text.avatar"))


async def test_more_records_are_kept_in_memory_only(clock: Clock, memory: Memory) -> None:
    """Another question than without them; a restart forgets them, and names of addresses."""
    cache = cache_of(clock, memory)
    cache.store(wide(1), Records("0x1", more=(("text.avatar", "x"),)), clock())
    cache.store(PrimaryQuestion("0x1", ETHEREUM), Records(primary="a.eth"), clock())
    assert cache.get(wide(1)) is not None
    assert cache.get(PrimaryQuestion("0x1", ETHEREUM)) is not None
    assert cache.get(name(1)) is None
    assert not memory.kept
    assert await cache_of(clock, memory).load(wide(1)) is None


def test_more_records_have_a_bound_of_bytes(clock: Clock) -> None:
    """The least recently used of them give way, and nothing else does."""
    cache, size = cache_of(clock), 1024 * 1024 - 1024
    fit = MAX_WIDE_BYTES // size
    cache.store(name(0), ALICE, clock())
    for number in range(fit):
        cache.store(wide(number), Records(more=(("text.avatar", "x" * size),)), clock())
    assert cache.get(wide(0)) is not None  # used just now
    cache.store(wide(fit), Records(more=(("text.avatar", "x" * size),)), clock())
    cache.store(wide(fit), Records(more=(("text.avatar", "y" * size),)), clock())
    kept = [number for number in range(fit + 1) if cache.get(wide(number)) is not None]
    assert kept == [number for number in range(fit + 1) if number != 1]
    assert cache.get(name(0)) is not None
    cache.store(wide(2), None, clock())  # what is absent has no value
    cache.store(wide(fit + 1), Records(more=(("text.avatar", "x" * size),)), clock())
    assert cache.get(wide(3)) is not None


@pytest.mark.parametrize("value", [None, "\N{GRINNING FACE}" + "x" * 2_000])
def test_the_bound_is_of_memory(clock: Clock, value: str | None) -> None:
    """Keys under which there is nothing count as well, and values as they are kept: in a text with
    one letter of a wide script each letter has four bytes."""
    cache, texts = cache_of(clock), ",".join(f"text.{'x' * 240}{key}" for key in range(20))
    more = parse_record_keys(texts if value is None else "text.avatar")
    records = None if value is None else Records(more=(("text.avatar", value),))
    for number in range(MAX_WIDE_BYTES // 8_000 + 1):
        cache.store(WideQuestion(f"name{number}.eth", ETHEREUM, more), records, clock())
    assert cache.get(WideQuestion("name0.eth", ETHEREUM, more)) is None
