"""One chain through several nodes: the first that is well answers, a second is asked if it dawdles.

Theory of operation. Nodes are tried in the operator's order, leaving out those whose breaker is
open. A failure, or an answer that cannot be read, moves the call to the next node. A node that
takes much longer than it usually does is hedged: the next one is asked as well (one *hedge* a
call, and one for ten calls in the long run, so that a slow day does not double the load), and
whoever is first wins. A node that was overtaken is noted as having failed: when that happens to
half of its calls its breaker opens and the order changes by itself.

A revert is an answer of the contract and ends the call. What is called, and what the bytes
mean, is left to `names/`."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from content_gateway.codecs.abi import Reverted
from content_gateway.errors import (
    AnswerTooLarge,
    Overloaded,
    UpstreamError,
    UpstreamUnavailable,
)
from content_gateway.ethereum.endpoint import CallAttempt, Endpoint, encode_call, understood
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
        self._endpoints = [Endpoint(outbound, url, seconds=seconds, clock=clock) for url in urls]
        self._calls_saved = _MOST_HEDGES_SAVED * _CALLS_PER_HEDGE

    async def call(
        self, to: str, data: bytes, read: Callable[[bytes], T], *, requestor: str = ""
    ) -> T:
        """What *read* makes of that which the contract at *to* returns for *data*, at the latest
        block.

        An answer that *read* refuses with ValueError counts as that node's failure. Raises
        Reverted when the contract refuses, UpstreamError when no node gave an answer that can be
        right: AnswerTooLarge where one said so, Overloaded when no connection was free, and else
        the error of the last one. Nodes are the operator's own: *requestor* is charged nothing."""
        self._calls_saved = min(self._calls_saved + 1, _MOST_HEDGES_SAVED * _CALLS_PER_HEDGE)
        endpoints, request = iter(self._endpoints), encode_call(to, data)
        running: dict[asyncio.Task[T], CallAttempt] = {}
        doubtful: list[CallAttempt] = []

        def start() -> bool:
            """Ask the next node that may be asked; False if there is none."""
            turn = next((turn for one in endpoints if (turn := one.enter())), None)
            if turn is not None:
                running[asyncio.create_task(_ask(turn, request, read))] = turn
            return turn is not None

        failure: UpstreamError | Overloaded = UpstreamUnavailable("No Ethereum endpoint is well.")
        try:
            may_hedge = start()
            while running:
                done, _ = await asyncio.wait(
                    running,
                    timeout=_patience(running.values()) if may_hedge else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not done:
                    may_hedge = False
                    if self._calls_saved >= _CALLS_PER_HEDGE and start():
                        self._calls_saved -= _CALLS_PER_HEDGE
                for task in done:
                    error = task.exception()
                    if error is None or isinstance(error, Reverted):
                        _note_lost_race(running, task, doubtful)
                    if not isinstance(error, UpstreamError | Overloaded):
                        return task.result()
                    turn = running.pop(task)
                    if not isinstance(failure, AnswerTooLarge):
                        failure = error
                    if not turn.failed(error):
                        doubtful.append(turn)
                    start()
            raise failure
        finally:
            await _end(running, doubtful)


async def _ask(turn: CallAttempt, request: bytes, read: Callable[[bytes], T]) -> T:
    return understood(await turn.call(request), read)


def _patience(asked: Iterable[CallAttempt]) -> float:
    """Seconds after which a hedge of the nodes that were *asked* is asked."""
    return max(
        turn.endpoint.patience
        if (usual := turn.endpoint.usual_latency) is None
        else min(max(_MUCH_LONGER * usual, _LEAST_PATIENCE), turn.endpoint.patience)
        for turn in asked
    )


def _note_lost_race(
    running: dict[asyncio.Task[T], CallAttempt],
    winner: asyncio.Task[T],
    doubtful: Iterable[CallAttempt],
) -> None:
    """Note the *winner*'s answer, and who has been asked before it and has none so far."""
    for turn in doubtful:
        turn.lost_race()
    for task, turn in running.items():
        if task is winner:
            turn.answered()
            return
        if not task.done():
            turn.lost_race()


async def _end(
    running: dict[asyncio.Task[T], CallAttempt], doubtful: Iterable[CallAttempt]
) -> None:
    """Give up whatever is still *running*, and wait until it has ended."""
    for turn in [*running.values(), *doubtful]:
        turn.left()
    for task in running:
        task.cancel()
    if running:
        await asyncio.gather(*running, return_exceptions=True)
