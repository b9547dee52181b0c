"""Fairness: a bounded number of places, shared so that nobody waits behind all that another asks.

Theory of operation. Whatever is scarce here (look-ups, searches, streams, places in a group of
writes) is handed out as permits of a `FairSemaphore`, each charged to a requestor: the id of a key,
or the address of a client without one. One rule bounds a requestor's permits and its waiting
requests:

    who has some already may take one more only if at least half as many as it then has stay free.

Alone, a requestor gets two thirds; the last third stays for others, however long its own work
hangs. The second gets two thirds of that, and so on: the share shrinks as others come, without
anybody being counted, and a newcomer finds one free until some log3(permits) others have taken all
they can.
This is the dynamic threshold of Choudhury and Hahne ("Dynamic queue length thresholds for
shared-memory packet switches", 1998) with a factor of two.

A requestor may have a limit of its own below that. Who has reached it lets as many wait as it may
have at most; what is more gets TooManyAtOnce, as does what has waited too long for that limit
alone: it says nothing of how much there is for others.

Who gets none waits. Each requestor has a queue of its own, first come first served; the queues are
served round robin, and those whose requestor may not have more are passed over. So a requestor
waits for at most one permit of each other one, never for all that another has queued. Who finds the
queue full by the rule above, or waits longer than the *patience*, gets Overloaded.

Where the work of one takes time that all wait for, as a group of writes does, a *crowd* limit says
how many permits one may have while others are there too: while another has asked in the last ten
seconds, the service itself not counted. Alone again, it may have its whole share.

Work that several requestors want is done once. It is charged to whoever began it; one who joins
while it waits lets it wait in both queues (`Permit.join`), and the first turn pays. Joining is
never refused.

A permit is given back by `release`, which is also how a request leaves the queue; twice does no
harm. Nothing here yields between looking and taking, so one event loop needs no lock. No I/O."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final

from content_gateway.concurrency.contention import Contention
from content_gateway.errors import Overloaded, TooManyAtOnce

# How many times what stays free a requestor may have.
_FACTOR: Final = 2


class FairSemaphore:
    """So many *permits*, and at most *waiting* requests for one, each for *patience* seconds.

    *detail* tells the person who is refused what there is too much of. No requestor has more than
    *crowd* permits while others are there; None: only its share bounds it. Without *reserves*
    nothing is kept free for others: whoever comes first may have all, and only those who wait take
    turns; for what is given back soon, or is one requestor's alone. *limit_of* a requestor is how
    many it may have at most, whoever else is there; 0: only its share bounds it."""

    def __init__(
        self,
        permits: int,
        *,
        waiting: int,
        patience: float = 5.0,
        detail: str,
        crowd: int | None = None,
        reserves: bool = True,
        limit_of: Callable[[str], int] | None = None,
    ) -> None:
        self._limit_of: Final = limit_of
        self._reserves: Final = reserves
        self._crowd: Final = crowd or 0
        self._contention: Final = Contention()
        self.detail: Final = detail
        self.patience: Final = patience
        self._free = permits
        self._held: dict[str, int] = {}
        self._room = waiting
        # By requestor, the one whose turn it is first; each queue has the oldest request first.
        self._queues: OrderedDict[str, OrderedDict[Permit, None]] = OrderedDict()

    def request(self, requestor: str, *, is_ours: bool = False) -> "Permit":
        """A permit, given now or in its turn: `async with` it, or await `granted` and `release`.

        Raises Overloaded, or TooManyAtOnce by its own limit, where *requestor* may not even wait;
        never for work that *is_ours*."""
        permit = Permit(self)
        if self.take(requestor, is_ours=is_ours):
            permit.holder = requestor
        elif is_ours or self._may_wait(requestor):
            self._enqueue(permit, requestor)
        else:
            raise self.refusal([requestor])
        return permit

    def refusal(self, requestors: Iterable[str]) -> Overloaded | TooManyAtOnce:
        """Why work that *requestors* want is refused now: by limits of their own, if by nothing
        else."""
        if all(map(self.is_at_its_limit, requestors)):
            return TooManyAtOnce(f"{self.detail} That is a limit of this key, or address.")
        return Overloaded(self.detail)

    def take(self, requestor: str, *, is_ours: bool = False) -> bool:
        """Whether a permit is given now: one without an object of its own, for who makes many in a
        second. `give_back` it; else `request` one, which waits."""
        if self._crowd and requestor != self._contention.last and not is_ours:
            self._contention.note(requestor)
        if requestor in self._queues or not self._may_hold(requestor):
            return False
        self._free -= 1
        self._held[requestor] = self._held.get(requestor, 0) + 1
        return True

    def give_back(self, requestor: str) -> None:
        """Take a permit back that is charged to *requestor*."""
        self._free += 1
        held = self._held[requestor] - 1
        if held:
            self._held[requestor] = held
        else:
            del self._held[requestor]
        if self._queues:
            self._serve()

    def has_room(self, requestor: str) -> bool:
        """Whether a request of *requestor* would be taken now."""
        return self._may_wait(requestor) or (
            requestor not in self._queues and self._may_hold(requestor)
        )

    def held_by(self, requestor: str) -> int:
        """How many permits *requestor* has."""
        return self._held.get(requestor, 0)

    @property
    def free(self) -> int:
        """How many permits nobody has."""
        return self._free

    @property
    def is_awaited(self) -> bool:
        """Whether anybody waits."""
        return bool(self._queues)

    def _may_hold(self, requestor: str) -> bool:
        held, free = self._held.get(requestor), self._free
        if held is None:
            return free > 0
        if self._limit_of is not None and self.is_at_its_limit(requestor):
            return False
        contention = self._contention
        if contention.until and held >= self._crowd and not contention.is_over():
            return False
        return held < _FACTOR * (free - 1) if self._reserves else free > 0

    def is_at_its_limit(self, requestor: str) -> bool:
        """Whether *requestor* has as many permits as a limit of its own allows."""
        limit = 0 if self._limit_of is None else self._limit_of(requestor)
        return 0 < limit <= self._held.get(requestor, 0)

    def _may_wait(self, requestor: str) -> bool:
        queue, room = self._queues.get(requestor), self._room
        if queue is not None and self.is_at_its_limit(requestor):
            # It waits for its own work: a second round of that, not all that it can think of.
            return room > 0 and len(queue) < self._held[requestor]
        if queue is None or not self._reserves:
            return room > 0
        return len(queue) < _FACTOR * (room - 1)

    def _enqueue(self, permit: "Permit", requestor: str) -> None:
        self._queues.setdefault(requestor, OrderedDict())[permit] = None
        permit.queued_by += (requestor,)
        self._room -= 1

    def _leave_queues(self, permit: "Permit") -> None:
        for requestor in permit.queued_by:
            queue = self._queues[requestor]
            del queue[permit]
            if not queue:
                del self._queues[requestor]
        self._room += len(permit.queued_by)
        permit.queued_by = ()

    def _serve(self) -> None:
        """Give what is free to those whose turn it is."""
        while self._free:
            requestor = next(filter(self._may_hold, self._queues), None)
            if requestor is None:  # what is left is kept for others
                return
            self._queues.move_to_end(requestor)
            permit = next(iter(self._queues[requestor]))
            self._leave_queues(permit)
            self._free -= 1
            self._held[requestor] = self._held.get(requestor, 0) + 1
            permit.holder = requestor
            permit.wake()


class Permit:
    """A permit of *semaphore*, or a request for one, charged to *holder*, None while it waits."""

    # There is one for each request, so that what most never have is the class's.
    holder: str | None = None
    queued_by: tuple[str, ...] = ()
    _beside: tuple[str, ...] = ()  # who joined without a place in a queue, the last of them
    _future: asyncio.Future[None] | None = None
    _then: Callable[[], None] | None = None
    _is_over = False

    def __init__(self, semaphore: FairSemaphore) -> None:
        self._semaphore = semaphore

    async def granted(self) -> None:
        """Wait until it is given; one waiter at a time. Raises Overloaded when patience ends, or
        TooManyAtOnce where only limits of those who want it kept it back.

        Whoever is cancelled here, or refused, has released it."""
        if self.holder is not None:
            return
        self._future = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._semaphore.patience):
                await self._future
        except TimeoutError as late:
            refusal = self._semaphore.refusal((*self.queued_by, *self._beside))
            self.release()
            raise refusal from late
        except BaseException:
            self.release()
            raise

    def then(self, begin: Callable[[], None]) -> None:
        """Call *begin* once it is given, perhaps now: for work that nobody waits for in a task, and
        that has no patience to lose. Who releases it first is never called."""
        if self.holder is not None:
            begin()
        else:
            self._then = begin

    def join(self, requestor: str) -> None:
        """Let it wait in the turn of *requestor* too, who wants what it is for; never refused."""
        semaphore = self._semaphore
        if self.holder is not None or self._is_over or requestor in self.queued_by:
            return
        if semaphore.has_room(requestor):
            semaphore._enqueue(self, requestor)
            semaphore._serve()
        elif not semaphore.is_at_its_limit(requestor):
            self._beside = (requestor,)

    def release(self) -> None:
        """Give it back, or wait for it no longer."""
        if self._is_over:
            return
        self._is_over = True
        semaphore = self._semaphore
        if self.holder is not None:
            semaphore.give_back(self.holder)
        else:
            semaphore._leave_queues(self)
            if semaphore._queues:
                semaphore._serve()

    def wake(self) -> None:
        """Tell whoever waits that it is given."""
        if self._future is not None and not self._future.done():
            self._future.set_result(None)
        if self._then is not None:
            self._then()

    async def __aenter__(self) -> "Permit":
        await self.granted()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()
