"""Cursors: where the next page of a requestor's pins begins, as text.

Knows that pins are ordered by their creation time, which is unique for a requestor."""

import re
from datetime import datetime
from typing import Final

from content_gateway.codecs.timestamps import at_microseconds, microseconds
from content_gateway.errors import InvalidCursor
from content_gateway.model.pins import Pin

_CURSOR: Final = re.compile(r"[0-9a-f]{1,15}", re.ASCII)


def cursor_behind(pin: Pin) -> str:
    """The cursor of the page that begins behind *pin*: its creation time in hexadecimal."""
    return f"{microseconds(pin.created_at):x}"


def parse_cursor(text: str) -> datetime:
    """The creation time behind which the page begins; raises InvalidCursor."""
    try:
        if _CURSOR.fullmatch(text):
            return at_microseconds(int(text, 16))
    except OverflowError:
        pass
    raise InvalidCursor("The cursor is not one that was given out.")
