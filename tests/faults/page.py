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


def drawn(measured: Sequence[Measured], where: str, day: str) -> str:
    """The table."""
    lines = [
        f"Measured on {day}: {where}.",
        "",
        "| | fault | must hold | SQLite | PostgreSQL | |",
        "|---|---|---|---|---|---|",
    ]
    for number, one in enumerate(measured, 1):
        texts = [figure.text.replace("|", "\\|") for figure in one.figures]
        both = texts if len(texts) == 2 else [texts[0], "the same: no ledger is asked"]
        verdict = "holds" if one.holds else "**fails**"
        lines.append(
            f"| {number} | {one.row.fault} (`{one.row.name}`) | {one.row.must} | {both[0]} |"
            f" {both[1]} | {verdict} |"
        )
    return "\n".join(lines)


def write(measured: Sequence[Measured], where: str) -> None:
    """Draw the table into the page, with today's date."""
    text = PAGE.read_text()
    head, _, rest = text.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    table = drawn(measured, where, datetime.now(UTC).date().isoformat())
    PAGE.write_text(f"{head}{_BEGIN}\n\n{table}\n\n{_END}{tail}")
