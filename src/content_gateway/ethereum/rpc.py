"""One chain through several nodes: the first healthy one is asked, and a second if it is slow.

Theory of operation. Nodes are tried in the operator's order, without those whose breaker is open.
After a failure, or an answer that cannot be read, the next node is tried. When a node takes much
longer than it usually does the call is hedged: the next node is asked too, and the first answer
counts. There is one hedge for a call, and one for ten calls in the long run, so that a slow day
does not double the load. A node that loses such a race is recorded as having failed: when that
happens to half of its calls its breaker opens, and the next node comes first.

While names have changed lately, only nodes are asked that have the block in which that was
(required_block.py). Where none has it yet, the first that is well will do, and that is remembered.

A revert is the contract's answer and ends the call. What the bytes mean is left to `names/`."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from content_gateway.codecs.abi import Reverted
from content_gateway.errors import (
    AnswerTooLarge,
    Overloaded,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.ethereum.endpoint import (
    CallAttempt,
    NodeBehind,
    encode_call,
    endpoints_of,
    understood,
)
from content_gateway.ethereum.required_block import RequiredBlock
from content_gateway.net.http_client import HttpClient

T = TypeVar("T")

_MUCH_LONGER: Final = 4.0  # times the usual latency
_LEAST_PATIENCE: Final = 0.05
_CALLS_PER_HEDGE: Final = 10
_MOST_HEDGES_SAVED: Final = 5


class EthereumRpc:
    """One chain, reached through *urls*; *seconds* bounds each request."""

    def __init__(
        self,
        outbound: HttpClient,
        urls: Sequence[str],
        *,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.endpoints = endpoints_of(outbound, urls, seconds=seconds, clock=clock)
        self.required = RequiredBlock(clock)
        self._calls_saved = _MOST_HEDGES_SAVED * _CALLS_PER_HEDGE

    async def call(
        self, to: str, data: bytes, read: Callable[[bytes], T], *, requestor: str = ""
    ) -> T:
        """What *read* returns for the result of an `eth_call` to *to*, at the latest block.

        ValueError of *read* counts as that node's failure. Raises Reverted when the contract
        reverts. Where no node gave a valid answer: AnswerTooLarge if one of them did, Overloaded
        when no connection was free, else the UpstreamError of the last one. Nodes are the
        operator's own: *requestor* is not charged."""
        request, at_least = encode_call(to, data), self.required.number
        if at_least is not None:
            try:
                return await self._call(request, read, at_least)
            except NodeBehind:
                self.required.was_missing()
        return await self._call(request, read)

    async def _call(self, request: bytes, read: Callable[[bytes], T], at_least: int = 0) -> T:
        """What *read* returns for the result of *request*; raises as `call` does, and NodeBehind
        where one of the nodes does not have the block *at_least* and the others failed."""
        self._calls_saved = min(self._calls_saved + 1, _MOST_HEDGES_SAVED * _CALLS_PER_HEDGE)
        endpoints = iter(self.endpoints)
        running: dict[asyncio.Task[T], CallAttempt] = {}
        doubtful: list[CallAttempt] = []

        def start() -> bool:
            """Ask the next node whose breaker allows it; False if there is none."""
            attempt = next((attempt for one in endpoints if (attempt := one.enter())), None)
            if attempt is not None:
                running[asyncio.create_task(_ask(attempt, request, read, at_least))] = attempt
            return attempt is not None

        failure: UpstreamError | Overloaded = UpstreamUnavailable("No endpoint may be asked.")
        try:
            may_hedge = start()
            while running:
                done, _ = await asyncio.wait(
                    running,
                    timeout=_patience(running.values()) if may_hedge else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not done:  # the usual latency is over
                    may_hedge = False
                    if self._calls_saved >= _CALLS_PER_HEDGE and start():
                        self._calls_saved -= _CALLS_PER_HEDGE
                for task in done:
                    error = task.exception()
                    if error is None or isinstance(error, Reverted):
                        _note_lost_race(running, task, doubtful)
                    if not isinstance(error, UpstreamError | Overloaded):
                        return task.result()
                    attempt = running.pop(task)
                    if not isinstance(failure, AnswerTooLarge | NodeBehind):
                        failure = error
                    if isinstance(error, NodeBehind):
                        failure = error
                        attempt.abandoned()
                    elif not attempt.failed(error):
                        # Perhaps the call's fault: it is the node's if another node answers.
                        doubtful.append(attempt)
                    start()
            raise _in_all(failure, len(self.endpoints))
        finally:
            await _end(running, doubtful)


async def _ask(
    attempt: CallAttempt, request: bytes, read: Callable[[bytes], T], at_least: int
) -> T:
    return understood(await attempt.call(request, at_least), read)


def _in_all(failure: UpstreamError | Overloaded, count: int) -> UpstreamError | Overloaded:
    """The *failure* of the last of *count* nodes, said of all where it says nothing of the call.

    Which they are, and what each said, stands in the log."""
    some = "The Ethereum endpoint" if count == 1 else f"All {count} Ethereum endpoints"
    if isinstance(failure, UpstreamTimeout):
        return UpstreamTimeout(f"{some} took too long to answer.")
    if type(failure) is UpstreamUnavailable:
        return UpstreamUnavailable(f"{some} failed to answer.")
    return failure


def _patience(asked: Iterable[CallAttempt]) -> float:
    """Seconds after which a call to the nodes that were *asked* is hedged."""
    return max(
        attempt.endpoint.patience
        if (usual := attempt.endpoint.usual_latency) is None
        else min(max(_MUCH_LONGER * usual, _LEAST_PATIENCE), attempt.endpoint.patience)
        for attempt in asked
    )


def _note_lost_race(
    running: dict[asyncio.Task[T], CallAttempt],
    winner: asyncio.Task[T],
    doubtful: Iterable[CallAttempt],
) -> None:
    """Record the *winner*'s answer, and a lost race for all asked before it without an answer."""
    for attempt in doubtful:
        attempt.lost_race()
    for task, attempt in running.items():
        if task is winner:
            attempt.answered()
            return
        if not task.done():
            attempt.lost_race()


async def _end(
    running: dict[asyncio.Task[T], CallAttempt], doubtful: Iterable[CallAttempt]
) -> None:
    """Cancel what is still *running*, and wait until it has ended."""
    for attempt in [*running.values(), *doubtful]:
        attempt.abandoned()
    for task in running:
        task.cancel()
    if running:
        await asyncio.gather(*running, return_exceptions=True)
