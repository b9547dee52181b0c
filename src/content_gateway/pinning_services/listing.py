"""All pins of another pinning service, page by page, whatever its pages are like.

Theory of operation. The API lists the newest pins first; the next page is asked for by `before`,
which is exclusive, and the oldest time of the page before. That alone would lose pins: several may
have been made at one time, and a service that shows milliseconds may compare microseconds. So each
page is asked for from just above the oldest time, and what comes again is passed over. A page that
brings nothing new is asked for again from closer to that time, and in the end from the time itself,
which is where the list may have its end, or where more pins share one time than a page holds: those
that each page has left out, when the next is asked for from closer, cannot be had and are told.

`count` ends nothing, since services lie in it; an empty page does. A service that sends the same
page for ever (nft.storage did: pinning-service-compliance, issue 114) is found out by pins that are
not older than was asked for. That may be all it has."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from content_gateway.errors import GatewayError
from content_gateway.pinning_services.answers import NARROWER, ListedPin, PinPage

_NOTHING: Final = timedelta(0)


class Pages(Protocol):
    """Where pages come from."""

    async def page(self, statuses: Sequence[str], before: datetime | None) -> PinPage:
        """The newest pins in one of *statuses*, made *before* then; raises GatewayError."""


@dataclass(frozen=True, slots=True)
class NewPins:
    """The pins of a page that did not come before; a listing from *before* on has all behind.

    It brings *again* of the pins so far once more: how many is known to the listing alone."""

    pins: Sequence[ListedPin]
    before: datetime
    again: int


class PinListing:
    """The pins of *source* in one of *statuses*, made before *before*, down to the time *until*.

    Holds a few pages at a time. *claimed* is how many pins there are by the service's first answer,
    None until then; *left_out* how many, at least, it cannot list, as too many were made at one
    time. *ignores_before*: it sent pins that are not older than was asked for."""

    def __init__(
        self,
        source: Pages,
        statuses: Sequence[str],
        before: datetime | None = None,
        until: datetime | None = None,
    ) -> None:
        self.claimed: int | None = None
        self.left_out = 0
        self.ignores_before = False
        self._source = source
        self._statuses = statuses
        self._before = before
        self._until = until
        self._known: dict[str, datetime | None] = {}  # pins that may come again, and their times

    async def pages(self) -> AsyncIterator[NewPins]:
        """The pages that bring something new.

        Raises GatewayError as the source does, and when what it sends makes no sense."""
        before, oldest, margin = self._before, None, _NOTHING
        nearest: PinPage | None = None  # to the oldest time, of those asked for from above it
        while True:
            page = await self._source.page(self._statuses, before)
            if self.claimed is None:
                self.claimed = page.count
            new = {pin.id: pin for pin in page.pins if pin.id not in self._known}
            times = [(pin.created, pin.unit) for pin in page.pins if pin.created and pin.unit]
            if page.pins and not times:
                raise GatewayError(
                    "The service does not say when its pins were made: they cannot be listed."
                )
            if before is not None and any(at >= _sum(before, unit) for at, unit in times):
                self.ignores_before = True
            if nearest is not None and oldest is not None:
                self._note_left_out(nearest, page, oldest)
            if times and (oldest is None or min(times)[0] < oldest):
                oldest, margin = min(times)
                nearest = None
            elif oldest is None or margin == _NOTHING:
                if page.count > len({pin.id for pin in page.pins}) > 0:
                    raise GatewayError(
                        "The service sends the same page again, whatever it is asked for."
                    )
                return
            else:
                margin, nearest = NARROWER[margin], page
            asked, before = before, _nearer(before, oldest, margin)
            # What the nearest page left out is not known yet.
            goes_on = asked if nearest is not None and asked is not None else before
            self._remember(new, before)
            if new:
                yield NewPins(list(new.values()), goes_on, self._known_before(goes_on))
            if self._until is not None and oldest <= self._until:
                return

    def _remember(self, new: Mapping[str, ListedPin], before: datetime) -> None:
        """Know *new* pins again, and forget those that cannot come again *before* then."""
        kept: dict[str, datetime | None] = {
            id_: at for id_, at in self._known.items() if at is not None and at <= before
        }
        self._known = kept | {pin.id: pin.created for pin in new.values()}

    def _known_before(self, before: datetime) -> int:
        return sum(at is None or at < before for at in self._known.values())

    def _note_left_out(self, above: PinPage, below: PinPage, timestamp: datetime) -> None:
        """Count the pins of *timestamp* that the page from right *above* it had no room for, and
        that the one from closer, *below*, does not reach up to.

        Those between the two that did come are known: they cannot come again, and are forgotten."""
        still = {pin.id for pin in below.pins}
        between = [
            id_ for id_, at in self._known.items() if at and at >= timestamp and id_ not in still
        ]
        self.left_out += max(above.count - below.count - len(between), 0)
        for id_ in between:
            del self._known[id_]


def _nearer(before: datetime | None, oldest: datetime, margin: timedelta) -> datetime:
    """So far above the *oldest* time, and never above what was asked for *before*: a time without a
    fraction says little, and what came since says more."""
    above = _sum(oldest, margin)
    return above if before is None else min(before, above)


def _sum(timestamp: datetime, margin: timedelta) -> datetime:
    try:
        return timestamp + margin
    except OverflowError:  # the year 9999
        return timestamp
