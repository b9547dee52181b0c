"""Asking several at once: both answers or the first failure, and nobody left behind."""

import asyncio

import pytest

from content_gateway.concurrency.gather import both
from content_gateway.errors import NameNotFound, UpstreamUnavailable


async def say(word: str, *, after: int = 0) -> str:
    """*word*, so many turns of the loop later."""
    for _ in range(after):
        await asyncio.sleep(0)
    return word


async def fail(failure: Exception, *, after: int = 0) -> str:
    """*failure*, so many turns of the loop later."""
    await say("", after=after)
    raise failure


async def hang(ended: list[str]) -> str:
    """Never returns; adds to *ended* when it is cancelled."""
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("ended")
    return ""


async def test_both_answers_come_in_order() -> None:
    """Whoever is quicker, the first answer is that of the first question."""
    assert await both(say("one", after=3), say("other")) == ("one", "other")


async def test_the_first_failure_ends_the_other_question() -> None:
    """The failure arrives as itself, when the other question has ended."""
    for flipped in (False, True):
        ended: list[str] = []
        questions = [fail(NameNotFound("gone"), after=2), hang(ended)]
        with pytest.raises(NameNotFound, match="gone"):
            await both(*(reversed(questions) if flipped else questions))
        assert ended == ["ended"]


async def test_of_two_failures_one_is_heard() -> None:
    """The exception itself, not an ExceptionGroup."""
    failures = NameNotFound(), UpstreamUnavailable()
    with pytest.raises((NameNotFound, UpstreamUnavailable)):
        await both(*map(fail, failures))


async def test_both_may_be_asked_within_both() -> None:
    """A failure deep inside arrives as itself as well."""
    with pytest.raises(UpstreamUnavailable):
        await both(say("one"), both(say("two"), fail(UpstreamUnavailable())))


async def test_a_caller_who_leaves_ends_both() -> None:
    """Nothing is left running."""
    ended: list[str] = []
    caller = asyncio.create_task(both(hang(ended), hang(ended)))
    await asyncio.sleep(0.01)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended == ["ended", "ended"]


async def test_a_deadline_around_both_is_a_timeout() -> None:
    """The caller's own time limit is not mistaken for a failure of the questions."""
    ended: list[str] = []
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await both(hang(ended), hang(ended))
    assert ended == ["ended", "ended"]
