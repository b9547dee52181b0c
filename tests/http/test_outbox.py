"""Answers leave together, at the end of the turn of the loop in which they were made."""

import asyncio

from content_gateway.http.outbox import Outbox


async def test_what_was_put_leaves_at_the_end_of_the_turn_in_order() -> None:
    """Not before, and once."""
    outbox, sent = Outbox(), list[str]()
    outbox.put(lambda: sent.append("first"))
    outbox.put(lambda: sent.append("second"))
    assert sent == []
    await asyncio.sleep(0)
    assert sent == ["first", "second"]
    await asyncio.sleep(0)
    assert sent == ["first", "second"]


async def test_what_is_put_meanwhile_leaves_in_the_next_turn() -> None:
    """Nobody who answers again and again keeps the others' answers back."""
    outbox, sent = Outbox(), list[str]()
    outbox.put(lambda: outbox.put(lambda: sent.append("later")))
    outbox.put(lambda: sent.append("now"))
    await asyncio.sleep(0)
    assert sent == ["now"]
    await asyncio.sleep(0)
    assert sent == ["now", "later"]
