"""`make docs`: what the documents show of the code is drawn from the code.

Knows which document has which drawing, between two comments that name it; a test fails where a
drawing is not what the code says now. How a thing is drawn is left to the modules beside this."""

import sys
from collections.abc import Callable
from pathlib import Path

from tools.draw_rooms import rooms
from tools.draw_states import states
from tools.tabulate import errors, operations, settings

DOCS = Path(__file__).parents[1] / "docs"
DRAWINGS: tuple[tuple[str, str, Callable[[], str]], ...] = (
    ("pins.md", "states", states),
    ("architecture.md", "rooms", rooms),
    ("reference.md", "settings", settings),
    ("reference.md", "operations", operations),
    ("errors.md", "errors", errors),
)


def redrawn(document: str, name: str, drawing: str) -> str:
    """*document* with *drawing* between the comments of that *name*; ValueError without them."""
    begin, end = f"<!-- drawn by make docs: {name} -->", f"<!-- end of {name} -->"
    head, found, rest = document.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"no place for {name}")
    return f"{head}{begin}\n\n{drawing}\n\n{end}{tail}"


if __name__ == "__main__":
    for page, what, draw in DRAWINGS:
        path = DOCS / page
        path.write_text(redrawn(path.read_text(), what, draw()))
        sys.stdout.write(f"docs/{page}: {what}\n")
