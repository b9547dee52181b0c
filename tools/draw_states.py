"""Draws the state diagram in docs/pins.md from the table in model/content_state.py.

`make docs` writes it; a test fails where the two differ. Knows Mermaid's words for states and
arrows; what the states mean is said in the table."""

import sys
from pathlib import Path

from content_gateway.model.content_state import TRANSITIONS, ContentState

BEGIN, END = "<!-- drawn by tools/draw_states.py -->", "<!-- end of the drawing -->"
DOCUMENT = Path(__file__).parents[1] / "docs" / "pins.md"


def diagram() -> str:
    """The table as a Mermaid state diagram; one arrow for all events between two states."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for (before, event), after in TRANSITIONS.items():
        arrows.setdefault((_name(before), _name(after)), []).append(event.value)
    lines = [f"    {one} --> {two}: {', or '.join(why)}" for (one, two), why in arrows.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def redrawn(document: str) -> str:
    """*document* with the diagram as the table has it now."""
    head, _, rest = document.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{diagram()}\n{END}{tail}"


def _name(state: ContentState | None) -> str:
    return "[*]" if state is None else state.value


if __name__ == "__main__":
    DOCUMENT.write_text(redrawn(DOCUMENT.read_text()))
    sys.stdout.write(f"{DOCUMENT.name} is drawn\n")
