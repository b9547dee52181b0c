"""The handlers of this service's own pin operations (spec.yaml).

Parses CIDs and query parameters, calls Pinning and renders its result. The Pinning Service API's
operations on the same pins are in pinning_service.py."""

from typing import Final, cast

from content_gateway.http.auth import Principal
from content_gateway.http.messages import Handler, Handlers, Request, Response
from content_gateway.http.operations.pin_answers import (
    pin_added,
    pin_exists,
    pin_removed,
    pin_status,
    pins_listed,
)
from content_gateway.http.query import choices, number, parse_query
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import PIN_STATES, ContentState
from content_gateway.model.pins import Search, parse_cursor
from content_gateway.pins.pinning import Pinning

_LISTED: Final = ("status", "cursor", "limit")


class PinHandlers:
    """Adds, shows, lists and removes the pins of who asks."""

    def __init__(self, pinning: Pinning) -> None:
        self._pinning = pinning

    @property
    def by_id(self) -> Handlers:
        """Handler by operationId."""
        return {
            "addPin": Handler(self.add, "pin"),
            "getPinStatus": Handler(self.status, "pin"),
            "listPins": Handler(self.list, "pin"),
            "removePin": Handler(self.remove, "pin"),
        }

    async def add(self, request: Request) -> Response:
        """A new pin for the requestor, or the notice that it exists."""
        principal = cast(Principal, request.principal)
        pin = await self._pinning.add(principal.requestor.id, request.argument)
        return pin_exists() if pin is None else pin_added(pin, principal.key)

    async def status(self, request: Request) -> Response:
        """How far one of the requestor's pins is."""
        parse_query(request.query, ())
        return pin_status(self._pinning.status(request.requestor, Cid.parse(request.argument)))

    async def list(self, request: Request) -> Response:
        """The requestor's pins, newest first, a page at a time."""
        asked = parse_query(request.query, _LISTED)
        states = choices("status", asked.get("status"), PIN_STATES)
        search = Search(
            states=frozenset(map(ContentState, states)) or None,
            cursor=parse_cursor(asked["cursor"]) if "cursor" in asked else None,
            limit=number("limit", asked.get("limit"), least=1, most=1000, default=100),
        )
        return await self._pinning.search(request.requestor, search, pins_listed)

    async def remove(self, request: Request) -> Response:
        """The end of one of the requestor's pins."""
        parse_query(request.query, ())
        cid = Cid.parse(request.argument)
        await self._pinning.remove(request.requestor, cid)
        return pin_removed(request.argument)
