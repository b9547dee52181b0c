"""The reference of errors: what there is to know of each code, for docs/errors.md and /docs/errors.

Knows that several kinds of problems share one code, and sorts them; the words are those of
kinds.py."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from content_gateway.http.kinds import KINDS, Kind


@dataclass(frozen=True, slots=True)
class CodeEntry:
    """What the reference says of one code; *details* are the words of each of its kinds."""

    code: str
    statuses: str
    title: str
    details: tuple[str, ...]
    advice: str
    has_retry_after: bool


def reference() -> list[CodeEntry]:
    """Every code, by status."""
    by_code = sorted(KINDS, key=lambda kind: kind.code)
    entries = [_entry(code, [*kinds]) for code, kinds in groupby(by_code, lambda kind: kind.code)]
    return sorted(entries, key=lambda entry: entry.statuses)


def _entry(code: str, kinds: list[Kind]) -> CodeEntry:
    kinds.sort(key=lambda kind: kind.status)
    return CodeEntry(
        code=code,
        statuses=", ".join(_once(str(kind.status) for kind in kinds)),
        title=kinds[0].title,
        details=tuple(_once(kind.detail for kind in kinds)),
        advice=" ".join(_once(kind.advice for kind in kinds)),
        has_retry_after=any(name == b"retry-after" for kind in kinds for name, _ in kind.headers),
    )


def _once(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
