"""Asks another pinning service for pages of its pins, and asks again where that may help.

Knows the request, its access token, and which answers pass: too many requests and faults of the
server are waited out, for a bounded time; everything else is told in words. Never repeats what the
server says, which may be the token. What a page holds is left to answers.py."""

import asyncio
import random
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from content_gateway.codecs.timestamps import exact_rfc3339
from content_gateway.errors import (
    AnswerTooLarge,
    GatewayError,
    InvalidUpstreamResponse,
    UpstreamError,
)
from content_gateway.net.http_client import HttpClient
from content_gateway.pinning_services.answers import PinPage, parse_page

PAGE: Final = 1000  # the most that the API lets one ask for
MAX_PAGE_BYTES: Final = (
    16 * 1024 * 1024
)  # a thousand pins with a full label and twenty delegates: 9
_PAGE_SECONDS: Final = 120.0
_IDLE_SECONDS: Final = 30.0
_ATTEMPTS: Final = 6
_FIRST_PAUSE: Final = 0.5
_MOST_PATIENCE: Final = 600.0  # seconds that one page may be waited for at the server's word

_IN_WORDS: Final = {
    401: "The service refuses the access token (401).",
    403: "The service does not let this access token list pins (403).",
    404: "There is no Pinning Service API at this URL (404): it ends where `/pins` would follow.",
    405: "There is no Pinning Service API at this URL (405).",
}


class PinningService:
    """The pins at *url*, to which `/pins` is added, for whoever has the access *token*.

    *waiting* is told why a page is waited for, and None when it has come."""

    def __init__(
        self,
        client: HttpClient,
        url: str,
        token: str,
        waiting: Callable[[str | None], None] = lambda reason: None,
        *,
        first_pause: float = _FIRST_PAUSE,
    ) -> None:
        self._client = client
        self._url = url.rstrip("/") + "/pins"
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._waiting = waiting
        self._first_pause = first_pause

    async def page(self, statuses: Collection[str], before: datetime | None) -> PinPage:
        """The newest pins in one of *statuses* that were made *before* then, PAGE of them at most.

        Raises GatewayError, in words, when the service will not tell, or not in time."""
        asked = {"status": ",".join(statuses), "limit": str(PAGE)}
        if before is not None:
            asked["before"] = exact_rfc3339(before)
        url = f"{self._url}?{urlencode(asked)}"
        pause, waited = self._first_pause, 0.0
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                page = await self._ask(url)
            except _NotNow as failed:
                asks = pause * random.uniform(0.5, 1.0)  # noqa: S311 - spreads the load
                asks = max(asks, failed.seconds)
                if attempt == _ATTEMPTS:
                    raise GatewayError(f"{failed.detail} It was asked {attempt} times.") from failed
                if waited + asks > _MOST_PATIENCE:
                    raise GatewayError(
                        f"{failed.detail} It asks to wait {asks:.0f} s: run it again then."
                    ) from failed
                self._waiting(failed.detail)
                await asyncio.sleep(asks)
                pause, waited = 2 * pause, waited + asks
            else:
                self._waiting(None)
                return page
        raise AssertionError

    async def _ask(self, url: str) -> PinPage:
        """One request; raises _NotNow where another may be answered, GatewayError where not."""
        body = bytearray()
        try:
            async with self._client.stream(
                "GET",
                url,
                seconds=_PAGE_SECONDS,
                idle_seconds=_IDLE_SECONDS,
                headers=self._headers,
            ) as answer:
                _check_status(answer.status, answer.retry_after)
                async for chunk in answer.chunks():
                    body += chunk
                    if len(body) > MAX_PAGE_BYTES:
                        raise AnswerTooLarge(
                            f"The service sends a page of more than {MAX_PAGE_BYTES} bytes."
                        )
            return parse_page(bytes(body))
        except (AnswerTooLarge, _NotNow):
            raise
        except UpstreamError as failed:
            raise _NotNow(failed.detail) from failed


class _NotNow(InvalidUpstreamResponse):
    """The service may answer later, not before *seconds* have passed."""

    def __init__(self, detail: str, seconds: float = 0.0) -> None:
        super().__init__(detail)
        self.seconds = seconds


def _check_status(status: int, retry_after: str | None) -> None:
    if status == HTTPStatus.OK:
        return
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        raise _NotNow("The service gets too many requests (429).", retry_seconds(retry_after))
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise _NotNow(f"The service fails ({status}).", retry_seconds(retry_after))
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        raise GatewayError(
            f"The service redirects elsewhere ({status}), where the access token is not sent: give"
            " the URL that it ends at."
        )
    raise GatewayError(_IN_WORDS.get(status, f"The service refuses the request ({status})."))


def retry_seconds(text: str | None) -> float:
    """The seconds that a Retry-After asks for (RFC 9110, 10.2.3), 0 where it says nothing."""
    if text is None:
        return 0.0
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        ahead = parsedate_to_datetime(text).astimezone(UTC) - datetime.now(UTC)
    except (ValueError, OverflowError):
        return 0.0
    return max(ahead, timedelta(0)).total_seconds()
