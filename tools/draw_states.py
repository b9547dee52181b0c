"""The table in model/content_state.py as a Mermaid state diagram.

Knows Mermaid's words for states and arrows; what the states mean is said in the table, where the
drawing stands in docs.py."""

from content_gateway.model.content_state import TRANSITIONS, ContentState


def states() -> str:
    """One arrow for all events between two states."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for (before, event), after in TRANSITIONS.items():
        arrows.setdefault((_name(before), _name(after)), []).append(event.value)
    lines = [f"    {one} --> {two}: {', or '.join(why)}" for (one, two), why in arrows.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def _name(state: ContentState | None) -> str:
    return "[*]" if state is None else state.value
