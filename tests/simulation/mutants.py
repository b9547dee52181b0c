"""Twenty-odd deliberate faults, each a few words of the source changed, and the promise it breaks.

Each is applied to a copy of the package, never to the checkout; the simulation must find every one
(test_mutants.py). A text that is no longer there exactly once is an error: then the mutant is to be
written again, for the code as it has become."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import content_gateway


@dataclass(frozen=True, slots=True)
class Mutant:
    """In the one file called *file* that has it, *old* becomes *new*, which breaks *promise*.

    It is looked for from the seed *first* on: a later one than 1 where few seeds see it."""

    name: str
    promise: str
    file: str
    old: str
    new: str
    first: int = 1


class NoLongerThere(AssertionError):
    """The text that a mutant changes is not in the source any more, or more than once."""


MUTANTS: Final = (
    Mutant(
        "a lease is renewed too late",
        "one worker at a time handles a content",
        "leases.py",
        "await asyncio.sleep(asked_at + self._seconds / 3 - now())",
        "await asyncio.sleep(asked_at + self._seconds * 1.5 - now())",
    ),
    Mutant(
        "work goes on without its lease",
        "the work under a lease that is lost is cancelled before it expires",
        "leases.py",
        "                        work.cancel()\n",
        "                        pass\n",
    ),
    Mutant(
        "a lease counts from its answer",
        "work ends before the lease does, however late the ledger's answer was",
        "leases.py",
        "asked_at = renewed_at = self._since",
        "asked_at = renewed_at = now()",
    ),
    Mutant(
        "a renewal may take for ever",
        "the work under a lease that cannot be renewed is cancelled before it expires",
        "leases.py",
        "async with asyncio.timeout_at(renewed_at + self._seconds * 2 / 3):",
        "async with asyncio.timeout_at(renewed_at + self._seconds * 20):",
    ),
    Mutant(
        "a generation is not checked",
        "an outcome that was observed under an older generation is dropped",
        "contents.py",
        '"id = :id AND lease_owner = :owner AND generation = :generation"',
        '"id = :id AND lease_owner = :owner"',
    ),
    Mutant(
        "the holder of a lease is not checked",
        "the ledger accepts an outcome only from the holder of the lease",
        "contents.py",
        '"id = :id AND lease_owner = :owner AND generation = :generation"',
        '"id = :id AND generation = :generation"',
    ),
    Mutant(
        "a release begins no generation",
        "the last release of a content gives it a new generation",
        "pins.py",
        "UPDATE contents SET state = :state, generation = generation + 1, attempts = 0,",
        "UPDATE contents SET state = :state, attempts = 0,",
    ),
    Mutant(
        "a promise begins no generation",
        "the first promise of a content gives it a new generation",
        "additions.py",
        "UPDATE contents SET state = :state, generation = generation + 1, attempts = 0,",
        "UPDATE contents SET state = :state, attempts = 0,",
    ),
    Mutant(
        "a promise breaks a lease",
        "requestors change their minds, and a lease stays",
        "additions.py",
        "next_at = CASE WHEN lease_owner IS NULL THEN :now ELSE next_at END WHERE id = :id",
        "next_at = :now WHERE id = :id",
    ),
    Mutant(
        "a lease that has not run out is given to another",
        "one worker at a time handles a content",
        "leasing.py",
        '" WHERE id IN (SELECT id FROM contents WHERE {} AND next_at <= :now"',
        '" WHERE id IN (SELECT id FROM contents WHERE {} AND next_at <= :until"',
    ),
    Mutant(
        "a stopping process releases the leases of all",
        "a process gives up its own leases when it ends",
        "contents.py",
        "CASE WHEN state = 'unpinning' THEN next_at ELSE ? END WHERE lease_owner = ?\",\n"
        "                (now, owner),",
        "CASE WHEN state = 'unpinning' THEN next_at ELSE ? END WHERE ? IS NOT NULL"
        ' AND lease_owner IS NOT NULL",\n'
        "                (now, owner),",
    ),
    Mutant(
        "a request is sent before it is recorded",
        "each request is durably recorded before it is sent",
        "requests.py",
        """            begun = await self._ledger.begin(
                self._owner, item, last_request, event, though_held=is_back
            )
""",
        """            asyncio.ensure_future(
                self._ledger.begin(self._owner, item, last_request, event, though_held=is_back)
            )
            begun = replace(item, last_request=last_request, requested_at=self._clock())
""",
    ),
    Mutant(
        "a request is sent long after it was recorded",
        "the batch age counts from the record of a request",
        "requests.py",
        "if begun is None or self._clock() - begun.requested_at > MAX_SEND_DELAY:",
        "if begun is None:",
    ),
    Mutant(
        "an unpin is taken for done five seconds early",
        "present after an unpin does not prove a pin until the batch age is over",
        "rules.py",
        "        uncertain_for = self._batch_age - age if item.last_request is not None else 0.0\n",
        "        uncertain_for = self._batch_age - age if item.last_request is not None else 0.0\n"
        "        if item.last_request is LastRequest.UNPIN:\n"
        "            uncertain_for -= 5\n",
    ),
    Mutant(
        "a content is forgotten while its unpin may still be lost",
        "a row is deleted only when the backend says that the content is gone",
        "rules.py",
        "        if item.last_request is LastRequest.UNPIN and uncertain_for > 0:\n"
        "            return Outcome(None, uncertain_for, seen)\n",
        "",
    ),
    Mutant(
        "a pin is final while its batch may still be lost",
        "a pin is final when it is seen once more after the batch age",
        "rules.py",
        "return _outcome_of(seen, None if is_final else uncertain_for)",
        "return _outcome_of(seen, None)",
    ),
    Mutant(
        "what was half fetched stays",
        "a released content is unpinned until the backend has said that it did",
        "rules.py",
        "if not self._batch_age and not item.attempts:",
        "if False:",
    ),
    Mutant(
        "the resync looks at what is there",
        "what the backend has lost is found by a resync, and pinned again",
        "resync.py",
        "absent = [number for number in numbers if not _is_marked(seen, number)]",
        "absent = [number for number in numbers if _is_marked(seen, number)]",
    ),
    Mutant(
        "two processes resync at once",
        "one process at a time has the resync's lease",
        "resyncs.py",
        '" WHERE next_at <= :now OR next_at > :far",\n',
        '" WHERE true OR next_at <= :now OR next_at > :far",\n',
    ),
    Mutant(
        "due times of a wrong clock are not corrected",
        "nothing waits for long because the clock was set back",
        "clock_watch.py",
        "        if is_step or is_time:\n",
        "        if False:\n",
    ),
    Mutant(
        "one requestor gets all workers",
        "half of the free workers stay free for others",
        "content_state.py",
        "self._is_fair = quota.held is not None",
        "self._is_fair = False",
    ),
    Mutant(
        "a worker is never free again",
        "nothing waits for ever",
        "reconciler.py",
        "            for item, _ in outcomes:\n"
        "                self._under_way.pop(item.id, None)\n",
        "            pass\n",
    ),
    Mutant(
        "a failed transaction stays open",
        "a failed commit fails its writes, and no later one",
        "database.py",
        "            roll_back(self._writer)\n"
        "            for write in group:\n"
        "                write.error = self._error_of(wrong)\n",
        "            for write in group:\n                write.error = self._error_of(wrong)\n",
    ),
    Mutant(
        "a write keeps its turn",
        "nothing waits for ever",
        "write_queue.py",
        "            self._turns.give_back(write.requestor)\n",
        "            pass\n",
    ),
    Mutant(
        "a write is answered before it is committed",
        "no acknowledged pin is lost",
        "group_commit.py",
        """            self._commit_or_fail(group, self._follows)
            # Before these""",
        """            committed = lambda: self._commit_or_fail(group, self._follows)
            for write in group:
                write.result = None
            self._loop.call_soon_threadsafe(committed)
            # Before these""",
    ),
    Mutant(
        "a requestor may have one pin too many",
        "a requestor never has more pins than it may have",
        "additions.py",
        "return bool(addition.most) and self._pins_of(addition.requestor) >= addition.most",
        "return bool(addition.most) and self._pins_of(addition.requestor) > addition.most",
    ),
    Mutant(
        "a removed pin is counted on",
        "the ledger counts the pins of a requestor as they are",
        "pins.py",
        "            count_pins(connection, requestor, -1)\n",
        "",
    ),
)


def apply(mutant: Mutant, folder: Path) -> None:
    """Make *folder* hold a copy of the package with *mutant* in it; raises NoLongerThere."""
    package = Path(content_gateway.__file__).parent
    copy = folder / "content_gateway"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    found = [
        (path, text)
        for path in sorted(copy.rglob(mutant.file))
        if mutant.old in (text := path.read_text())
    ]
    if len(found) != 1 or found[0][1].count(mutant.old) != 1:
        raise NoLongerThere(f"{mutant.name}: its text is not once in a {mutant.file}")
    path, text = found[0]
    path.write_text(text.replace(mutant.old, mutant.new))
