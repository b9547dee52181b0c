"""Requests begin in turn by requestor, so that nobody waits behind all that another one has
sent."""

import asyncio
import gc
from collections import Counter

import pytest

from content_gateway.api_keys import OpenKeys
from content_gateway.concurrency.contention import ALONE_AFTER
from content_gateway.errors import Overloaded
from content_gateway.http.asgi import Api
from content_gateway.http.kinds import BAD_REQUEST
from content_gateway.http.messages import Answer, Handler, Request, Response, length_of
from content_gateway.http.openapi import Operation
from content_gateway.http.problems import HttpRefusal
from content_gateway.http.request_turns import RequestTurns
from tests.http.direct import status_of
from tests.virtual import run_virtually

READY = 1_000
ASKED = 20


class House:
    """An Api with one cheap operation for keys and one for everybody; it counts who has had how
    many answers."""

    def __init__(self) -> None:
        operations = [
            Operation("keyed", "GET", "/keyed", "resolve", "apiKey"),
            Operation("open", "GET", "/open", None),
            Operation("refusing", "GET", "/refusing", "resolve", "apiKey"),
        ]
        handlers = {
            "keyed": Handler(self.handle, "resolve"),
            "open": Handler(self.handle, None),
            "refusing": Handler(self.refuse, "resolve"),
        }
        self._api = Api(operations, handlers, OpenKeys())
        self.answered = Counter[str]()

    async def handle(self, request: Request) -> Answer:
        return Response(b"{}", [length_of(b"{}")])

    async def refuse(self, request: Request) -> Answer:
        raise HttpRefusal(BAD_REQUEST)

    async def ask(self, who: str, path: str = "/keyed") -> int:
        """The status of one answer to *who*: a key, or without one an address."""
        key = None if path == "/open" else who
        status = await status_of(self._api, path, key=key, address=who)
        self.answered[who] += 1
        return status

    async def flood(self, who: str, path: str) -> None:
        """Ask again as soon as there is an answer, for ever; each in its own turn of the loop, as
        it comes over a connection."""
        while True:
            await self.ask(who, path)
            await asyncio.sleep(0)


async def _behind(house: House, hog: str, quiet: str, path: str) -> list[int]:
    """How many of the hog's requests were answered before each one of the quiet one's."""
    loads = [asyncio.create_task(house.flood(hog, path)) for _ in range(READY)]
    waited = []
    for _ in range(ASKED):
        before = house.answered[hog]
        await asyncio.create_task(house.ask(quiet, path))
        waited.append(house.answered[hog] - before)
    for load in loads:
        load.cancel()
    await asyncio.gather(*loads, return_exceptions=True)
    return waited


@pytest.mark.parametrize(
    ("hog", "quiet", "path"),
    [
        ("hog", "quiet", "/keyed"),
        ("192.0.2.1", "192.0.2.2", "/open"),
        ("192.0.2.1", "192.0.2.2", "/nowhere"),
        ("2001:db8::1", "2001:db8:1::1", "/open"),
    ],
)
async def test_nobody_waits_behind_all_that_is_ready(hog: str, quiet: str, path: str) -> None:
    """Beside a thousand requests that are always ready another's first waits for what has begun in
    one turn of the loop while nobody else was there, and the others for a handful."""
    first, *others = await _behind(House(), hog, quiet, path)
    assert first <= 100, first
    assert max(others) <= 16, others


async def begin(turns: RequestTurns, who: str) -> None:
    """Return once a request of *who* may begin."""
    if not turns.try_begin(who):
        await turns.wait(who)


def test_who_is_alone_waits_for_nobody() -> None:
    """As many requests as most clients have begin in the turn that they come in, and again so some
    seconds after another has asked."""

    async def run() -> None:
        turns = RequestTurns()
        assert [turns.try_begin("one") for _ in range(32)] == [True] * 32
        turns.try_begin("two")
        await begin(turns, "one")
        await asyncio.sleep(ALONE_AFTER + 0.1)
        while turns.try_begin("one"):  # the rest of the turn that was counted for two
            pass
        await asyncio.sleep(0)
        assert [turns.try_begin("one") for _ in range(32)] == [True] * 32

    run_virtually(run())


async def test_a_refusal_by_a_handler_is_counted_once() -> None:
    """The requestor was counted already: were its address counted too, the two would be taken for
    two clients, and each would have to wait for the other."""
    house = House()
    tasks = [asyncio.create_task(house.ask("key", "/refusing")) for _ in range(32)]
    await asyncio.sleep(0)
    assert [task.done() for task in tasks] == [True] * 32
    assert {task.result() for task in tasks} == {400}


async def test_who_is_alone_has_its_turn_too() -> None:
    """Of a thousand, not all begin in one turn; and all do, in the order in which they came."""
    turns, begun = RequestTurns(), list[int]()

    async def ask(number: int) -> None:
        await begin(turns, "one")
        begun.append(number)

    tasks = [asyncio.create_task(ask(number)) for number in range(READY)]
    await asyncio.sleep(0)
    assert 0 < len(begun) <= 32
    await asyncio.gather(*tasks)
    assert begun == list(range(READY))


async def test_each_has_its_turn() -> None:
    """However many there are, and however much the others have waiting."""
    turns, begun = RequestTurns(beside=4), list[str]()
    for who in "ab":  # who are not alone from then on
        await begin(turns, who)

    async def ask(who: str) -> None:
        await begin(turns, who)
        begun.append(who)

    tasks = [asyncio.create_task(ask("a")) for _ in range(100)]
    tasks += [asyncio.create_task(ask(who)) for who in "bcd" * 3]
    await asyncio.gather(*tasks)
    assert Counter(begun) == {"a": 100, "b": 3, "c": 3, "d": 3}
    assert max(place for place, who in enumerate(begun) if who != "a") <= 4 + 3 * 4 + 4


async def test_who_leaves_takes_nothing_along() -> None:
    """The turn of a request that is given up while it waits is the next one's."""
    turns = RequestTurns()
    tasks = [asyncio.create_task(begin(turns, "one")) for _ in range(READY)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert 0 < sum(isinstance(one, asyncio.CancelledError) for one in done) <= READY // 2
    for _ in range(10):  # and nothing is lost
        await asyncio.gather(*(begin(turns, who) for who in ("one", "two", "three")))


async def test_what_is_new_is_looked_at_while_it_is_little() -> None:
    """Where requests come as others leave, Python alone would traverse all new objects at once."""
    turns = RequestTurns()
    turns.try_begin("other")
    old: list[list[list[int]]] = [[[] for _ in range(100)] for _ in range(1_000)]
    gc.collect()
    kept: list[list[list[int]]] = []
    before, thresholds = gc.get_stats(), gc.get_threshold()
    gc.set_threshold(100_000, 1, 500)  # as it is where as many are freed as made
    try:
        most = 0
        for _ in range(1_000):
            old.pop()
            kept.append([[] for _ in range(100)])
            if not turns.try_begin("one"):
                await turns.wait("one")
            most = max(most, len(gc.get_objects(generation=0)))
    finally:
        gc.set_threshold(*thresholds)
    assert most < 20_000
    assert gc.get_stats()[1]["collections"] > before[1]["collections"] + 10


async def test_what_cannot_begin_soon_is_refused_at_once() -> None:
    """One that floods keeps room for another; both are answered in the end, and the room is given
    back, by those who leave too."""
    turns, refused, began = RequestTurns(waiting=90), Counter[str](), Counter[str]()

    async def ask(who: str) -> None:
        try:
            await begin(turns, who)
            began[who] += 1
        except Overloaded:
            refused[who] += 1

    tasks = [asyncio.create_task(ask("hog")) for _ in range(READY)]
    tasks += [asyncio.create_task(ask("quiet")) for _ in range(10)]
    await asyncio.sleep(0)
    at_once = refused["hog"]
    for task in tasks[40:60]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert at_once == refused["hog"] >= READY - 90 - 32
    assert began["quiet"] == 10
    assert not refused["quiet"]
    await asyncio.gather(*(ask("hog") for _ in range(60)))
    assert refused["hog"] == at_once


async def test_while_the_loop_is_late_nobody_waits() -> None:
    """Each requestor still gets one request into each turn."""
    is_late = True
    turns = RequestTurns(beside=2, is_late=lambda: is_late)
    for who in ("a", "b"):
        await begin(turns, who)
    assert turns.try_begin("c")
    assert not turns.try_begin("c")
    with pytest.raises(Overloaded):
        await turns.wait("c")
    is_late = False
    await turns.wait("c")
