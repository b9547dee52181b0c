"""What goes wrong in a run, and who starts again what has died.

Draws events at random times: moods and losses of the backend, troubles on the way to the database,
kills at any await, orderly restarts, a time of day that is set back. `heal` ends all of that."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from content_gateway.errors import GatewayError
from content_gateway.model.cid import Cid
from tests.simulation.backend import Mood
from tests.simulation.ledger import Link, Trouble
from tests.simulation.loop import SimulatedLoop
from tests.simulation.process import Gone, Process
from tests.simulation.truths import Truths

_MEAN_PAUSE: Final = 5.0
_TROUBLES: Final = (
    *(Trouble.SLOW, Trouble.SLOW, Trouble.SLOW, Trouble.HANGING, Trouble.HANGING),
    *(Trouble.FLAKY, Trouble.LOCKED, Trouble.FULL, Trouble.UNANSWERED, Trouble.UNREADABLE),
)


class World(Protocol):
    """What chaos has power over."""

    loop: SimulatedLoop
    chance: random.Random
    backend: Any
    truths: Truths
    slots: dict[int, Process]
    cids: Sequence[Cid]
    strange: Sequence[Cid]
    offset: float

    def new_link(self) -> Link:
        """A way to the database without trouble."""

    def note(self, text: str) -> None:
        """A line of the course of events."""


class Chaos:
    """What happens to *world*, until it is healed."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._chance: random.Random = world.chance
        self._is_healed = False
        weights = {
            self._mood: 6,
            self._trouble: 6,
            self._kill_at_step: 4,
            self._kill_now: 1,
            self._restart_backend: 2,
            self._lose: 1,
            self._lose_blocks: 1,
            self._forget: 1,
            self._put: 1,
        }
        # Each run has some kinds of events only, so that some are free of what hides others.
        self._events = [each for each in weights if self._chance.random() < 0.7] or [self._mood]
        self._weights = [weights[each] for each in self._events]
        self._steps_back = self._chance.random() < 0.15
        self._stops = self._chance.random() < 0.4
        self._number = 0

    async def run(self) -> None:
        """Let one thing after another happen, until all is healed."""
        while not self._is_healed:
            await asyncio.sleep(self._chance.expovariate(1 / _MEAN_PAUSE))
            if self._is_healed:
                return
            if self._stops and self._chance.random() < 0.08:
                self._stop_one()
            elif self._steps_back and self._chance.random() < 0.05:
                self._set_back()
            else:
                (event,) = self._chance.choices(self._events, self._weights)
                event()

    def heal(self) -> None:
        """End everything that is wrong."""
        self._is_healed = True
        world = self._world
        world.backend.mood = Mood.WELL
        world.backend.provide(world.cids)
        for process in world.slots.values():
            process.link.trouble = Trouble.NONE
            process.dies_at = 0

    async def keep_alive(self, slot: int) -> None:
        """Have a process in *slot*, a new one some time after the one before is gone."""
        world, chance = self._world, self._chance
        number = 0
        while True:
            number += 1
            process = Process(world, f"p{slot}.{number}", world.new_link())
            world.slots[slot] = process
            try:
                await process.open()
                world.note(f"{process.name} works")
                await process.gone
            except Gone:
                pass
            except GatewayError as wrong:
                process.kill(f"as it cannot open the ledger: {wrong}")
            await asyncio.sleep(chance.choice((0.1, chance.uniform(0, 5), chance.uniform(0, 45))))

    def _mood(self) -> None:
        moods = [mood for mood in Mood if mood is not Mood.WELL]
        mood = self._world.backend.mood = self._chance.choice(moods)
        self._world.note(f"the backend is {mood.name}")
        self._number += 1
        number = self._number

        def back() -> None:
            if self._number == number and not self._is_healed:
                self._world.backend.mood = Mood.WELL
                self._world.note("the backend is well")

        seconds = self._chance.choice((self._chance.uniform(1, 10), self._chance.uniform(10, 60)))
        self._world.loop.call_later(seconds, back)

    def _trouble(self) -> None:
        """On the way of one process to the database, or of the database itself."""
        links = [process.link for process in self._world.slots.values()]
        if self._chance.random() < 0.6:
            links = self._chance.sample(links, 1)
        trouble = self._chance.choice(_TROUBLES)
        for link in links:
            link.trouble = trouble
        self._world.note(f"the ledger is {trouble.name} for {len(links)}")

        def back() -> None:
            for link in links:
                if link.trouble is trouble:
                    link.trouble = Trouble.NONE

        seconds = self._chance.choice((self._chance.uniform(1, 10), self._chance.uniform(10, 90)))
        self._world.loop.call_later(seconds, back)

    def _kill_at_step(self) -> None:
        process = self._one()
        process.dies_at = (
            process.steps + self._chance.choice((1, 10, 100, 1000)) + (self._chance.randrange(100))
        )

    def _kill_now(self) -> None:
        self._one().kill("now")

    def _stop_one(self) -> None:
        process = self._one()
        if not process.is_ready:
            return
        self._world.note(f"{process.name} is stopped")

        async def stop() -> None:
            with suppress(Gone):
                await process.stop()

        self._world.loop.create_task(stop())

    def _restart_backend(self) -> None:
        self._world.note("the backend is started again")
        self._world.backend.restart()

    def _lose(self) -> None:
        cid = self._chance.choice(self._world.cids)
        self._world.note(f"the backend loses {str(cid)[-6:]}")
        self._world.backend.lose(cid)
        self._world.truths.lost(cid)

    def _lose_blocks(self) -> None:
        cid = self._chance.choice(self._world.cids)
        self._world.note(f"the backend loses the blocks of {str(cid)[-6:]}")
        self._world.backend.lose_blocks(cid)
        self._world.truths.lost(cid)

    def _forget(self) -> None:
        cids = self._chance.sample(list(self._world.cids), 1)
        self._world.backend.forget(cids)

        def back() -> None:
            self._world.backend.provide(cids)

        self._world.loop.call_later(self._chance.uniform(5, 120), back)

    def _put(self) -> None:
        self._world.backend.put(self._chance.choice(self._world.strange))

    def _set_back(self) -> None:
        seconds = self._chance.choice((self._chance.uniform(3, 60), self._chance.uniform(60, 3600)))
        self._world.note(f"the time of day is set back by {seconds:.0f} s")
        self._world.offset -= seconds
        self._world.truths.stepped(seconds)

    def _one(self) -> Process:
        process: Process = self._chance.choice(list(self._world.slots.values()))
        return process
