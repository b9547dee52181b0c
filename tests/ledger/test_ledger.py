"""The pins of requestors, over every adapter: added, described, replaced, removed, found and
paged."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise, permutations

import pytest

from content_gateway.api_keys import IssuedKeys
from content_gateway.errors import KeyRefused, PinLimitReached
from content_gateway.ledger.additions import next_timestamp
from content_gateway.ledger.sqlite.additions import MAX_ROWS
from content_gateway.model.backlog import PENDING
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import (
    BackendStatus,
    ContentState,
    Event,
    Outcome,
    TrackerStatus,
)
from content_gateway.model.pins import NO_LABEL, Label, Match, Page, Pin, Removal, Search
from content_gateway.wiring.ledgers import ObservableWorkQueue
from tests.ledger.stands import Opened, Stand
from tests.ledgers import GRACE, Clock, Held, World, as_it_is, cid, quota

SECOND = 1_000_000


async def add(ledger: Held, number: int, who: str = "anna", label: Label = NO_LABEL) -> Pin:
    pin = await ledger.add(who, cid(number), str(cid(number)), label)
    assert pin is not None
    return pin


async def listed(ledger: Held, who: str = "anna", search: Search | None = None) -> list[Pin]:
    page = await ledger.search(who, search or Search(limit=1000), as_it_is)
    return [status.pin for status in page.pins]


async def states(stand: Stand) -> dict[int, str]:
    """The state of each content, by its number."""
    found = await stand.run("SELECT cid, state FROM contents")
    return {int.from_bytes(Cid.parse(text).digest, "big"): state for text, state in found}


async def seen(contents: ObservableWorkQueue, event: Event, again_in: float | None = None) -> None:
    """All that is due has come to *event*."""
    items = await contents.lease("test", 30.0, quota(1000))
    await contents.record_outcomes("test", [(item, Outcome(event, again_in)) for item in items])


# Adding.


async def test_a_pin_is_added_once(ledger: Held) -> None:
    """The second request changes nothing, whatever it says of the pin."""
    first = await add(ledger, 1, label=Label("one"))
    assert await ledger.add("anna", cid(1), "other spelling", Label("two")) is None
    assert await listed(ledger) == [first]


async def test_requestors_do_not_see_each_other(ledger: Held) -> None:
    """Two hold one content, each with a pin, a spelling and a label of its own."""
    a = await ledger.add("anna", cid(1), "uABC", Label("hers"))
    b = await ledger.add("ben", cid(1), str(cid(1)), Label("his", ("/dnsaddr/x",), {"k": "v"}))
    assert (await listed(ledger, "anna"), await listed(ledger, "ben")) == ([a], [b])
    assert await ledger.holds("anna", cid(1))
    assert not await ledger.holds("cleo", cid(1))
    assert not await ledger.holds("anna", cid(2))


async def test_a_burst_of_one_request_adds_one_pin(world: World) -> None:
    """Sixty-four callers at once with a hundred contents: each is added once, to one of them."""
    requests = [("anna", number % 100) for number in range(6400)]
    pins = await asyncio.gather(
        *(world.ledger.add(who, cid(n), str(cid(n)), NO_LABEL) for who, n in requests)
    )
    made = [pin for pin in pins if pin is not None]
    assert len(made) == 100
    assert sorted(await listed(world.ledger), key=str) == sorted(made, key=str)


async def test_a_burst_of_many_requestors_keeps_them_apart(ledger: Held) -> None:
    """Written in one transaction, pins of many requestors and contents are what each asked for."""
    requests = [(f"r{n % 7}", n % 50, Label(f"name {n}", meta={"n": str(n)})) for n in range(350)]
    pins = await asyncio.gather(
        *(ledger.add(who, cid(n), f"spelt {n}", label) for who, n, label in requests)
    )
    for (who, number, label), pin in zip(requests, pins, strict=True):
        assert pin is not None
        assert (pin.label, pin.spelling) == (label, f"spelt {number}")
        assert pin in await listed(ledger, who)


async def test_repeats_use_up_no_numbers(ledger: Held, stand: Stand) -> None:
    """A resync keeps a bit for each number that a content has had, so they stay close together."""
    await asyncio.gather(*(add(ledger, number) for number in range(100)))
    requests = [*range(100), 100, *range(100), 101]
    again = (ledger.add("ben", cid(n), str(cid(n)), NO_LABEL) for n in requests * 5)
    assert sum(pin is not None for pin in await asyncio.gather(*again)) == 102
    ((most,),) = await stand.run("SELECT max(id) FROM contents")
    assert most <= 102 + MAX_ROWS


@pytest.mark.parametrize(
    "name", ["", "ä\u0301 ✓", "'; DROP TABLE pins; --", "12", "null", "x" * 255]
)
@pytest.mark.parametrize("is_known", [False, True])
async def test_labels_are_kept_letter_by_letter(world: World, name: str, is_known: bool) -> None:
    """Whatever text it is; a content that is known already goes another way into the table."""
    label = Label(name, ("/ip4/127.0.0.1/tcp/1", name), {name or "k": name})
    if is_known:
        await world.promise(1, who="ben")
    pin = await add(world.ledger, 1, label=label)
    assert pin.label == label
    assert (await world.status(1)).pin == pin


# Moments.


def test_the_next_timestamp_is_the_next_free_millisecond() -> None:
    """As long as that is no more than a second ahead; then the next free microsecond."""
    now = 5_000 * SECOND + 123_456
    assert next_timestamp(now, None) == 5_000 * SECOND + 123_000
    assert next_timestamp(now, now - SECOND) == 5_000 * SECOND + 123_000
    assert next_timestamp(now, 5_000 * SECOND + 123_000) == 5_000 * SECOND + 124_000
    assert next_timestamp(now, now + SECOND) == now + SECOND + 1
    assert next_timestamp(now, now + 9 * SECOND) == now + 9 * SECOND + 1  # the clock was set back


def test_moments_only_grow() -> None:
    """However fast they are asked for, and wherever the clock goes."""
    moments, last = [], None
    for now in [10 * SECOND] * 3000 + [4 * SECOND] * 10 + [30 * SECOND] * 10:
        last = next_timestamp(now, last)
        moments.append(last)
    assert all(earlier < later for earlier, later in pairwise(moments))
    assert sum(moment % 1000 == 0 for moment in moments) > 1000


async def test_a_burst_gives_every_pin_its_own_moment(ledger: Held, clock: Clock) -> None:
    """Three thousand pins at one time of the clock have three thousand values of created_at, within
    a second."""
    await asyncio.gather(*(add(ledger, number) for number in range(3000)))
    page = await ledger.search("anna", Search(limit=5000), as_it_is)
    moments = [status.pin.created_at for status in page.pins]
    assert (page.count, len(set(moments))) == (3000, 3000)
    assert moments == sorted(moments, reverse=True)
    now = datetime.fromtimestamp(clock.now, UTC)
    assert max(moments) - now < timedelta(seconds=1.01)


async def test_a_clock_that_goes_back_does_not_hide_a_new_pin(world: World) -> None:
    """The newest pin is listed first even then."""
    old = await add(world.ledger, 1)
    world.clock.now -= 3600
    new = await add(world.ledger, 2)
    assert await listed(world.ledger) == [new, old]


# Describing and replacing.


async def test_a_label_is_replaced_as_a_whole(ledger: Held) -> None:
    """What the new one does not say is gone; another requestor's is not touched."""
    await add(ledger, 1, label=Label("one", ("/x",), {"a": "b"}))
    await add(ledger, 1, "ben", Label("his"))
    assert await ledger.relabel("anna", cid(1), Label("two"))
    assert [pin.label for pin in await listed(ledger)] == [Label("two")]
    assert await ledger.relabel("anna", cid(1), NO_LABEL)
    assert [pin.label for pin in await listed(ledger)] == [NO_LABEL]
    assert [pin.label for pin in await listed(ledger, "ben")] == [Label("his")]
    assert not await ledger.relabel("anna", cid(2), Label("three"))
    assert not await ledger.relabel("cleo", cid(1), Label("three"))


@pytest.mark.parametrize("known", [(), (3,), (1, 2, 3, 4, 5)])
async def test_of_many_at_once_as_many_are_added_as_may_be(
    stand: Stand, ledger: Held, known: tuple[int, ...]
) -> None:
    """Whether others hold some of them or not; and what is refused leaves no content behind."""
    for number in known:
        await add(ledger, number, "other")
    wanted = [cid(number) for number in range(1, 9)]
    found = await asyncio.gather(
        *(ledger.add("anna", each, str(each), NO_LABEL, most=3) for each in wanted),
        *(ledger.add("bob", each, str(each), NO_LABEL) for each in wanted[:2]),
        return_exceptions=True,
    )
    added = [pin.cid for pin in found[:8] if isinstance(pin, Pin)]
    refused = [each for each in found if isinstance(each, PinLimitReached)]
    assert (len(added), len(refused)) == (3, 5)
    assert all(isinstance(pin, Pin) for pin in found[8:])
    assert {pin.cid for pin in await listed(ledger)} == set(added)
    held = {int.from_bytes(each.digest, "big") for each in added} | {1, 2} | set(known)
    assert set(await states(stand)) == held


async def test_a_revoked_key_adds_nothing(ledger: Held, opened: Opened) -> None:
    """What was under way when it was revoked is refused by the ledger, a replacement too, and then
    the old pin stays; what others add in the same moment is kept."""
    keys = IssuedKeys(opened.keys)
    _, record = await keys.create("team", ["pin"], None) or pytest.fail("it is there")
    old = await add(ledger, 1, record.id)
    assert await keys.revoke(record.id)
    added = await asyncio.gather(
        *(ledger.add(who, cid(2), "x", NO_LABEL) for who in ("anna", record.id, "bert")),
        return_exceptions=True,
    )
    assert [type(each) for each in added] == [Pin, KeyRefused, Pin]
    with pytest.raises(KeyRefused):
        await ledger.replace(record.id, old, cid(3), "x", NO_LABEL)
    assert await listed(ledger, record.id) == [old]


async def replaced(ledger: Held, old: Pin, number: int) -> Pin | None:
    return await ledger.replace("anna", old, cid(number), str(cid(number)), Label("new"))


async def test_a_pin_is_replaced_by_another_content(world: World, stand: Stand) -> None:
    """The old content leaves, the new one is queued, and the new pin is the newest."""
    old, other = await add(world.ledger, 1), await add(world.ledger, 2)
    new = await replaced(world.ledger, old, 3)
    assert new is not None
    assert await listed(world.ledger) == [new, other]
    assert await states(stand) == {1: "unpinning", 2: "queued", 3: "queued"}


async def test_a_pin_is_replaced_by_the_same_content(world: World, stand: Stand) -> None:
    """It is a new pin, with a moment of its own even if no time has passed; the content stays."""
    old = await add(world.ledger, 1)
    await seen(world.contents, Event.SEEN_PINNED)
    new = await replaced(world.ledger, old, 1)
    assert new is not None
    assert new.created_at > old.created_at
    assert await listed(world.ledger) == [new]
    assert await states(stand) == {1: "pinned"}


async def test_a_pin_takes_the_place_of_two(world: World, stand: Stand) -> None:
    """Where the new content was held as well, by another pin, one pin is left, the newest."""
    old, other, third = (
        await add(world.ledger, 1),
        await add(world.ledger, 2),
        await add(world.ledger, 3),
    )
    new = await replaced(world.ledger, old, 2)
    assert new is not None
    assert new.created_at > third.created_at > other.created_at
    assert await listed(world.ledger) == [new, third]
    assert await states(stand) == {1: "unpinning", 2: "queued", 3: "queued"}


async def test_a_replaced_content_stays_for_others(world: World, stand: Stand) -> None:
    old = await add(world.ledger, 1)
    await add(world.ledger, 1, "ben")
    assert await replaced(world.ledger, old, 2)
    assert await states(stand) == {1: "queued", 2: "queued"}


async def test_a_replacement_brings_back_what_was_unpinning(world: World, stand: Stand) -> None:
    old = await add(world.ledger, 1)
    await add(world.ledger, 2)
    await world.ledger.remove("anna", cid(2))
    assert await states(stand) == {1: "queued", 2: "unpinning"}
    assert await replaced(world.ledger, old, 2)
    assert await states(stand) == {1: "unpinning", 2: "queued"}


async def test_what_is_gone_is_not_replaced(world: World, stand: Stand) -> None:
    """Nothing changes, and a pin of somebody else is not found."""
    old = await add(world.ledger, 1)
    assert await world.ledger.replace("ben", old, cid(3), "x", NO_LABEL) is None
    await world.ledger.remove("anna", cid(1))
    assert await replaced(world.ledger, old, 3) is None
    assert await listed(world.ledger) == []
    assert await states(stand) == {1: "unpinning"}


async def test_one_of_two_replacements_wins(ledger: Held) -> None:
    old = await add(ledger, 1)
    first, second = await asyncio.gather(replaced(ledger, old, 2), replaced(ledger, old, 3))
    assert first is not None
    assert second is None
    assert await listed(ledger) == [first]


# Removing.


async def test_the_last_removal_releases_the_content(world: World, stand: Stand) -> None:
    """Until then it stays; a second removal finds nothing."""
    await add(world.ledger, 1)
    await add(world.ledger, 1, "ben")
    assert await world.ledger.remove("anna", cid(1)) is Removal.STILL_HELD
    assert await world.ledger.remove("anna", cid(1)) is None
    assert await states(stand) == {1: "queued"}
    assert await world.ledger.remove("ben", cid(1)) is Removal.RELEASED
    assert await states(stand) == {1: "unpinning"}
    assert await world.ledger.status("ben", cid(1)) is None


async def test_a_released_content_waits_for_the_grace_period(world: World) -> None:
    """Nothing is due before, in case it is pinned again."""
    await world.promise(1)
    await world.ledger.remove("anna", cid(1))
    world.clock.now += GRACE - 0.1
    assert await world.lease() == []
    world.clock.now += 0.2
    assert await world.contents.any_due(quota(9))
    (item,) = await world.lease()
    assert (item.state, item.is_held) == (ContentState.UNPINNING, False)


async def test_a_new_pin_ends_the_grace_period(world: World) -> None:
    """The content is due at once, as a first try of a new generation."""
    await world.promise(1)
    (before,) = await world.lease()
    await world.record(Outcome(Event.SEEN_FAILED, 600.0, error="no"), before)
    await world.ledger.remove("anna", cid(1))
    await world.promise(1, who="ben")
    (item,) = await world.lease(retries=0)
    assert (item.state, item.attempts, item.status_checks) == (ContentState.QUEUED, 0, 0)
    assert item.generation > before.generation
    status = await world.ledger.status("ben", cid(1))
    assert status is not None
    assert status.error is None


async def test_somebody_who_asks_for_what_failed_is_not_kept_waiting(world: World) -> None:
    """A second requestor of a content in a long backoff makes it due now."""
    await world.promise(1)
    await seen(world.contents, Event.SEEN_FAILED, again_in=600.0)
    assert not await world.contents.any_due(quota(9))
    await world.promise(1, who="ben")
    assert await world.contents.any_due(quota(9))


async def test_what_failed_is_listed_and_is_no_backlog(world: World) -> None:
    """Nobody may ever have it: it would be the oldest that waits for as long as it is promised."""
    await world.promise(1)
    await seen(world.contents, Event.SEEN_FAILED, again_in=600.0)
    await world.promise(2)
    assert {one.cid for one in await world.contents.waiting(9)} == {cid(1), cid(2)}
    assert [one.cid for one in await world.contents.waiting(9, PENDING)] == [cid(2)]


async def test_a_pinned_content_is_not_asked_for_again(world: World) -> None:
    """Another requestor of what is final finds it so."""
    await world.promise(1)
    await seen(world.contents, Event.SEEN_PINNED)
    await world.promise(1, who="ben")
    assert not await world.contents.any_due(quota(9))


# Searching.


@pytest.fixture
async def library(ledger: Held, clock: Clock) -> list[Pin]:
    """Six pins, a minute apart, the oldest first."""
    labels = [
        Label("Straße", meta={"app": "x", "env": "prod"}),
        Label("strasse", meta={"app": "x"}),
        Label("STRASSE 2", meta={"app": "y", "env": "prod"}),
        Label("100%_sure"),
        NO_LABEL,
        Label("", meta={"app": ""}),
    ]
    pins = []
    for number, label in enumerate(labels):
        pins.append(await add(ledger, number, label=label))
        await add(ledger, number, "ben", Label("not hers"))
        clock.now += 60
    return pins


SEARCHES = [
    (Search(name="strasse"), [1]),
    (Search(name="strasse", match=Match.IEXACT), [1, 0]),
    (Search(name="trass", match=Match.PARTIAL), [1]),
    (Search(name="TRASS", match=Match.IPARTIAL), [2, 1, 0]),
    (Search(name="%", match=Match.PARTIAL), [3]),
    (Search(name="0%_S", match=Match.IPARTIAL), [3]),
    (Search(name=""), [5]),
    (Search(name="", match=Match.PARTIAL), [5, 3, 2, 1, 0]),  # those that have a name
    (Search(name="nothing"), []),
    (Search(meta={"app": "x"}), [1, 0]),
    (Search(meta={"app": "x", "env": "prod"}), [0]),
    (Search(meta={"app": ""}), [5]),
    (Search(meta={"app": "x", "other": "x"}), []),
    (Search(meta={"x": "app"}), []),
    (Search(cids=(cid(4), cid(2), cid(77))), [4, 2]),
    (Search(cids=(cid(77),)), []),
    (Search(states=frozenset({ContentState.QUEUED})), [5, 4, 3, 2, 1, 0]),
    (Search(states=frozenset({ContentState.PINNED, ContentState.FAILED})), []),
    (Search(states=frozenset()), []),
    (Search(name="s", match=Match.IPARTIAL, meta={"env": "prod"}, cids=(cid(2), cid(1))), [2]),
]


@pytest.mark.parametrize(("search", "wanted"), SEARCHES)
async def test_a_search_finds_what_passes_every_filter(
    ledger: Held, library: list[Pin], search: Search, wanted: list[int]
) -> None:
    """And nobody else's; newest first, and all are counted."""
    page = await ledger.search("anna", search, as_it_is)
    assert [status.pin for status in page.pins] == [library[number] for number in wanted]
    assert (page.count, page.more) == (len(wanted), False)


async def test_moments_are_exclusive(ledger: Held, library: list[Pin]) -> None:
    """Before and after a pin's creation, to the microsecond."""
    tick = timedelta(microseconds=1)
    at = library[3].created_at
    assert await listed(ledger, search=Search(before=at)) == library[2::-1]
    assert await listed(ledger, search=Search(before=at + tick)) == library[3::-1]
    assert await listed(ledger, search=Search(after=at)) == library[:3:-1]
    assert await listed(ledger, search=Search(after=at - tick, before=at + tick)) == [library[3]]


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 7])
@pytest.mark.parametrize(
    "search", [Search(), Search(meta={"app": "x"}), Search(cids=(cid(1), cid(5)))]
)
async def test_pages_make_up_the_whole(
    ledger: Held, library: list[Pin], limit: int, search: Search
) -> None:
    """Each pin is on one page, all pages count all, and the last says that it is the last."""
    whole = await listed(ledger, search=search)
    found: list[Pin] = []
    page = Page(0, [], more=True)
    while page.more:
        cursor = found[-1].created_at if found else None
        page = await ledger.search(
            "anna", Search(meta=search.meta, cids=search.cids, cursor=cursor, limit=limit), as_it_is
        )
        found += [status.pin for status in page.pins]
        assert page.count == len(whole)
    assert found == whole


async def test_pages_stand_still_while_pins_come_and_go(ledger: Held, clock: Clock) -> None:
    """What was there all the time is seen once, whatever is added and removed between pages."""
    pins = [await add(ledger, number) for number in range(100)]
    found: list[Pin] = []
    cursor = None
    for turn in range(1000):
        page = await ledger.search("anna", Search(cursor=cursor, limit=7), as_it_is)
        found += [status.pin for status in page.pins]
        if not page.more:
            break
        cursor = page.pins[-1].pin.created_at
        await add(ledger, 1000 + turn)
        await ledger.remove("anna", cid(99 - 7 * turn))  # often the one the cursor stands on
        await ledger.remove("anna", cid(3 * turn))
    kept = {pin.cid for pin in await listed(ledger)}
    stayed = [pin for pin in reversed(pins) if pin.cid in kept]
    assert [pin for pin in found if pin.cid in kept] == stayed
    assert len(found) == len({pin.cid for pin in found})


async def test_status_tells_what_was_seen(world: World) -> None:
    """Replicas, reasons and attempts of the last status check, and when the next one is."""
    await world.promise(1)
    (item,) = await world.lease()
    assert (await world.status(1)).next_at is None  # it is under way
    failed = BackendStatus(TrackerStatus.FAILED, 1, 3, reason="no")
    await world.record(Outcome(Event.SEEN_FAILED, 10.0, failed, "no", attempted=True), item)
    status = await world.status(1)
    assert (status.state, status.replicas, status.wanted) == (ContentState.FAILED, 1, 3)
    assert (status.error, status.attempts) == ("no", 1)
    assert status.next_at is not None
    assert status.updated_at is not None
    assert status.next_at - status.updated_at == timedelta(seconds=10)


async def test_a_new_origin_is_tried_at_once(world: World) -> None:
    """A content in a long backoff becomes due when a pin of it gets a new origin, but not for a new
    name."""
    await world.promise(1)
    (item,) = await world.lease()
    await world.record(Outcome(Event.SEEN_FAILED, 600.0, None, "no"), item)
    assert await world.ledger.relabel("anna", cid(1), Label("a name"))
    assert not await world.lease()
    assert await world.ledger.relabel("anna", cid(1), Label(origins=("/ip4/8.8.8.8/tcp/80/http",)))
    assert await world.lease()


async def test_origins_are_those_of_the_newest_pins(ledger: Held, clock: Clock) -> None:
    """One list for each of the twenty newest pins of that content."""
    for number in range(30):
        clock.now += 1
        await ledger.add(f"{number}", cid(1), "x", Label(origins=(f"/{number}/a", f"/{number}/b")))
        await ledger.add(f"other {number}", cid(1), "x", NO_LABEL)
    await ledger.add("anna", cid(2), "x", Label(origins=("/z",)))
    assert await ledger.origins(cid(1)) == [[f"/{n}/a", f"/{n}/b"] for n in range(29, 9, -1)]
    assert await ledger.origins(cid(3)) == []


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_writes_of_one_moment_take_effect_in_their_order(
    world: World, stand: Stand, order: tuple[int, ...]
) -> None:
    """Add, remove and add again, queued together: the last one counts."""
    requests: list[Callable[[], Awaitable[object]]] = [
        lambda: world.ledger.add("anna", cid(1), "a", NO_LABEL),
        lambda: world.ledger.remove("anna", cid(1)),
        lambda: world.ledger.add("anna", cid(1), "b", NO_LABEL),
    ]
    await asyncio.gather(*(requests[number]() for number in order))
    is_held = order.index(1) != 2
    assert await world.ledger.holds("anna", cid(1)) == is_held
    assert await states(stand) == {1: "queued" if is_held else "unpinning"}
