"""The page /status of the admin listener: how the service is, for people, without a script.

Knows what an operator looks for first: what is not well, what waits and why, which servers answer,
and who asks how much. The values are handed in; it does no I/O."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from html import escape
from typing import Final

from content_gateway.codecs.timestamps import rfc3339
from content_gateway.concurrency.sliding_window import SlidingWindow
from content_gateway.http.admin import AdminPage
from content_gateway.http.key_limits import KeyLimits
from content_gateway.model.backend_health import BackendHealth
from content_gateway.model.backlog import Backlog, Waiting

_KEYS: Final = 100  # that the page shows, those that ask the most
_HEAD: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Content Gateway: status</title>
<meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="10">
<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #8884;
  overflow-wrap: anywhere; vertical-align: top; }
.bad { font-weight: bold; }
.bad::before { content: "\\26A0\\00A0"; }
</style></head><body><main><h1>Content Gateway</h1>
"""


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """A node of the chain *kind*; *latency* is what it usually takes, in seconds."""

    kind: str
    name: str
    is_up: bool
    latency: float | None


@dataclass(frozen=True, slots=True)
class KeyRow:
    """What a key has asked for; of the minute and the day, what is used and the limit, None where
    it has none."""

    name: str
    requests: int
    minute: tuple[int, int] | None
    day: tuple[int, int] | None


@dataclass(slots=True)
class ServiceStatus:
    """How the service is at *now*. *unread* says why what the ledger has is not known."""

    now: datetime
    started: datetime
    checks: Mapping[str, str | None]
    endpoints: Sequence[EndpointRow]
    keys: Sequence[KeyRow]
    health: BackendHealth | None = None
    backlog: Backlog | None = None
    reasons: Mapping[str | None, int] = field(default_factory=dict)
    stuck: Sequence[Waiting] = ()
    unread: str = ""
    workers: Sequence[tuple[int, str]] = ()  # their process ids, where there are several


def render(status: ServiceStatus) -> AdminPage:
    """The page."""
    parts = [
        _HEAD,
        f"<p>{rfc3339(status.now)}, up for {_span(status.now - status.started)}.</p>",
        _table("Ready?", ("check", "state"), _checks(status)),
        _table("Pin backend", ("", ""), _backend(status)),
        _table("Backlog", ("state", "contents"), _backlog(status)),
        _table("Why they wait", ("reason", "contents"), _reasons(status)),
        _table("Waiting the longest", ("CID", "state", "for", "attempts", "why"), _stuck(status)),
        _table("Endpoints", ("chain", "endpoint", "state", "usual latency"), _endpoints(status)),
        _table(
            "Keys by use, since the start",
            ("key", "requests", "this minute", "this day"),
            _keys(status),
        ),
        "</main></body></html>\n",
    ]
    if status.workers:
        rows = [(pid, _Bad(said) if said != "ok" else said) for pid, said in status.workers]
        parts.insert(3, _table("Workers", ("process", "state"), rows))
    return AdminPage("".join(parts).encode(), b"text/html; charset=utf-8")


class _Bad(str):
    """A cell that wants to be seen."""


Row = Sequence[object]


def _checks(status: ServiceStatus) -> Iterable[Row]:
    for name, reason in status.checks.items():
        yield name, "ok" if reason is None else _Bad(reason)


def _backend(status: ServiceStatus) -> Iterable[Row]:
    health = status.health
    if health is None:
        yield "state", _Bad(status.unread) if status.unread else "nobody has asked it yet"
        return
    if health.is_unavailable(status.now):
        yield "state", _Bad(health.describe())
        yield "reason", health.reason
    else:
        yield "state", "answers"
    for node in health.nodes:
        yield node.name, "answers" if node.answers else _Bad("is silent")
    yield "pinned", f"{health.pinned:,} in {health.seconds:.0f} s"


def _backlog(status: ServiceStatus) -> Iterable[Row]:
    if status.backlog is None:
        yield "not known", _Bad(status.unread)
        return
    for state, number in status.backlog.by_state.items():
        yield state.value, f"{number:,}"


def _reasons(status: ServiceStatus) -> Iterable[Row]:
    for reason, number in status.reasons.items():
        yield reason or "it is its turn soon", f"{number:,}"


def _stuck(status: ServiceStatus) -> Iterable[Row]:
    for one in status.stuck:
        waited = _span(status.now - one.since)
        yield one.cid, one.state.value, waited, one.attempts, one.error or ""


def _endpoints(status: ServiceStatus) -> Iterable[Row]:
    for one in status.endpoints:
        latency = "" if one.latency is None else f"{one.latency * 1000:.0f} ms"
        yield one.kind, one.name, "up" if one.is_up else _Bad("down"), latency


def _keys(status: ServiceStatus) -> Iterable[Row]:
    for use in status.keys[:_KEYS]:
        windows = (
            "" if window is None else f"{window[0]:,} of {window[1]:,}"
            for window in (use.minute, use.day)
        )
        yield use.name, f"{use.requests:,}", *windows


def key_rows(limits: KeyLimits, now: float) -> Sequence[KeyRow]:
    """The keys that *limits* has seen lately as they are at *now*, those that asked most first."""
    rows = [
        KeyRow(use.name, use.requests, _used(use.minute, now), _used(use.day, now))
        for _, use in limits.used()
        if use.name  # else it was seen by other workers only, who know its name
    ]
    return sorted(rows, key=lambda row: -row.requests)


def _used(window: SlidingWindow | None, now: float) -> tuple[int, int] | None:
    return None if window is None else (window.used_at(now), window.limit)


def _table(title: str, headings: Sequence[str], rows: Iterable[Row]) -> str:
    """A table under its *title*; a sentence where there is nothing in it."""
    lines = [f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in rows]
    if not lines:
        return f"<h2>{title}</h2><p>None.</p>\n"
    head = "".join(f'<th scope="col">{heading}</th>' for heading in headings)
    return f"<h2>{title}</h2>\n<table><thead><tr>{head}</tr></thead>\n{''.join(lines)}</table>\n"


def _cell(value: object) -> str:
    mark = ' class="bad"' if isinstance(value, _Bad) else ""
    return f"<td{mark}>{escape(str(value))}</td>"


def _span(span: timedelta) -> str:
    """How long, in the two largest units."""
    seconds = max(0, round(span.total_seconds()))
    for size, unit, less, small in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // less} {small}"
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"
