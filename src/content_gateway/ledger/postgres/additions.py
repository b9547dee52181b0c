"""Adds pins to the ledger in PostgreSQL, a group in one transaction of a few statements.

Theory of operation. Many processes add the same contents at the same time, and a statement that
inserts and looks up what was there already loses pins: its snapshot does not see what another
transaction committed meanwhile (docs/facts/postgres.md). So, under READ COMMITTED:

1. The requestors are locked, by number. From then on nobody else changes their pins.
2. A read tells which contents are known, which pins are there, and which keys were revoked.
3. Unknown contents are inserted, by CID, DO NOTHING where somebody else was first; for whom this
   waits holds only new rows, in the same order.
4. A second statement, with a new snapshot, locks those that were known or came first, by CID. One
   that is gone by then was deleted meanwhile: all of it runs again.
5. Pins, work, counts and entries of the audit log follow, which nobody else can touch by now.

Contents that nobody has, as most are, need no question: `add_new` inserts them right behind the
lock of the requestors, and gives up where one was known or a pin may be refused.

All transactions lock requestors before contents before work, each by one order: no deadlock.
Creation times and limits are those of ledger/additions.py."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from content_gateway.codecs.timestamps import at_microseconds
from content_gateway.ledger.additions import (
    Added,
    Addition,
    Refusal,
    next_timestamp,
    spelling_column,
)
from content_gateway.ledger.pin_rows import label_columns
from content_gateway.ledger.postgres.requestors import (
    LOCK,
    LOCK_WORK,
    LockedRequestor,
    assign_to_shortest_queue,
    counted_of,
    store_counts,
)
from content_gateway.model.content_state import ContentState, Event, after
from content_gateway.model.pins import Pin
from content_gateway.postgres.transactions import LostRace, Transaction

NOTIFY: Final = "NOTIFY content_gateway_work"
_NEW: Final = after(None, Event.PROMISED)
_MILLISECOND: Final = 1_000
_KNOWN: Final = (
    "SELECT n, p.content IS NOT NULL"
    " FROM unnest(%s::bigint[], %b::text[]) WITH ORDINALITY AS asked(requestor, cid, n)"
    # LIMIT keeps the planner from another order, as by all pins of a requestor.
    " CROSS JOIN LATERAL (SELECT id FROM contents WHERE contents.cid = asked.cid LIMIT 1) c"
    " LEFT JOIN LATERAL (SELECT content FROM pins"
    " WHERE pins.requestor = asked.requestor AND pins.content = c.id LIMIT 1) p ON true"
)
_INSERT_CONTENTS: Final = (
    "INSERT INTO contents (cid, state, updated_at) SELECT cid, %s, %s"
    ' FROM unnest(%b::text[]) AS new(cid) ORDER BY cid COLLATE "C"'
    " ON CONFLICT (cid) DO NOTHING RETURNING id, cid"
)
_LOCK_CONTENTS: Final = (
    "SELECT id, cid, state FROM contents WHERE cid = ANY(%b::text[]) ORDER BY cid FOR NO KEY UPDATE"
)
_INSERT_PINS: Final = (
    "INSERT INTO pins (requestor, content, created_at, spelling, name, folded, origins, meta)"
    " SELECT * FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[], %s::text[], %s::text[],"
    " %s::text[], %s::text[], %s::text[])"
)
_INSERT_WORK: Final = (
    "INSERT INTO work (content, queue, turn_of, due_at) SELECT content, 0, turn_of, %s"
    " FROM unnest(%s::bigint[], %s::bigint[]) AS new(content, turn_of) ORDER BY content"
    " ON CONFLICT (content) DO UPDATE SET queue = 0, turn_of = excluded.turn_of,"
    " due_at = excluded.due_at, is_release = false"
)
_REVOKED: Final = "SELECT id FROM api_keys WHERE id = ANY(%b::text[]) AND revoked_at IS NOT NULL"
_REQUEUE: Final = (
    "UPDATE contents SET state = %s, generation = generation + 1, attempts = 0,"
    " status_checks = 0, error = NULL, replicas = 0, peers = NULL, blocks = 0, size = 0,"
    " updated_at = %s WHERE id = ANY(%s::bigint[])"
)
TRIGGER: Final = (
    "WITH waiting AS MATERIALIZED (SELECT content FROM work WHERE content = ANY(%s::bigint[])"
    " AND lease_owner IS NULL ORDER BY content FOR UPDATE)"
    " UPDATE work SET due_at = least(due_at, %s) FROM waiting"
    " WHERE work.content = waiting.content AND work.content = ANY(%s::bigint[])"
)


class _Verdict(Enum):
    HELD = auto()
    WANTED = auto()


class NotAllNew(Exception):
    """What `add_new` raises: nothing of it must stay, and `add_all` is the way."""


@dataclass(frozen=True, slots=True)
class Content:
    """A content whose row is locked, in the *state* that it had; None if it is new."""

    id: int
    state: ContentState | None


async def add_all(
    transaction: Transaction, now: int, numbers: Mapping[str, int], additions: Sequence[Addition]
) -> list[Added]:
    """Add all at *now* (microseconds since 1970). Returns each pin, None for one already held.

    *numbers* are those of the requestors. A revoked key adds nothing from the transaction on that
    revoked it. The contents of new pins are queued in the same transaction."""
    ours = sorted({numbers[each.requestor] for each in additions})
    asked = ([numbers[each.requestor] for each in additions], [str(each.cid) for each in additions])
    # Each sees what was committed before it began: the others, once the requestors are locked.
    rows, there, gone = await transaction.ask_all(
        (LOCK, (ours,)),
        (_KNOWN, asked),
        (_REVOKED, (list({each.requestor for each in additions}),)),
    )
    locked, revoked = counted_of(rows), {name for (name,) in gone}
    found = {place - 1: is_held for place, is_held in there}
    verdicts = _verdicts(additions, numbers, locked, found, revoked)
    wanted = [
        each
        for each, verdict in zip(additions, verdicts, strict=True)
        if verdict is _Verdict.WANTED
    ]
    pins: Iterator[Pin] = iter(())
    if wanted:
        known = {str(additions[place].cid) for place in found}
        contents = await take_contents(transaction, now, {str(each.cid) for each in wanted}, known)
        made = await insert_pins(
            transaction, now, wanted, numbers=numbers, locked=locked, contents=contents
        )
        pins = iter(made)
    added: list[Added] = []
    for verdict in verdicts:
        if verdict is _Verdict.WANTED:
            added.append(next(pins))
        else:
            added.append(verdict if isinstance(verdict, Refusal) else None)
    return added


async def add_new(
    transaction: Transaction, now: int, numbers: Mapping[str, int], additions: Sequence[Addition]
) -> Sequence[Added]:
    """As `add_all`, where all contents are new and no pin is refused; else raises NotAllNew."""
    cids = [str(each.cid) for each in additions]
    rows, gone, new = await transaction.ask_all(
        (LOCK, (sorted(numbers.values()),)),
        (_REVOKED, (list(numbers),)),
        (_INSERT_CONTENTS, (_NEW, now // _MILLISECOND, cids)),
    )
    locked = counted_of(rows)
    if gone or len(new) < len(additions) or _may_reach_a_limit(additions, numbers, locked):
        raise NotAllNew
    contents = {cid: Content(number, None) for number, cid in new}
    return await insert_pins(
        transaction, now, additions, numbers=numbers, locked=locked, contents=contents
    )


async def revoked_of(transaction: Transaction, names: Collection[str]) -> Collection[str]:
    """Those of *names* that are keys that were revoked."""
    rows = await transaction.ask(_REVOKED, (list(names),))
    return {name for (name,) in rows}


async def take_contents(
    transaction: Transaction, now: int, cids: Collection[str], known: Collection[str]
) -> Mapping[str, Content]:
    """Insert those of *cids* that are new, and lock the others; *known* are thought to be there.

    Raises LostRace where one is gone again."""
    found: dict[str, Content] = {}
    if new := [cid for cid in cids if cid not in known]:
        values = (_NEW, now // _MILLISECOND, new)
        for number, cid in await transaction.ask(_INSERT_CONTENTS, values, is_hot=True):
            found[cid] = Content(number, None)
    # Together, and not those that were known before: all locks are taken in the one order.
    if others := [cid for cid in cids if cid not in found]:
        for number, cid, state in await transaction.ask(_LOCK_CONTENTS, (others,), is_hot=True):
            found[cid] = Content(number, ContentState(state))
    if len(found) < len(cids):
        raise LostRace
    return found


async def insert_pins(
    transaction: Transaction,
    now: int,
    additions: Sequence[Addition],
    *,
    numbers: Mapping[str, int],
    locked: Mapping[int, LockedRequestor],
    contents: Mapping[str, Content],
) -> list[Pin]:
    """Insert a pin for each of *additions* at *now* (microseconds), queue its content, count it.

    *numbers* are those of the requestors, who are *locked*, as the *contents* are by CID."""
    pins, rows, changes = [], [], dict[int, tuple[int, int | None]]()
    holders: dict[int, list[int]] = {}
    for requestor, cid, spelling, label, _ in additions:
        number, content = numbers[requestor], contents[str(cid)]
        counted = locked[number]
        created_at = counted.last_at = next_timestamp(now, counted.last_at)
        changes[number] = (changes.get(number, (0, None))[0] + 1, created_at)
        holders.setdefault(content.id, []).append(number)
        spelt = spelling_column(spelling, cid)
        rows.append((number, content.id, created_at, spelt, *label_columns(label)))
        pins.append(Pin(cid, spelling, at_microseconds(created_at), label))
    columns = [list(column) for column in zip(*rows, strict=True)]
    await transaction.send(_INSERT_PINS, columns, is_hot=True)
    await _queue(transaction, now // _MILLISECOND, contents.values(), holders)
    await store_counts(transaction, changes)
    return pins


def _may_reach_a_limit(
    additions: Sequence[Addition], numbers: Mapping[str, int], locked: Mapping[int, LockedRequestor]
) -> bool:
    number = len(additions)
    return any(
        each.most and locked[numbers[each.requestor]].pins + number > each.most
        for each in additions
    )


def _verdicts(
    additions: Sequence[Addition],
    numbers: Mapping[str, int],
    locked: Mapping[int, LockedRequestor],
    found: Mapping[int, bool],
    revoked: Collection[str],
) -> list[_Verdict | Refusal]:
    """What becomes of each, one after the other; of two of one pin the second finds it held."""
    verdicts: list[_Verdict | Refusal] = []
    taken: set[tuple[str, str]] = set()
    more: Counter[str] = Counter()
    for place, (requestor, cid, _, _, most) in enumerate(additions):
        pin = (requestor, str(cid))
        if requestor in revoked:
            verdicts.append(Refusal.REVOKED)
        elif found.get(place, False) or pin in taken:
            verdicts.append(_Verdict.HELD)
        elif most and locked[numbers[requestor]].pins + more[requestor] >= most:
            verdicts.append(Refusal.LIMIT_REACHED)
        else:
            taken.add(pin)
            more[requestor] += 1
            verdicts.append(_Verdict.WANTED)
    return verdicts


async def _queue(
    transaction: Transaction,
    now: int,
    contents: Iterable[Content],
    holders: Mapping[int, Sequence[int]],
) -> None:
    """Queue new contents, and those that were being released; make due what waits.

    *holders* are the requestors that have just pinned each content."""
    begun, again, waiting, shared = list[int](), list[int](), list[int](), list[int]()
    for content in contents:
        if content.id not in holders:
            continue
        promised = after(content.state, Event.PROMISED)
        if content.state is None:
            begun.append(content.id)
        elif promised is not content.state:
            again.append(content.id)
        elif content.state is not ContentState.PINNED:
            waiting.append(content.id)
            shared.append(content.id)
        else:
            continue
        if len(holders[content.id]) > 1:
            shared.append(content.id)
    if again or waiting:
        await transaction.send(LOCK_WORK, (again + waiting,), is_hot=True)
    if again:
        await transaction.send(_REQUEUE, (_NEW, now, again))
    if first := begun + again:
        turns = [holders[content][0] for content in first]
        await transaction.send(_INSERT_WORK, (now, first, turns), is_hot=True)
    if waiting:
        await transaction.send(TRIGGER, (waiting, now, waiting), is_hot=True)
    await assign_to_shortest_queue(transaction, shared)
