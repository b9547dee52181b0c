"""One chain through several nodes: the first that is well answers, a second is asked if it dawdles.

Theory of operation. Nodes are tried in the operator's order, leaving out those whose breaker is
open. A failure, or an answer that cannot be read, moves the call to the next node. A node that
takes much longer than it usually does gets a rival: the next one is asked as well (one *hedge* a
call, and one for ten calls in the long run, so that a slow day does not double the load), and
whoever is first wins. A node that was overtaken is noted as having failed: when that happens to
half of its calls its breaker opens and the order changes by itself.

A revert is an answer of the contract and ends the call. What is called, and what the bytes
mean, is left to `names/`."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from content_gateway.errors import UpstreamError, UpstreamNonsense, UpstreamUnavailable
from content_gateway.ethereum.endpoint import Endpoint
from content_gateway.outbound import Outbound

T = TypeVar("T")

_PATIENCE: Final = 4.0  # times the usual latency, before a rival is asked
_LEAST_PATIENCE: Final = 0.05
_HEDGES_PER_CALL: Final = 0.1
_MOST_HEDGES_SAVED: Final = 5.0


class EthereumRpc:
    """One chain, reached through *urls*; *seconds* bounds each request."""

    def __init__(
        self,
        outbound: Outbound,
        urls: Sequence[str],
        *,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoints = [Endpoint(outbound, url, seconds=seconds, clock=clock) for url in urls]
        self._most_patience = seconds / 4
        self._hedges = _MOST_HEDGES_SAVED

    async def call(self, to: str, data: bytes, read: Callable[[bytes], T]) -> T:
        """What *read* makes of that which the contract at *to* returns for *data*, at the latest
        block.

        An answer that *read* refuses with ValueError counts as that node's failure. Raises
        Reverted when the contract refuses, UpstreamError when no node gave an answer that can be
        right: the error of the last one."""
        self._hedges = min(_MOST_HEDGES_SAVED, self._hedges + _HEDGES_PER_CALL)
        waiting = iter(self._endpoints)
        running: dict[asyncio.Task[T], Endpoint] = {}

        def start() -> bool:
            """Ask the next node that may be asked; False if there is none."""
            endpoint = next((one for one in waiting if one.breaker.enter()), None)
            if endpoint is not None:
                running[asyncio.create_task(_understood(endpoint, to, data, read))] = endpoint
            return endpoint is not None

        failure: UpstreamError = UpstreamUnavailable("No Ethereum endpoint is well.")
        may_hedge = self._hedges >= 1
        try:
            while running or start():
                done, _ = await asyncio.wait(
                    running,
                    timeout=self._patience(running.values()) if may_hedge else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not done:
                    may_hedge = False
                    self._hedges -= start()
                for task in done:
                    endpoint, error = running[task], task.exception()
                    if error is None:
                        _note_overtaken(running, task)
                    del running[task]
                    endpoint.told(error)
                    if not isinstance(error, UpstreamError):
                        return task.result()
                    failure = error
            raise failure
        finally:
            await _end(running)

    def _patience(self, asked: Iterable[Endpoint]) -> float:
        """Seconds after which a rival of the *asked* nodes is asked."""
        usual = [one.usual_latency for one in asked]
        if None in usual:
            return self._most_patience
        wanted = _PATIENCE * max(latency for latency in usual if latency is not None)
        return min(max(wanted, _LEAST_PATIENCE), self._most_patience)


async def _understood(endpoint: Endpoint, to: str, data: bytes, read: Callable[[bytes], T]) -> T:
    returned = await endpoint.call(to, data)
    try:
        return read(returned)
    except ValueError as wrong:
        raise UpstreamNonsense(f"The contract's answer cannot be read: {wrong}.") from wrong


def _note_overtaken(running: dict[asyncio.Task[T], Endpoint], winner: asyncio.Task[T]) -> None:
    """Nodes that were asked before the *winner* and have not answered yet are too slow."""
    for task, endpoint in running.items():
        if task is winner:
            return
        endpoint.breaker.failed()


async def _end(running: dict[asyncio.Task[T], Endpoint]) -> None:
    """Give up whatever is still *running*, and wait until it has ended."""
    for task, endpoint in running.items():
        task.cancel()
        endpoint.breaker.left()
    if running:
        await asyncio.gather(*running, return_exceptions=True)
