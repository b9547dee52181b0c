"""Rows as a table for people: headings, columns as wide as their widest cell.

Knows text only; all rows are in memory, so a list without end is none for it."""

from collections.abc import Iterable, Sequence


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The lines of a table, with `-` for an empty cell."""
    lines = [tuple(heading.upper() for heading in headings)]
    lines += [tuple(cell or "-" for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
