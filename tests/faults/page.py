"""docs/faults.md: each fault with the number that must hold, and what was measured on what day.

Draws the table between two comments; the words around it are left as they stand."""

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.faults.row import Figure, Row

PAGE: Final = Path(__file__).parents[2] / "docs" / "faults.md"
_BEGIN: Final = "<!-- drawn by make faults -->"
_END: Final = "<!-- end of faults -->"
_HEAD: Final = "| | fault | must hold | SQLite | PostgreSQL | | day |"
_RULE: Final = "|---|---|---|---|---|---|---|"


@dataclass(frozen=True)
class Measured:
    """A row, and its figures: one, or one for each database."""

    row: Row
    figures: Sequence[Figure]

    @property
    def holds(self) -> bool:
        """Whether all of them are what must hold."""
        return all(figure.holds for figure in self.figures)


def machine() -> str:
    """What this was measured on, without a name or a path."""
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    gigabytes = int(memory[1]) / 2**20 if memory else 0
    system = f"{platform.system()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} processors, {gigabytes:.0f} GB of memory, {system}"


def line(number: int, one: Measured, day: str) -> str:
    """The row of the table that tells of *one*."""
    texts = [figure.text.replace("|", "\\|") for figure in one.figures]
    both = texts if len(texts) == 2 else [texts[0], "the same: no ledger is asked"]
    verdict = "holds" if one.holds else "**fails**"
    row = one.row
    return (
        f"| {number} | {row.fault} (`{row.name}`) | {row.must} | {both[0]} | {both[1]} |"
        f" {verdict} | {day} |"
    )


def write(measured: Sequence[Measured], rows: Sequence[Row], where: str) -> None:
    """Draw what was measured today into the page; what was measured before stays, with its day."""
    text = PAGE.read_text()
    head, _, rest = text.partition(_BEGIN)
    old, _, tail = rest.partition(_END)
    day, new = datetime.now(UTC).date().isoformat(), {one.row.name: one for one in measured}
    lines = [f"Measured on {where}.", "", _HEAD, _RULE]
    for number, row in enumerate(rows, 1):
        before = [each for each in old.splitlines() if f"(`{row.name}`)" in each]
        if row.name in new:
            lines.append(line(number, new[row.name], day))
        elif before:
            lines.append(before[0])
        else:
            lines.append(f"| {number} | {row.fault} (`{row.name}`) | {row.must} | | | not run | |")
    table = "\n".join(lines)
    PAGE.write_text(f"{head}{_BEGIN}\n\n{table}\n\n{_END}{tail}")
