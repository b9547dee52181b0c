"""Which events the code logs, read from its source.

An event is the text of a call like `log.warning("...")`; a part of it that is filled in stands in
braces, by the last of its names. A call whose text cannot be read is an error."""

import ast
from collections.abc import Iterator
from pathlib import Path

# `exception` is an error with its traceback.
LEVELS = {"debug": "debug", "info": "info", "warning": "warning", "error": "error"} | {
    "exception": "error",
    "critical": "critical",
}


def events_of(source: Path) -> set[tuple[str, str]]:
    """The level and the text of each event that a module of the package in *source* logs."""
    found: set[tuple[str, str]] = set()
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and _is_log(node.value):
                assert node.attr in LEVELS, f"{path}:{node.lineno}: log.{node.attr}"
        found.update(_events(path))
    return found


def _events(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and _is_log(node.func.value)
        ):
            text = _text(node.args[0]) if node.args else None
            assert text is not None, f"{path}:{node.lineno}: the event is not written there"
            yield LEVELS[node.func.attr], text


def _is_log(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("log", "logger")


def _text(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "" for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return "{" + ast.unparse(node.value).rpartition(".")[2].strip("_") + "}"
    return None
