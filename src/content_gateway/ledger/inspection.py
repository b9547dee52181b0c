"""What was found in a ledger that was read as a whole. Values only.

What must always be true of one is asked for by each adapter, in its own SQL."""

from dataclasses import dataclass
from typing import Final

SAMPLE: Final = 5


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
