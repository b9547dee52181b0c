"""One trustless gateway: a raw block, or the CAR of a whole DAG, as it sends them.

Knows the trustless gateway's forms (ipfs/specs `trustless-gateway.md`), that no gateway is
believed, and when one is left alone for a while because it cannot be reached. Which blocks are
wanted, and from whom, is left to the retrieval."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import structlog

from content_gateway.backends.embedded.rate_limit import RateLimit, parse_retry_after
from content_gateway.errors import (
    InvalidUpstreamResponse,
    PinDeferred,
    UpstreamError,
    UpstreamUnavailable,
)
from content_gateway.ipld import car
from content_gateway.ipld.block import MAX_BLOCK_BYTES, is_block_of
from content_gateway.model.cid import Cid
from content_gateway.net.circuit_breaker import Breaker
from content_gateway.net.http_client import Download, HttpClient, host_of

MEDIA_TYPE: Final = "application/vnd.ipld.raw"
_IN_PLACE_BYTES: Final = 128 * 1024
OK: Final = 200
TOO_MANY: Final = 429
INTERNAL: Final = 500
DOWN: Final = 503
# A trustless gateway knows the forms it is asked for: 406 is what others say, and 400, 415, 501.
_NO_SUCH_FORM: Final = frozenset((400, 406, 415, 501))
_CAR_WANTED: Final = f"{car.MEDIA_TYPE}; version=1; order=dfs; dups=n"

log = structlog.get_logger(__name__)


class NotGiven(UpstreamError):
    """The gateway answered, and what was wanted was not in the answer; *detail* says why."""


class WrongBytes(NotGiven):
    """The gateway served bytes that are not the block they are said to be."""


class Busy(PinDeferred):
    """The gateway says that it takes no more requests now, and is left alone for a moment."""


class TrustlessGateway:
    """The gateway at *url*.

    A block may take *seconds*; of a CAR each piece may, and all of it *stream_seconds*."""

    def __init__(
        self,
        outbound: HttpClient,
        url: str,
        *,
        seconds: float,
        stream_seconds: float,
        breaker: Breaker | None = None,
        pace: RateLimit | None = None,
    ) -> None:
        self._outbound = outbound
        self._url = url.rstrip("/")
        # Named by host in what is said and logged: the rest of an address may be secret.
        self.name = host_of(url)
        self.seconds = seconds
        self._stream_seconds = stream_seconds
        self._breaker = breaker or Breaker()
        self.pace = pace or RateLimit()

    async def block(self, cid: Cid) -> bytes:
        """The verified bytes of the block *cid*, once it is this request's turn.

        Raises WrongBytes, NotGiven when it answered without the block, Busy when it takes no more
        requests now, PinDeferred when it is too slow, UpstreamUnavailable without a connection."""
        async with self._entered(f"/ipfs/{cid}?format=raw", MEDIA_TYPE, self.seconds) as answer:
            is_raw = answer.content_type == MEDIA_TYPE
            data = bytearray()
            async for chunk in answer.chunks():
                data += chunk
                if len(data) > MAX_BLOCK_BYTES:
                    large = NotGiven(f"Its answer has more than {MAX_BLOCK_BYTES} bytes.")
                    raise large if is_raw else _files_only("not blocks")
            block = bytes(data)
        # Milliseconds for a large one, and many may come at once: not on the event loop.
        is_right = (
            await asyncio.to_thread(is_block_of, cid, block)
            if len(block) > _IN_PLACE_BYTES
            else is_block_of(cid, block)
        )
        if is_right:
            return block
        if not is_raw:
            raise _files_only("not blocks")
        raise self.wrong(str(cid))

    @asynccontextmanager
    async def car(self, cid: Cid) -> AsyncIterator[Download]:
        """The CAR of everything below *cid*, to be read, verified and capped by the caller.

        Raises as block does, on entering and while it is read."""
        path = f"/ipfs/{cid}?format=car&dag-scope=all"
        async with self._entered(path, _CAR_WANTED, self._stream_seconds) as answer:
            if answer.content_type != car.MEDIA_TYPE:
                raise _files_only("not CARs")
            yield answer

    def wrong(self, block: str) -> WrongBytes:
        """The error for wrong bytes in *block*, which is logged with the gateway's name."""
        log.warning("a gateway served wrong bytes", gateway=self.name, block=block)
        return WrongBytes("It served wrong bytes.")

    @asynccontextmanager
    async def _entered(self, path: str, accept: str, seconds: float) -> AsyncIterator[Download]:
        """The answer of status 200 to a request that its pace and the breaker let in."""
        if self.pace.takes_nothing:
            raise Busy(f"It takes no requests for {self.pace.pause:.0f} s more.")
        await self.pace.turn()
        with self._attempted():
            asked_at = self.pace.now()
            async with self._outbound.stream(
                "GET",
                f"{self._url}{path}",
                seconds=seconds,
                idle_seconds=self.seconds,
                headers={"Accept": accept},
            ) as answer:
                self._check(answer, asked_at)
                yield answer

    def _check(self, answer: Download, asked_at: float) -> None:
        """Raise what a status other than 200 means."""
        status, wait = answer.status, parse_retry_after(answer.retry_after)
        # 503 alone says that it is down; with a time, that it is busy.
        if status == TOO_MANY or (status == DOWN and wait is not None):
            self.pace.refused(asked_at, wait)
            raise Busy(f"It answered {status}.")
        if status == DOWN:
            raise _Down(f"It answered {status}.")
        self.pace.answered()
        if status in _NO_SUCH_FORM:
            raise _files_only(f"it answered {status}")
        if status >= INTERNAL:
            raise PinDeferred(f"It answered {status}.")
        if status != OK:
            raise NotGiven(f"It answered {status}.")

    @contextmanager
    def _attempted(self) -> Iterator[None]:
        """A call that the breaker lets in and is told of."""
        attempt = self._breaker.enter()
        if attempt is None:
            raise UpstreamUnavailable("It could not be reached a moment ago.")
        try:
            yield
        except _Down:
            attempt.failed()
            raise
        except (NotGiven, PinDeferred):
            attempt.succeeded()
            raise
        except InvalidUpstreamResponse as wrong:
            attempt.succeeded()
            raise NotGiven(wrong.detail) from wrong
        except UpstreamUnavailable:
            attempt.failed()
            raise
        except UpstreamError as late:
            # Gateways hold the line while they search: one that finds nothing is not down.
            attempt.abandoned()
            raise PinDeferred(late.detail) from late
        except BaseException:
            attempt.abandoned()
            raise
        attempt.succeeded()


class _Down(PinDeferred):
    """The gateway says that it serves nobody now."""


def _files_only(why: str) -> NotGiven:
    """The error for a gateway that knows no other answer than a file or a page."""
    return NotGiven(f"It serves files only, {why}.")
