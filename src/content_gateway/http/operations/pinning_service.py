"""The handlers of the Pinning Service API 1.0.0, which clients find under /psa.

Puts the API's words on the same pins that the native operations show: one ledger, two faces. Knows
its operations and its PinStatus object; requests are parsed by pinning_service_query.py."""

from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec

from content_gateway.codecs.timestamps import exact_rfc3339
from content_gateway.errors import PinNotFound
from content_gateway.http.messages import Handler, Handlers, Request, Response, keyed
from content_gateway.http.operations.pin_answers import encode_page, redacted_reason
from content_gateway.http.operations.pinning_service_query import (
    STATES,
    parse_pin,
    parse_request_id,
    parse_search,
    request_id,
)
from content_gateway.http.query import parse_query
from content_gateway.model.cid import Cid
from content_gateway.model.content_state import ContentState
from content_gateway.model.pins import Page, PinStatus
from content_gateway.pins.delegates import Delegates
from content_gateway.pins.origins import OriginRules
from content_gateway.pins.pinning import Pinning

# Seconds that an added pin is waited for, so that a client hears `pinned` of what is there already.
PATIENCE: Final = 0.2
_STATUS: Final = {state: word for word, states in STATES.items() for state in states}


class Fulfilment(Protocol):
    """What is done about pins behind the answers, as far as an answer may wait for it."""

    async def is_idle(self) -> bool:
        """Whether nothing waits or is under way, so that a pin made now is begun at once."""

    async def first_outcome(self, cid: Cid, seconds: float) -> bool:
        """Whether something was observed of *cid* within *seconds*; may say no without waiting."""


class PsaHandlers:
    """Answers clients of the Pinning Service API.

    *delegates* has the multiaddrs they should connect to; *origins* filters theirs."""

    def __init__(
        self, pinning: Pinning, *, delegates: Delegates, origins: OriginRules, work: Fulfilment
    ) -> None:
        self._pinning = pinning
        self._delegates = delegates
        self._origins = origins
        self._work = work

    @property
    def by_id(self) -> Handlers:
        """Handler by operationId."""
        return {
            "psaListPins": Handler(self.list, "pin"),
            "psaAddPin": Handler(self.add, "pin"),
            "psaGetPin": Handler(self.get, "pin"),
            "psaReplacePin": Handler(self.replace, "pin"),
            "psaRemovePin": Handler(self.remove, "pin"),
        }

    async def list(self, request: Request) -> Response:
        """The requestor's pins that pass the filters, newest first."""
        search = parse_search(request.query)
        return await self._pinning.search(request.requestor, search, self._listed)

    async def add(self, request: Request) -> Response:
        """A pin of the CID in the body: a new one, or the one that is there, described again."""
        parse_query(request.query, ())
        spelling, label = parse_pin(request.body, self._origins)
        was_idle = await self._work.is_idle()
        status = await self._pinning.describe(request.requestor, spelling, label)
        return await self._accepted(request.requestor, status, was_idle=was_idle)

    async def get(self, request: Request) -> Response:
        """One of the requestor's pins."""
        parse_query(request.query, ())
        return self._answer(await self._held(request))

    async def replace(self, request: Request) -> Response:
        """Another pin in place of one of the requestor's."""
        parse_query(request.query, ())
        spelling, label = parse_pin(request.body, self._origins)
        old, was_idle = (await self._held(request)).pin, await self._work.is_idle()
        status = await self._pinning.replace(request.requestor, old, spelling, label)
        return await self._accepted(request.requestor, status, was_idle=was_idle)

    async def remove(self, request: Request) -> Response:
        """The end of one of the requestor's pins; no body (the API's yaml)."""
        parse_query(request.query, ())
        pin = (await self._held(request)).pin
        await self._pinning.remove(request.requestor, pin.cid, pin.created_at)
        return keyed(b"", status=202)

    async def _held(self, request: Request) -> PinStatus:
        """The requestor's pin with the request id in *request*; raises PinNotFound."""
        created_at, cid = parse_request_id(request.argument)
        status = await self._pinning.status(request.requestor, cid)
        if status.pin.created_at != created_at:
            raise PinNotFound  # it was replaced by a later pin of the same CID
        return status

    async def _accepted(self, requestor: str, status: PinStatus, *, was_idle: bool) -> Response:
        """The answer to an accepted pin. What is pinned already is told from the ledger.

        Something new is waited for, a moment, only where nothing was to be done before it: then
        the backend's first word is near. Nothing is awaited between the reading of the status
        and the wait for what changes it, so no change is missed."""
        if was_idle and status.state is ContentState.QUEUED and not status.error:
            await self._work.first_outcome(status.pin.cid, PATIENCE)
            with suppress(PinNotFound):  # removed in this moment: it was accepted all the same
                status = await self._pinning.status(requestor, status.pin.cid)
        return self._answer(status, 202)

    def _listed(self, page: Page) -> Response:
        """A page: where `count` is more than it shows, clients ask on with `before`."""
        results = encode_page(page.pins, self._shown)
        return keyed(msgspec.json.encode({"count": page.count, "results": results}))

    def _answer(self, status: PinStatus, code: int = 200) -> Response:
        return keyed(msgspec.json.encode(self._shown(status)), status=code)

    def _shown(self, status: PinStatus) -> dict[str, Any]:
        """The API's PinStatus object."""
        label = status.pin.label
        pin: dict[str, Any] = {"cid": status.pin.spelling}
        if label.name is not None:
            pin["name"] = label.name
        if label.origins:
            pin["origins"] = label.origins
        if label.meta:
            pin["meta"] = label.meta
        return {
            "requestid": request_id(status.pin),
            "status": _STATUS[status.state],
            "created": exact_rfc3339(status.pin.created_at),
            "pin": pin,
            "delegates": self._delegates.known,
            "info": _info(status),
        }


def _info(status: PinStatus) -> dict[str, str]:
    """What the API leaves to each service: texts by name."""
    info = {}
    if status.wanted:
        info["replicas"] = f"{status.replicas} of {status.wanted}"
    if reason := redacted_reason(status):
        info["status_details"] = reason
    return info
