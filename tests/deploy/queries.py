"""What a PromQL expression names: its metrics, and the values of labels that it asks for.

Reads the text by its shape; whether it is an expression at all is promtool's to say."""

import re
from collections.abc import Iterator

_METRIC = re.compile(r"\b(content_gateway_\w+|process_\w+|python_\w+)")
_MATCHER = re.compile(r'(\w+)\s*=~?\s*"([^"]*)"')


def metrics_of(expression: str) -> set[str]:
    """The metrics that *expression* reads, histograms by their own name."""
    found = _METRIC.findall(expression)
    return {re.sub(r"(_seconds|_size)_(bucket|sum|count)$", r"\1", name) for name in found}


def labels_of(expression: str) -> Iterator[tuple[str, str]]:
    """Each label and value that *expression* selects by; alternatives one by one."""
    for label, value in _MATCHER.findall(expression):
        for one in [value] if "{" in value else value.split("|"):
            yield label, one
