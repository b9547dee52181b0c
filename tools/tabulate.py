"""The settings, the operations and the errors, from the code and from spec.yaml.

Knows Markdown; what a setting, an operation or an error is for is said where it is defined."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from content_gateway.http.error_reference import reference
from content_gateway.settings.model import PACKAGED_SPEC, fields, with_unit


def settings() -> str:
    """Every setting by its name, with its default and what it is."""
    rows = [
        (f"`{name}`", _default(with_unit(info, info.default)), _cell(str(info.description)))
        for name, info in fields()
    ]
    return _table(("setting", "default", "what it is"), rows)


def operations() -> str:
    """Every operation of spec.yaml, with its summary and the statuses that it answers."""
    rows = []
    for path, methods in yaml.safe_load(PACKAGED_SPEC.read_text())["paths"].items():
        for method, operation in methods.items():
            if "operationId" in operation:
                rows.append(
                    (
                        f"`{method.upper()} {path}`",
                        _cell(operation["summary"]),
                        ", ".join(sorted(operation["responses"])),
                    )
                )
    return _table(("request", "what it does", "answers"), rows)


def errors() -> str:
    """Every code of a problem, with its statuses, its words and what to do about it."""
    sections = []
    for entry in reference():
        lines = [f"## {entry.code}", "", f"{entry.statuses} {entry.title}."]
        if entry.has_retry_after:
            lines[2] += " `Retry-After` is sent."
        lines += [f"- {detail}" for detail in entry.details]
        sections.append("\n".join([*lines, "", entry.advice]))
    return "\n\n".join(sections)


def _default(value: Any) -> str:
    if value is None or value == "":
        return "none"
    if value == PACKAGED_SPEC:
        return "the packaged `spec.yaml`"
    text = str(value) if isinstance(value, str | Path) else json.dumps(value)
    return f"`{text}`" if len(text) <= 40 else f"{len(value)} of them"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
