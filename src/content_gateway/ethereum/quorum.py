"""One chain through several nodes that need not be trusted: what *k* of them agree on.

Theory of operation. All nodes that are well are asked at once, for the state at the same block,
so that honest ones cannot differ. That block is one that at least *k* of them claim to have,
*k* whose claims lie close together, and the highest such: fewer than *k* liars can neither invent
a later one nor send us back into the past, nor keep the others from an answer by naming a block
that nobody else has. As soon as *k* nodes have said the same, byte for byte, it is the answer, be
it a result or a revert; when *k* cannot be reached any more the call fails, and the log names who
said what."""

import asyncio
import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Generic, Self, TypeVar

import structlog

from content_gateway.codecs.abi import Reverted
from content_gateway.errors import (
    AnswerTooLarge,
    InvalidUpstreamResponse,
    Overloaded,
    UpstreamError,
    UpstreamUnavailable,
)
from content_gateway.ethereum.endpoint import CallAttempt, Endpoint, encode_call, understood
from content_gateway.net.http_client import HttpClient

T = TypeVar("T")

_BLOCK_SECONDS: Final = 4.0  # a third of Ethereum's block time
_STRAGGLERS_SECONDS: Final = 0.25
_MOST_BLOCKS_APART: Final = 32  # an epoch: a node further behind is not following the chain

log = structlog.get_logger(__name__)

Answer = bytes | Reverted | AnswerTooLarge
Votes = dict[bytes, list[str]]  # who has said it, by the digest of what was said


class EthereumQuorum:
    """One chain, reached through *urls*, of which *quorum* must agree."""

    def __init__(
        self,
        outbound: HttpClient,
        urls: Sequence[str],
        *,
        seconds: float,
        quorum: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # The same node twice is one voice.
        self._endpoints = [
            Endpoint(outbound, url, seconds=seconds, clock=clock) for url in dict.fromkeys(urls)
        ]
        self._quorum = quorum
        self._clock = clock
        self._block = 0
        self._block_until = float("-inf")
        self._looking = asyncio.Lock()
        self._looks = 0
        self._failure: UpstreamError | Overloaded | None = None  # of the last look

    async def call(
        self, to: str, data: bytes, read: Callable[[bytes], T], *, requestor: str = ""
    ) -> T:
        """What *read* makes of that which *quorum* nodes say the contract returns.

        Raises Reverted when they agree that it refuses, AnswerTooLarge when they agree that it
        returns too much, InvalidUpstreamResponse when they do not agree, UpstreamUnavailable when
        too few of them answer, Overloaded when too few could be asked. *requestor* is charged
        nothing."""
        if sum(not endpoint.breaker.is_open for endpoint in self._endpoints) < self._quorum:
            # Not even worth a wait behind somebody who is trying one of the others again.
            raise UpstreamUnavailable("Too few Ethereum endpoints are well.")
        block = hex(await self._common_block())
        request = encode_call(to, data, block)
        votes: Votes = defaultdict(list)

        async def ask(turn: CallAttempt) -> Answer:
            try:
                return await turn.call(request)
            except (Reverted, AnswerTooLarge) as said:
                return said  # how large it is, is the contract's doing, and so at every node

        async with _Questions(self._endpoints, ask) as questions:
            while (answered := await questions.next()) is not None:
                name, answer = answered
                votes[_ballot(answer)].append(name)
                if len(votes[_ballot(answer)]) >= self._quorum:
                    if len(votes) > 1:
                        log.warning("rpc endpoints outvoted", block=block, said=_said(votes))
                    if isinstance(answer, Reverted | AnswerTooLarge):
                        raise answer
                    return understood(answer, read)
                if max(map(len, votes.values())) + questions.open < self._quorum:
                    break
        if len(votes) > 1:
            log.error("rpc endpoints disagree", block=block, contract=to, said=_said(votes))
            raise InvalidUpstreamResponse("The Ethereum endpoints do not agree on the answer.")
        if questions.overloaded is not None:
            raise questions.overloaded
        raise UpstreamUnavailable("Too few Ethereum endpoints answered to agree on anything.")

    async def _common_block(self) -> int:
        """The block to ask for, looked up every few seconds; raises UpstreamError."""
        looks = self._looks
        async with self._looking:
            if self._clock() >= self._block_until:
                if self._looks > looks and self._failure is not None:
                    # That was the look we have been waiting for: ours would fail as well.
                    raise type(self._failure)(self._failure.detail)
                await self._look()
            return self._block

    async def _look(self) -> None:
        self._failure = None
        try:
            self._block = common_block(await self._claims(), self._quorum)
        except (UpstreamError, Overloaded) as failure:
            self._failure = failure
            raise
        finally:
            self._looks += 1
        self._block_until = self._clock() + _BLOCK_SECONDS

    async def _claims(self) -> list[int]:
        """The newest block of each node that says so in time."""
        claims: list[int] = []
        async with _Questions(self._endpoints, CallAttempt.block_number) as questions:
            while answered := await questions.next(
                _STRAGGLERS_SECONDS if len(claims) >= self._quorum else None
            ):
                claims.append(answered[1])
            questions.lost_race()
        if questions.overloaded is not None and len(claims) < self._quorum:
            raise questions.overloaded
        return claims


class _Questions(Generic[T]):
    """One question to every node that is well; whatever is unanswered ends on leaving."""

    def __init__(
        self, endpoints: Sequence[Endpoint], ask: Callable[[CallAttempt], Coroutine[Any, Any, T]]
    ) -> None:
        self._endpoints = endpoints
        self._ask = ask
        self._running: dict[asyncio.Task[T], CallAttempt] = {}
        self.overloaded: Overloaded | None = None  # why somebody could not even be asked

    @property
    def open(self) -> int:
        """How many have not answered yet."""
        return len(self._running)

    async def __aenter__(self) -> Self:
        for endpoint in self._endpoints:
            if (turn := endpoint.enter()) is not None:
                self._running[asyncio.create_task(self._ask(turn))] = turn
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for task, turn in self._running.items():
            task.cancel()
            turn.left()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def next(self, seconds: float | None = None) -> tuple[str, T] | None:
        """The next good answer and whose it is, in any order; None when none comes (in time)."""
        while self._running:
            done, _ = await asyncio.wait(
                self._running, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                return None
            task = done.pop()  # the others are still there for the next call
            error = task.exception()
            if isinstance(error, Overloaded):
                self.overloaded = error
            if not isinstance(error, UpstreamError | Overloaded):
                answer = task.result()
                turn = self._running.pop(task)
                turn.answered()
                return turn.endpoint.name, answer
            turn = self._running.pop(task)
            if not turn.failed(error):
                turn.left()
        return None

    def lost_race(self) -> None:
        """Note that whoever has not answered is too late."""
        for turn in self._running.values():
            turn.lost_race()


def common_block(claims: Sequence[int], quorum: int) -> int:
    """The highest block that *quorum* of the *claims* reach which are not far apart.

    Raises UpstreamUnavailable when there are too few claims, InvalidUpstreamResponse when they are
    too far apart to be of one chain."""
    if len(claims) < quorum:
        raise UpstreamUnavailable("Too few Ethereum endpoints answered to agree on a block.")
    ordered = sorted(claims, reverse=True)
    for highest, lowest in zip(ordered, ordered[quorum - 1 :], strict=False):
        if highest - lowest <= _MOST_BLOCKS_APART:
            return lowest
    log.error("rpc endpoints disagree", blocks=ordered)
    raise InvalidUpstreamResponse("The Ethereum endpoints do not agree on the latest block.")


def _ballot(answer: Answer) -> bytes:
    """A digest that two answers share exactly when they say the same."""
    if isinstance(answer, AnswerTooLarge):
        return hashlib.sha256(b"too large").digest()
    said = answer.data if isinstance(answer, Reverted) else answer
    digest = hashlib.sha256(b"reverted" if isinstance(answer, Reverted) else b"returned")
    digest.update(said)  # which may be half a megabyte, and is not copied
    return digest.digest()


def _said(votes: Votes) -> dict[str, list[str]]:
    """The votes as the log has them: who has said the same."""
    return {ballot[:6].hex(): names for ballot, names in votes.items()}
