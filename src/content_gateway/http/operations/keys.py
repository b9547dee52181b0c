"""The handler of GET /key: what a key may do, and how much it holds.

Knows the fields of spec.yaml. Keys are issued, rotated and revoked by commands only."""

from typing import Any, Final, cast

from content_gateway.api_keys import SCOPES
from content_gateway.codecs.timestamps import rfc3339
from content_gateway.http.auth import ANY_SCOPE, KeyVerifier, Principal
from content_gateway.http.key_limits import KeyLimits, KeyUse
from content_gateway.http.messages import Handler, Handlers, Request, Response, confirmed
from content_gateway.http.query import parse_query
from content_gateway.model.pins import Page, Search
from content_gateway.pins.pinning import Pinning

_SHOWN: Final = {
    "requests_per_minute": "requestsPerMinute",
    "requests_per_day": "requestsPerDay",
    "pins": "pins",
    "lookups": "lookups",
    "streams": "streams",
}


class KeyHandlers:
    """Tells whoever has a key about it."""

    def __init__(self, keys: KeyVerifier, pinning: Pinning, limits: KeyLimits) -> None:
        self._keys = keys
        self._limits = limits
        self._pinning = pinning

    @property
    def by_id(self) -> Handlers:
        """Handler by operationId."""
        return {"getKey": Handler(self.key, ANY_SCOPE)}

    async def key(self, request: Request) -> Response:
        """The key that was sent: scopes, dates, pins, limits and what it has used."""
        parse_query(request.query, ())
        principal = cast(Principal, request.principal)
        scopes = principal.requestor.scopes
        result: dict[str, Any] = {"scopes": [scope for scope in SCOPES if scope in scopes]}
        record = await self._keys.describe(principal.key)
        if record is not None:
            result |= {"name": record.name, "created": rfc3339(record.created_at)}
            if record.expires_at is not None:
                result["expires"] = rfc3339(record.expires_at)
            if record.type is not None:
                result["type"] = record.type
        if "pin" in scopes:
            result["pins"] = await self._pinning.search(
                principal.requestor.id, Search(limit=1), _count
            )
        if principal.requestor.allowance.limits:
            use = self._limits.use_of(principal.requestor)
            result["limits"] = _limits(use, result.get("pins"))
        return confirmed("API key", result)


def _count(page: Page) -> int:
    return page.count


def _limits(use: KeyUse, pins: int | None) -> dict[str, dict[str, int]]:
    """The limits that there are, and what of each is used, where that is counted."""
    used = {"pins": pins}
    for name, window in (("requests_per_minute", use.minute), ("requests_per_day", use.day)):
        used[name] = None if window is None else window.used
    shown = {}
    for name, limit in use.allowance.limits.items():
        shown[_SHOWN[name]] = {"limit": limit}
        if (number := used.get(name)) is not None:
            shown[_SHOWN[name]]["used"] = number
    return shown
