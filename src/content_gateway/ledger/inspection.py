"""What is found in a ledger that is read as a whole, and what must never be found in one.

Each adapter asks these questions, and those of its own tables, in its database."""

from dataclasses import dataclass
from typing import Final

from content_gateway.model.content_state import PIN_STATES

SAMPLE: Final = 5
_HELD: Final = ", ".join(f"'{state}'" for state in PIN_STATES)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Rows that must not be there: in words, as a *query* of one column, which names what each of
    them concerns, and the command that puts it right, if there is one."""

    words: str
    query: str
    remedy: str | None = None


# Of tables that both databases have, in SQL that both understand.
CONTRADICTIONS: Final = (
    Contradiction(
        "pins without their content",
        "SELECT requestor || ' ' || content FROM pins"
        " WHERE NOT EXISTS (SELECT 1 FROM contents WHERE id = pins.content)",
    ),
    Contradiction(
        "contents that should be pinned, and that nobody holds",
        f"SELECT cid FROM contents WHERE state IN ({_HELD})"  # noqa: S608 - constants
        " AND NOT EXISTS (SELECT 1 FROM pins WHERE content = contents.id)",
    ),
    Contradiction(
        "contents that are being unpinned, and that somebody holds",
        "SELECT cid FROM contents WHERE state = 'unpinning'"
        " AND EXISTS (SELECT 1 FROM pins WHERE content = contents.id)",
    ),
)


def miscounted(pins: str) -> Contradiction:
    """Requestors whose count is another than *pins*, a subquery that counts a requestor's rows."""
    return Contradiction(
        "requestors with a wrong count of their pins",
        f"SELECT requestor FROM requestors WHERE pins <> ({pins})",  # noqa: S608 - constant
        "content-gateway ledger recount",
    )


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with a ledger: what, how often, and the first few it concerns; and
    the command that puts it right, if there is one."""

    finding: str
    count: int
    sample: tuple[str, ...]
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Inspection:
    """A ledger: its schema's *version*, what it holds, and what is wrong; *is_damaged* if that is
    the database itself, so that nobody knows what is lost.

    A ledger of another *version* than *current* has its file checked only; its numbers are
    None."""

    version: int
    current: int
    keys: int | None
    pins: int | None
    contents: int | None
    findings: tuple[Finding, ...]
    is_damaged: bool
