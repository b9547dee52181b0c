"""The pin backend on the screen, as the last word that was left of it says: JSON, and for people.

For operators: it names hosts. Knows no command and asks nobody."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from content_gateway.codecs.timestamps import rfc3339, rfc3339_or_none
from content_gateway.model.backend_health import BackendHealth


def health_lines(health: BackendHealth | None, now: datetime) -> Iterator[str]:
    """How the backend is, since when, which of its nodes answer, and how quickly it pins."""
    if health is None:
        yield "backend: nobody has asked it yet"
        return
    if health.is_unavailable(now) and health.since is not None:
        what = "takes no pins" if health.is_rejecting_writes else "cannot be reached"
        what = "cannot be used, by our own fault," if health.is_ours else what
        again = "" if health.next_at is None else f", next try {rfc3339(health.next_at)}"
        yield f"backend {what} since {rfc3339(health.since)}{again}: {health.reason}"
    elif health.since is not None:
        yield (
            f"backend not asked since {rfc3339(health.kept_at)}, when it could not be reached:"
            f" {health.reason}"
        )
    else:
        yield "backend answers"
    if health.answered_at is not None:
        yield f"  last answer {rfc3339(health.answered_at)}"
    for node in health.nodes:
        yield f"  {node.name} {'answers' if node.answers else 'is silent'}, {rfc3339(node.at)}"
    yield f"  {health.pinned:,} pinned in the last {health.seconds:.0f} s before"


def health_json(health: BackendHealth | None, now: datetime) -> dict[str, Any] | None:
    """The same for programs."""
    if health is None:
        return None
    return {
        "reachable": not health.is_unavailable(now),
        "since": rfc3339_or_none(health.since),
        "takesPins": not (health.is_unavailable(now) and health.is_rejecting_writes),
        "reason": health.reason,
        "nextAttempt": rfc3339_or_none(health.next_at),
        "lastAnswer": rfc3339_or_none(health.answered_at),
        "asOf": rfc3339(health.kept_at),
        "pinned": health.pinned,
        "withinSeconds": round(health.seconds),
        "nodes": [
            {"name": node.name, "answers": node.answers, "at": rfc3339(node.at)}
            for node in health.nodes
        ],
    }


def reason_lines(
    reasons: Mapping[str | None, int], health: BackendHealth | None, now: datetime
) -> Iterator[str]:
    """Why what waits does, with the number of contents."""
    if reasons:
        yield "waiting, by reason:"
    for reason, number in shown_reasons(reasons, health, now).items():
        yield f"  {number:,}: {reason}"


def shown_reasons(
    reasons: Mapping[str | None, int], health: BackendHealth | None, now: datetime
) -> dict[str, int]:
    """The reasons in words; in an outage the backend is one where a content has none of its own."""
    is_unavailable = health is not None and health.is_unavailable(now)
    otherwise = (
        "the backend cannot be reached"
        if is_unavailable
        else "nothing is wrong: it is its turn soon"
    )
    return {reason or otherwise: number for reason, number in reasons.items()}
