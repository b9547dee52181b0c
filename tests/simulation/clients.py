"""Clients that pin, release, relabel and list, and try again where an answer is lost.

A client has some contents of a requestor to itself and does one thing at a time with them, so it
knows what must be there: what was acknowledged last. While it does not know, nothing is expected.
Checks each answer against that."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Protocol, TypeVar

from content_gateway.errors import OwnFault, PinLimitReached, PinNotFound
from content_gateway.model.cid import Cid
from content_gateway.model.pins import Label, Page, Pin, Search
from content_gateway.pins.pinning import Pinning
from tests.simulation.process import Gone, Process
from tests.simulation.truths import Truths

T = TypeVar("T")

_TRIES: Final = 12
LONGEST_CALL: Final = 300.0
"""Seconds of the longest trouble, and what follows of it: no answer takes longer."""


class Unanswered(Exception):
    """Nobody has answered, though it was asked again and again."""


class World(Protocol):
    """What a client needs of the world."""

    truths: Truths
    is_over: bool
    flip_seconds: Sequence[tuple[float, float]]

    def ready_process(self) -> Process | None:
        """Some process that takes requests."""

    def note(self, text: str) -> None:
        """A line of the course of events."""


class Client:
    """A client of *requestor*, with *cids* to itself."""

    def __init__(
        self, world: World, chance: random.Random, requestor: str, cids: Sequence[Cid]
    ) -> None:
        self._world = world
        self._chance = chance
        self._requestor = requestor
        self._cids = cids
        self._is_certain = True
        for cid in cids:
            world.truths.expected[self._key(cid)] = False

    async def run(self, mean_pause: float) -> None:
        """Do one thing after another until the world is over."""
        deeds: Sequence[tuple[Callable[[Cid], Coroutine[Any, Any, None]], int]] = (
            (self.add, 8),
            (self.remove, 5),
            (self.flip, 6),
            (self.describe, 2),
            (self.show, 2),
            (self.list_all, 2),
            (self.replace, 1),
            (self.add_twice, 2),
        )
        while not self._world.is_over:
            await asyncio.sleep(self._chance.expovariate(1 / mean_pause))
            (deed,) = self._chance.choices([it for it, _ in deeds], [many for _, many in deeds])
            cid = self._chance.choice(self._cids)
            try:
                async with asyncio.timeout(self._world.flip_seconds[0][1] + LONGEST_CALL):
                    await deed(cid)
            except Unanswered:
                pass
            except TimeoutError:
                self._world.truths.fail(f"{self._requestor} waits for ever: {deed.__name__} {cid}")

    async def add(self, cid: Cid) -> None:
        """Pin *cid*."""
        expected = self._begin(cid)
        try:
            pin = await self._ask(lambda pinning: pinning.add(self._requestor, str(cid)))
        except PinLimitReached:
            self._expect_again(cid, expected if self._is_certain else None)
            return
        self._check_added(cid, expected, pin)
        self._expect_again(cid, True)

    async def add_twice(self, cid: Cid) -> None:
        """Pin *cid* by two processes at the same time."""
        expected = self._begin(cid)

        def add(pinning: Pinning) -> Coroutine[Any, Any, Pin | None]:
            return pinning.add(self._requestor, str(cid))

        answers = await asyncio.gather(self._ask_once(add), self._ask_once(add))
        if any(isinstance(answer, Exception) for answer in answers):
            return
        added = [answer for answer in answers if answer is not None]
        is_right = len(added) <= 1 if expected is None else len(added) == (not expected)
        self._expect(is_right, f"{len(added)} of two pins of {cid} are new")
        self._expect_again(cid, True)

    async def describe(self, cid: Cid) -> None:
        """Pin *cid* with a label, or relabel its pin."""
        expected = self._begin(cid)
        label = Label(name=str(self._chance.randrange(100)))
        try:
            await self._ask(lambda pinning: pinning.describe(self._requestor, str(cid), label))
        except PinLimitReached:
            self._expect_again(cid, expected if self._is_certain else None)
            return
        self._expect_again(cid, True)

    async def remove(self, cid: Cid) -> None:
        """Release *cid*."""
        expected = self._begin(cid)
        try:
            await self._ask(lambda pinning: pinning.remove(self._requestor, cid))
            is_wrong = expected is False
        except PinNotFound:
            is_wrong = expected is True
        if self._is_certain:
            self._expect(not is_wrong, f"the removal of {cid} found {not expected}")
        self._expect_again(cid, False)

    async def flip(self, cid: Cid) -> None:
        """Release *cid*, and pin it again about when it leaves the backend."""
        if self._world.truths.expected[self._key(cid)] is not True:
            await self.add(cid)
            await asyncio.sleep(self._chance.uniform(0, 60))
        await self.remove(cid)
        between = self._chance.choice(self._world.flip_seconds)
        await asyncio.sleep(self._chance.uniform(*between))
        await self.add(cid)

    async def replace(self, cid: Cid) -> None:
        """Replace the pin of *cid* by another one."""
        new = self._chance.choice(self._cids)
        if new == cid or self._world.truths.expected[self._key(cid)] is not True:
            return
        status = await self._ask(lambda pinning: pinning.status(self._requestor, cid))
        if status is None:
            return
        self._begin(cid)
        self._begin(new)
        try:
            await self._ask(
                lambda pinning: pinning.replace(self._requestor, status.pin, str(new), Label())
            )
        except PinNotFound:
            self._expect(not self._is_certain, f"the pin of {cid} is not there to be replaced")
            return
        self._expect_again(cid, False)
        self._expect_again(new, True)

    async def show(self, cid: Cid) -> None:
        """Ask for the status of *cid*."""
        expected = self._world.truths.expected[self._key(cid)]
        try:
            await self._ask(lambda pinning: pinning.status(self._requestor, cid))
        except PinNotFound:
            self._expect(expected is not True, f"the acknowledged pin of {cid} is not found")
        else:
            self._expect(expected is not False, f"the removed pin of {cid} is found")

    async def list_all(self, _: Cid) -> None:
        """List all pins."""
        page = await self._ask(
            lambda pinning: pinning.search(self._requestor, Search(limit=100), _as_it_is)
        )
        listed = [status.pin.cid for status in page.pins]
        self._expect(len(listed) == len(set(listed)), "a pin is listed twice")
        for cid in self._cids:
            expected = self._world.truths.expected[self._key(cid)]
            if expected is not None:
                self._expect((cid in listed) == expected, f"{cid} is listed, or not: {expected}")

    async def _ask(self, verb: Callable[[Pinning], Coroutine[Any, Any, T]]) -> T:
        """The answer of some process; another one is asked where it is lost."""
        self._is_certain = True
        for _ in range(_TRIES):
            answer = await self._ask_once(verb)
            if not isinstance(answer, Gone | OwnFault):
                if isinstance(answer, Exception):
                    raise answer
                return answer
            self._is_certain = False
            await asyncio.sleep(self._chance.uniform(0.1, 15))
        raise Unanswered

    async def _ask_once(self, verb: Callable[[Pinning], Coroutine[Any, Any, T]]) -> T | Exception:
        while (process := self._world.ready_process()) is None:
            await asyncio.sleep(1.0)
        try:
            return await process.call(lambda: verb(process.pinning))
        except (Gone, OwnFault, PinNotFound, PinLimitReached) as wrong:
            return wrong

    def _check_added(self, cid: Cid, expected: bool | None, pin: Pin | None) -> None:
        if pin is not None:
            self._expect(expected is not True, f"{cid} is added a second time")
        elif self._is_certain:
            self._expect(expected is not False, f"{cid} is said to be held, and it is not")

    def _begin(self, cid: Cid) -> bool | None:
        """Nothing is known of *cid* until there is an answer; what was known."""
        key = self._key(cid)
        expected = self._world.truths.expected[key]
        self._world.truths.expected[key] = None
        return expected

    def _expect_again(self, cid: Cid, is_held: bool | None) -> None:
        self._world.truths.expected[self._key(cid)] = is_held

    def _expect(self, is_right: bool, what: str) -> None:
        self._world.truths.expect(is_right, f"{self._requestor}: {what}")

    def _key(self, cid: Cid) -> tuple[str, str]:
        return self._requestor, str(cid)


def _as_it_is(page: Page) -> Page:
    return page
