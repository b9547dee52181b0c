"""One trustless gateway: a raw block, or the CAR of a whole DAG, as it sends them.

Knows the trustless gateway's forms (ipfs/specs `trustless-gateway.md`), that no gateway is
believed, and when one is left alone for a while because it cannot be reached. Which blocks are
wanted, and from whom, is left to the retrieval."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import structlog

from content_gateway.breaker import Breaker
from content_gateway.content.cid import Cid
from content_gateway.errors import (
    PinDeferred,
    UpstreamError,
    UpstreamNonsense,
    UpstreamUnavailable,
)
from content_gateway.ipfs.embedded import car
from content_gateway.ipfs.embedded.block import MAX_BLOCK_BYTES, is_block_of
from content_gateway.outbound import Outbound, Stream, host_of

MEDIA_TYPE: Final = "application/vnd.ipld.raw"
_CAR_WANTED: Final = f"{car.MEDIA_TYPE}; version=1; order=dfs; dups=n"

log = structlog.get_logger(__name__)


class NotGiven(UpstreamError):
    """The gateway answered, and what was wanted was not in the answer; *detail* says why."""


class WrongBytes(NotGiven):
    """The gateway served bytes that are not the block they are said to be."""


class Gateway:
    """The gateway at *url*.

    A block may take *seconds*; of a CAR each piece may, and all of it *stream_seconds*."""

    def __init__(
        self,
        outbound: Outbound,
        url: str,
        *,
        seconds: float,
        stream_seconds: float,
        breaker: Breaker | None = None,
    ) -> None:
        self._outbound = outbound
        self._url = url.rstrip("/")
        # Named by host in what is said and logged: the rest of an address may be secret.
        self.name = host_of(url)
        self.seconds = seconds
        self._stream_seconds = stream_seconds
        self._breaker = breaker or Breaker()

    async def block(self, cid: Cid) -> bytes:
        """The verified bytes of the block *cid*.

        Raises WrongBytes, NotGiven when it answered without the block, PinDeferred when it is
        too busy or too slow, UpstreamUnavailable when it cannot be reached."""
        with self._entered():
            answer = await self._outbound.ask(
                "GET",
                f"{self._url}/ipfs/{cid}?format=raw",
                seconds=self.seconds,
                max_bytes=MAX_BLOCK_BYTES,
                headers={"Accept": MEDIA_TYPE},
            )
            _check(answer.status)
        if not is_block_of(cid, answer.body):
            raise self.wrong(str(cid))
        return answer.body

    @asynccontextmanager
    async def car(self, cid: Cid) -> AsyncIterator[Stream]:
        """The CAR of everything below *cid*, to be read, verified and capped by the caller.

        Raises as block does, on entering and while it is read."""
        with self._entered():
            async with self._outbound.stream(
                "GET",
                f"{self._url}/ipfs/{cid}?format=car&dag-scope=all",
                seconds=self._stream_seconds,
                idle_seconds=self.seconds,
                headers={"Accept": _CAR_WANTED},
            ) as stream:
                _check(stream.status)
                if stream.content_type != car.MEDIA_TYPE:
                    raise NotGiven("It did not answer with a CAR.")
                yield stream

    def wrong(self, block: str) -> WrongBytes:
        """The error for wrong bytes in *block*, which is logged with the gateway's name."""
        log.warning("a gateway served wrong bytes", gateway=self.name, block=block)
        return WrongBytes("It served wrong bytes.")

    @contextmanager
    def _entered(self) -> Iterator[None]:
        """A call that the breaker lets in and is told of."""
        attempt = self._breaker.enter()
        if attempt is None:
            raise UpstreamUnavailable("It could not be reached a moment ago.")
        try:
            yield
        except _Busy:
            attempt.failed()
            raise
        except (NotGiven, PinDeferred):
            attempt.succeeded()
            raise
        except UpstreamNonsense as wrong:
            attempt.succeeded()
            raise NotGiven(wrong.detail) from wrong
        except UpstreamUnavailable:
            attempt.failed()
            raise
        except UpstreamError as late:
            # Gateways hold the line while they search: one that finds nothing is not down.
            attempt.left()
            raise PinDeferred(late.detail) from late
        except BaseException:
            attempt.left()
            raise
        attempt.succeeded()


class _Busy(PinDeferred):
    """The gateway says that it takes no more requests now."""


def _check(status: int) -> None:
    """Raise what a *status* other than 200 means."""
    if status in (429, 503):
        raise _Busy(f"It answered {status}.")
    if status >= 500:
        raise PinDeferred(f"It answered {status}.")
    if status != 200:
        raise NotGiven(f"It answered {status}.")
