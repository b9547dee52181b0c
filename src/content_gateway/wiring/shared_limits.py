"""The part of the composition root that shares limits with other machines, where the settings ask
for it (`limits.url`).

One service is one in the store, whether it has one process or several: workers tell each other
through their supervisor, and that tells the store. So nothing is counted twice, and without the
store a machine's workers still share."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from content_gateway.http.key_limits import KeyLimits
from content_gateway.http.shared_counts import Counts, SharedCounts, Taken
from content_gateway.settings.groups import LimitSettings
from content_gateway.wiring.extras import imported

if TYPE_CHECKING:
    from content_gateway.valkey.exchange import CountExchange

_MODULE: Final = "content_gateway.valkey.exchange"


@asynccontextmanager
async def of_one_process(
    chosen: LimitSettings, limits: KeyLimits
) -> AsyncIterator["CountExchange | None"]:
    """Share *limits*, which this process alone counts; None where they are not shared.

    Raises WrongSettings."""
    if not chosen.url:
        yield None
        return
    exchange = await _exchange(chosen)
    counts = SharedCounts(limits, exchange.tell)
    await exchange.open(counts.hear_late, counts.raise_to)
    try:
        yield exchange
    finally:
        counts.tell()
        await exchange.close()


class LimitsOfWorkers:
    """The limits of a service of several processes, as its supervisor shares them.

    What keys have used is known here too, for workers that begin when there is no other to ask."""

    def __init__(self) -> None:
        self._tell: Callable[[str, Any], None]
        self._exchange: CountExchange | None = None
        self._known = SharedCounts(KeyLimits(), lambda _: None)

    @property
    def is_up(self) -> bool | None:
        """Whether they are shared now; None where they are not to be."""
        return None if self._exchange is None else self._exchange.is_up

    @property
    def rounds(self) -> Mapping[str, int]:
        """How many rounds had which outcome."""
        return {} if self._exchange is None else self._exchange.rounds

    def counts(self) -> Counts | None:
        """What keys have used, on all machines."""
        return None if self._exchange is None else self._known.counts()

    def hear(self, taken: Taken) -> None:
        """Take what a worker let through."""
        if self._exchange is not None:
            self._known.hear(taken)
            self._exchange.tell(taken)

    @asynccontextmanager
    async def shared(
        self, chosen: LimitSettings, tell: Callable[[str, Any], None]
    ) -> AsyncIterator[None]:
        """While entered they are shared, if the settings say so; *tell* tells all workers of what
        was "heard" of other machines, and the "totals" of all. Raises WrongSettings."""
        if not chosen.url:
            yield
            return
        self._tell = tell
        self._exchange = exchange = await _exchange(chosen)
        await exchange.open(self._hear_others, self._raise_to)
        try:
            yield
        finally:
            await exchange.close()

    def _hear_others(self, heard: Counts) -> None:
        self._known.hear_late(heard)
        self._tell("heard", heard)

    def _raise_to(self, totals: Counts) -> None:
        self._known.raise_to(totals)
        self._tell("totals", totals)


async def _exchange(chosen: LimitSettings) -> "CountExchange":
    library = await imported(_MODULE, "limits.url", "valkey")
    options = library.StoreOptions(chosen.url, chosen.prefix)
    exchange: CountExchange = library.CountExchange(options)
    return exchange
