"""Others' text, made fit to stand in a line of ours: printable, on one line, not too long.

Knows which characters can be printed (str.isprintable: no control characters, no line ends, nothing
that turns the direction of what follows). What else is cut away is for the callers."""

from typing import Final

_MOST_QUOTED: Final = 60


def printable(text: str, instead: str) -> str:
    """*text* with *instead* for each character that cannot be printed."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else instead for char in text)


def quoted(text: str) -> str:
    """What somebody sent, in the detail of a refusal: in quotes, printable, and not too long."""
    shown = printable(text[:_MOST_QUOTED], "\ufffd")
    return f"'{shown}...'" if len(text) > _MOST_QUOTED else f"'{shown}'"
