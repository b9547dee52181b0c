"""One chain through several nodes that need not be trusted: what *k* of them agree on (ADR 6).

Theory of operation. All healthy nodes are asked at once, for the state at the same block, so that
honest ones cannot differ. That block is the highest that at least *k* of them claim to have, where
the *k* claims lie close together. So fewer than *k* liars can neither invent a later block, nor
force an old one, nor prevent an answer by claiming a block that nobody else has. As soon as *k*
nodes have answered the same, byte for byte, that is the answer, be it a result or a revert. When
*k* cannot be reached any more the call fails, and the log says which node answered what.

The block is looked up every few seconds, and at once where names have changed in a later one
(required_block.py). Until *k* nodes have that, answers are from before it: that is remembered."""

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
from content_gateway.ethereum.endpoint import (
    CallAttempt,
    Endpoint,
    encode_call,
    endpoints_of,
    understood,
)
from content_gateway.ethereum.required_block import RequiredBlock
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
        # The same node twice has one vote.
        self.endpoints = endpoints_of(
            outbound, list(dict.fromkeys(urls)), seconds=seconds, clock=clock
        )
        self.required = RequiredBlock(clock)
        self._quorum = quorum
        self._clock = clock
        self._block = 0
        self._block_until = float("-inf")
        self._refreshing = asyncio.Lock()
        self._refreshes = 0
        self._failure: UpstreamError | Overloaded | None = None  # the last one

    async def call(
        self, to: str, data: bytes, read: Callable[[bytes], T], *, requestor: str = ""
    ) -> T:
        """What *read* returns for the result that *quorum* nodes agree on.

        Raises Reverted when they agree on a revert, AnswerTooLarge when they agree that the result
        is too large, InvalidUpstreamResponse when they do not agree, UpstreamUnavailable when too
        few of them answer, Overloaded when too few could be asked. *requestor* is not charged."""
        if sum(not endpoint.breaker.is_open for endpoint in self.endpoints) < self._quorum:
            # Do not even wait behind the call that probes one of the others.
            raise UpstreamUnavailable("Too few Ethereum endpoints are well.")
        block = hex(await self._common_block())
        request = encode_call(to, data, block)
        votes: Votes = defaultdict(list)

        async def ask(attempt: CallAttempt) -> Answer:
            try:
                return await attempt.call(request)
            except (Reverted, AnswerTooLarge) as said:
                return said  # the size is the contract's doing, the same at every honest node

        async with _Questions(self.endpoints, ask) as questions:
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
        """The block to ask for, refreshed every few seconds; raises UpstreamError."""
        refreshes = self._refreshes
        async with self._refreshing:
            required = self.required.number
            if self._clock() >= self._block_until or self._block < (required or 0):
                if self._refreshes > refreshes and self._failure is not None:
                    # The refresh that we have waited for has failed: ours would fail as well.
                    raise type(self._failure)(self._failure.detail)
                await self._refresh_block()
                if self._block < (required or 0):
                    self.required.was_missing()
            return self._block

    async def _refresh_block(self) -> None:
        self._failure = None
        try:
            self._block = common_block(await self._claims(), self._quorum)
        except (UpstreamError, Overloaded) as failure:
            self._failure = failure
            raise
        finally:
            self._refreshes += 1
        self._block_until = self._clock() + _BLOCK_SECONDS

    async def _claims(self) -> list[int]:
        """The newest block of each node that says so in time."""
        claims: list[int] = []
        async with _Questions(self.endpoints, CallAttempt.block_number) as questions:
            while answered := await questions.next(
                _STRAGGLERS_SECONDS if len(claims) >= self._quorum else None
            ):
                claims.append(answered[1])
            questions.lost_race()
        if questions.overloaded is not None and len(claims) < self._quorum:
            raise questions.overloaded
        return claims


class _Questions(Generic[T]):
    """One question to every healthy node; calls without an answer are cancelled on exit."""

    def __init__(
        self, endpoints: Sequence[Endpoint], ask: Callable[[CallAttempt], Coroutine[Any, Any, T]]
    ) -> None:
        self.endpoints = endpoints
        self._ask = ask
        self._running: dict[asyncio.Task[T], CallAttempt] = {}
        self.overloaded: Overloaded | None = None  # why a node could not even be asked

    @property
    def open(self) -> int:
        """How many nodes have not answered yet."""
        return len(self._running)

    async def __aenter__(self) -> Self:
        for endpoint in self.endpoints:
            if (attempt := endpoint.enter()) is not None:
                self._running[asyncio.create_task(self._ask(attempt))] = attempt
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for task, attempt in self._running.items():
            task.cancel()
            attempt.abandoned()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def next(self, seconds: float | None = None) -> tuple[str, T] | None:
        """A node's name and its valid answer, in any order; None when none comes (in time)."""
        while self._running:
            done, _ = await asyncio.wait(
                self._running, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                return None
            task = done.pop()  # others that are done too are found by the next call
            error = task.exception()
            if isinstance(error, Overloaded):
                self.overloaded = error
            if not isinstance(error, UpstreamError | Overloaded):
                answer = task.result()
                attempt = self._running.pop(task)
                attempt.answered()
                return attempt.endpoint.name, answer
            attempt = self._running.pop(task)
            if not attempt.failed(error):
                attempt.abandoned()
        return None

    def lost_race(self) -> None:
        """Record a lost race for all nodes that have not answered."""
        for attempt in self._running.values():
            attempt.lost_race()


def common_block(claims: Sequence[int], quorum: int) -> int:
    """The highest block that *quorum* of the *claims* reach, claims that are close together.

    Raises UpstreamUnavailable for too few claims, InvalidUpstreamResponse for too different
    ones."""
    if len(claims) < quorum:
        raise UpstreamUnavailable("Too few Ethereum endpoints answered to agree on a block.")
    ordered = sorted(claims, reverse=True)
    for highest, lowest in zip(ordered, ordered[quorum - 1 :], strict=False):
        if highest - lowest <= _MOST_BLOCKS_APART:
            return lowest
    log.error("rpc endpoints disagree", blocks=ordered)
    raise InvalidUpstreamResponse("The Ethereum endpoints do not agree on the latest block.")


def _ballot(answer: Answer) -> bytes:
    """A digest that two answers share exactly when they are the same."""
    if isinstance(answer, AnswerTooLarge):
        return hashlib.sha256(b"too large").digest()
    said = answer.data if isinstance(answer, Reverted) else answer
    digest = hashlib.sha256(b"reverted" if isinstance(answer, Reverted) else b"returned")
    digest.update(said)  # half a megabyte at most, and not copied
    return digest.digest()


def _said(votes: Votes) -> dict[str, list[str]]:
    """The votes for the log: which nodes gave the same answer."""
    return {ballot[:6].hex(): names for ballot, names in votes.items()}
