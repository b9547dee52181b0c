"""TOML as far as settings need more than the standard library: values written, and where a name
stands in a file.

Knows the syntax (toml.io, 1.0); which names there are is left to sources.py."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

_TABLE: Final = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?")
_KEY: Final = re.compile(r"\s*([\w\"' .-]+?)\s*=")


def spell(value: Any) -> str:
    """*value* in one line: text, number, truth, list, table, or anything else by its `str`."""
    match value:
        case bool() | int() | float():
            return json.dumps(value)
        case list() | tuple():
            return f"[{', '.join(map(spell, value))}]"
        case dict():
            return f"{{{', '.join(f'{spell(key)} = {spell(one)}' for key, one in value.items())}}}"
    # A JSON string is a TOML string, but for DEL and pairs of surrogates.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def lines_by_name(text: str) -> Mapping[str, int]:
    """In which line, from 1, each table and each key stands, by dotted name.

    A line within a text of several lines is taken for what it looks like."""
    found: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if (header := _TABLE.fullmatch(line)) is not None:
            table = _bare(header[1])
            for end in range(len(table) + 1):
                if table[end : end + 1] in ("", "."):
                    found.setdefault(table[:end], number)
        elif (key := _KEY.match(line)) is not None:
            found.setdefault(".".join(filter(None, (table, _bare(key[1])))), number)
    return found


def _bare(name: str) -> str:
    return ".".join(part.strip(" \"'") for part in name.split("."))
