"""Removes and replaces pins in PostgreSQL, a group in one transaction.

Locks are taken in the order of additions.py: requestors, contents by CID, work. A content that
nobody holds any more is released in the transaction of its last removal. Knows the tables `pins`,
`contents` and `work`."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from content_gateway.codecs.timestamps import microseconds
from content_gateway.ledger.additions import Added, Addition, Refusal
from content_gateway.ledger.postgres.additions import insert_pins, revoked_of, take_contents
from content_gateway.ledger.postgres.requestors import (
    LOCK_WORK,
    assign_to_shortest_queue,
    lock_requestors,
    store_counts,
)
from content_gateway.model.content_state import ContentState, Event, after
from content_gateway.model.pins import Pin, Removal
from content_gateway.postgres.transactions import Transaction

_FIND: Final = (
    "SELECT n, p.content, p.created_at"
    " FROM unnest(%s::bigint[], %b::text[]) WITH ORDINALITY AS asked(requestor, cid, n)"
    " CROSS JOIN LATERAL (SELECT id FROM contents WHERE contents.cid = asked.cid LIMIT 1) c"
    " CROSS JOIN LATERAL (SELECT content, created_at FROM pins"
    " WHERE pins.requestor = asked.requestor AND pins.content = c.id LIMIT 1) p"
)
_KNOWN: Final = "SELECT cid FROM contents WHERE cid = ANY(%b::text[])"
_LOCK: Final = (
    "SELECT id, state FROM contents WHERE id = ANY(%s::bigint[]) ORDER BY cid FOR NO KEY UPDATE"
)
_DELETE: Final = "DELETE FROM pins WHERE requestor = %s AND content = ANY(%s::bigint[])"
_HELD: Final = (
    "SELECT id FROM unnest(%s::bigint[]) AS left_behind(id)"
    " WHERE EXISTS (SELECT 1 FROM pins WHERE content = id)"
)
_RELEASE: Final = (
    "UPDATE contents SET state = new.state, generation = generation + 1, attempts = 0,"
    " status_checks = 0, error = NULL, updated_at = %s"
    " FROM unnest(%s::bigint[], %b::text[]) AS new(one, state) WHERE id = one"
)
# A worker may hold the lease: its outcome has the old generation and will be dropped. Its lease
# stays, so the content is not leased twice.
_LET_GO: Final = (
    "INSERT INTO work (content, queue, turn_of, due_at, is_release)"
    " SELECT one, 0, turn_of, %s, true"
    " FROM unnest(%s::bigint[], %s::bigint[]) AS gone(one, turn_of) ORDER BY one"
    " ON CONFLICT (content) DO UPDATE SET queue = 0, due_at = excluded.due_at, is_release = true"
)


class Removed(NamedTuple):
    """A pin to be removed, if *created_at* is when it was made (microseconds), or None."""

    requestor: str
    cid: str
    created_at: int | None
    by_operator: bool


async def remove_all(
    transaction: Transaction,
    at: int,
    grace: int,
    numbers: Mapping[str, int],
    removals: Sequence[Removed],
) -> list[Removal | None]:
    """Remove all at *at* (milliseconds since 1970); None for what is not there.

    What is released is due after *grace* milliseconds."""
    await lock_requestors(transaction, numbers)
    asked = ([numbers[each.requestor] for each in removals], [each.cid for each in removals])
    found: dict[int, tuple[int, int]] = {}  # by place: the requestor's number and the content
    for place, content, created_at in await transaction.ask(_FIND, asked, is_hot=True):
        removal = removals[place - 1]
        if removal.created_at is None or removal.created_at == created_at:
            found[place - 1] = (numbers[removal.requestor], content)
    gone = {pin: place for place, pin in sorted(found.items(), reverse=True)}
    if not gone:
        return [None] * len(removals)
    released = await _delete(transaction, at, grace, list(gone))
    results: list[Removal | None] = [None] * len(removals)
    for (_, content), place in gone.items():  # of two of one pin the first has removed it
        results[place] = Removal.RELEASED if content in released else Removal.STILL_HELD
    return results


async def replace(
    transaction: Transaction,
    now: int,
    old: Pin,
    addition: Addition,
    *,
    numbers: Mapping[str, int],
    grace: int,
) -> Added:
    """Remove *old* and add another pin at *now* (microseconds since 1970); None where it is gone.

    The requestor may hold the new CID already, by *old* or another pin: that is replaced too."""
    number = numbers[addition.requestor]
    locked = await lock_requestors(transaction, numbers)
    rows = await transaction.ask(
        "SELECT content, cid FROM pins JOIN contents ON id = content"
        " WHERE requestor = %s AND created_at = %s",
        (number, microseconds(old.created_at)),
    )
    if not rows:
        return None
    if await revoked_of(transaction, [addition.requestor]):
        return Refusal.REVOKED
    ((content, cid),) = rows
    new = str(addition.cid)
    known = [row[0] for row in await transaction.ask(_KNOWN, ([cid, new],))]
    contents = await take_contents(transaction, now, {cid, new}, known)
    removed = await transaction.ask(
        "DELETE FROM pins WHERE requestor = %s AND content = ANY(%s::bigint[]) RETURNING content",
        (number, [contents[cid].id, contents[new].id]),
    )
    (pin,) = await insert_pins(
        transaction, now, [addition], numbers=numbers, locked=locked, contents=contents
    )
    await store_counts(transaction, {number: (-len(removed), None)})
    if cid != new:
        await _release(transaction, now // 1000, grace, {content: [number]})
    return pin


async def _delete(
    transaction: Transaction, at: int, grace: int, pins: Sequence[tuple[int, int]]
) -> Collection[int]:
    """Delete *pins*, by requestor and content; the contents that nobody holds any more."""
    contents = sorted({content for _, content in pins})
    await transaction.ask(_LOCK, (contents,))
    holders: dict[int, list[int]] = {}
    theirs: dict[int, list[int]] = {}
    for number, content in pins:
        holders.setdefault(content, []).append(number)
        theirs.setdefault(number, []).append(content)
    for number, gone in theirs.items():
        await transaction.send(_DELETE, (number, gone), is_hot=True)
    await store_counts(transaction, {one: (-len(gone), None) for one, gone in theirs.items()})
    return await _release(transaction, at, grace, holders)


async def _release(
    transaction: Transaction, at: int, grace: int, holders: Mapping[int, Sequence[int]]
) -> Collection[int]:
    """Release those contents that nobody holds any more; which they are. Their rows are locked.

    *holders* are those who have just let go of them."""
    contents = sorted(holders)
    held = {content for (content,) in await transaction.ask(_HELD, (contents,))}
    await transaction.send(LOCK_WORK, (contents,))
    # The removed pin may have been the one it waited for.
    await assign_to_shortest_queue(transaction, held)
    released = [content for content in contents if content not in held]
    if released:
        rows = await transaction.ask(
            "SELECT id, state FROM contents WHERE id = ANY(%s::bigint[])", (released,)
        )
        states: dict[int, str] = dict(rows)
        new = [after(ContentState(states[content]), Event.RELEASED) for content in released]
        await transaction.send(_RELEASE, (at, released, new))
        turns = [holders[content][0] for content in released]
        await transaction.send(_LET_GO, (at + grace, released, turns))
    return released
