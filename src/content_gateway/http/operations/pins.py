"""The handlers of this service's own pin operations (spec.yaml).

Parses CIDs and query parameters, calls Pinning and renders its result. The Pinning Service API's
operations on the same pins are in pinning_service.py."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, cast

from content_gateway.errors import InvalidQuery, PinNotFound
from content_gateway.http.auth import Principal
from content_gateway.http.messages import Handler, Handlers, Request, Response
from content_gateway.http.operations.pin_answers import (
    pin_added,
    pin_exists,
    pin_removed,
    pin_status,
    pins_listed,
)
from content_gateway.http.query import choices, name_for_people, number, parse_query, texts
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import PIN_STATES, ContentState
from content_gateway.model.pins import MAX_LABEL_BYTES, NO_LABEL, Label, Search, parse_cursor
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
        """A new pin for the requestor, or the notice that it exists: described again, if asked."""
        principal = cast(Principal, request.principal)
        requestor = principal.requestor.id
        given = _given(request.query) if request.query else {}
        label = _label(NO_LABEL, given) if given else NO_LABEL
        pin = await self._pinning.add(requestor, request.argument, label)
        if pin is not None:
            return pin_added(pin, principal.key)
        if given:
            kept = NO_LABEL
            with suppress(PinNotFound):  # it was removed in this moment, and is added again
                held = await self._pinning.status(requestor, Cid.parse(request.argument))
                kept = held.pin.label
            await self._pinning.describe(requestor, request.argument, _label(kept, given))
        return pin_exists()

    async def status(self, request: Request) -> Response:
        """How far one of the requestor's pins is."""
        parse_query(request.query, ())
        cid = Cid.parse(request.argument)
        return pin_status(await self._pinning.status(request.requestor, cid))

    async def list(self, request: Request) -> Response:
        """The requestor's pins, newest first, a page at a time."""
        asked = parse_query(request.query, _LISTED, lists=("status",))
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


def _given(query: bytes) -> dict[str, Any]:
    """What *query* says of a pin, by the fields of a Label; raises InvalidQuery."""
    asked = parse_query(query, ("name", "meta"))
    given: dict[str, Any] = {}
    if "name" in asked:
        given["name"] = name_for_people(asked["name"])
    if "meta" in asked:
        given["meta"] = texts("meta", asked["meta"])
    return given


def _label(kept: Label, given: Mapping[str, Any]) -> Label:
    """The label *kept*, with what is *given* in its place; raises InvalidQuery."""
    label = replace(kept, **given)
    if (size := label.encoded_bytes) > MAX_LABEL_BYTES:
        raise InvalidQuery(
            f"name, origins and meta have at most {MAX_LABEL_BYTES} bytes as JSON, not {size}."
        )
    return label
