"""`content-gateway reconcile`: what the ledger owes, seen and worked off by hand.

Works on the same ledger as a running service, under the same leases. What is done about a content
is decided in `pins/`; here it is only made due, and waited for."""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from content_gateway.cli import common
from content_gateway.cli.duration import Duration
from content_gateway.cli.health_view import (
    health_json,
    health_lines,
    reason_lines,
    shown_reasons,
)
from content_gateway.cli.reconcile_if_idle import ReconcileIfIdle
from content_gateway.cli.status_line import StatusLine, plain
from content_gateway.cli.which_ledger import any_ledger, existing_ledger
from content_gateway.codecs.timestamps import rfc3339
from content_gateway.errors import GatewayError, UpstreamError
from content_gateway.model.backend_health import BackendHealth
from content_gateway.model.backlog import PENDING, Backlog, Waiting
from content_gateway.model.content_state import ContentState, ResyncReport
from content_gateway.settings.model import Settings
from content_gateway.settings.sources import Loaded

if TYPE_CHECKING:
    from content_gateway.wiring.app import Application

_POLL_SECONDS: Final = 0.2
_BETWEEN_RESYNCS: Final = 1.0
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class _Report:
    health: BackendHealth | None
    counts: Mapping[ContentState, int]
    reasons: Mapping[str | None, int]
    waiting: Sequence[Waiting]
    resync: ResyncReport | None


@click.group("reconcile", epilog="Example: content-gateway reconcile report")
def command() -> None:
    """Reconcile pins now, and report what waits."""


@command.command("report", epilog="Example: content-gateway reconcile report --json")
@common.ledger_options
@existing_ledger
def report(*, loaded: Loaded, as_json: bool) -> None:
    """Print how the backend is, the contents by state, why they wait, and the last resync."""
    _print(common.run_on(loaded.settings, _report_of), as_json)


@command.command("now", epilog="Example: content-gateway reconcile now --timeout 60")
@click.option(
    "--timeout",
    type=Duration(),
    default="5m",
    show_default=True,
    help="Stop after that; what is under way then goes on with the next service.",
)
@common.ledger_options
@any_ledger
def now(*, timeout: float, loaded: Loaded, as_json: bool) -> None:
    """Try everything that waits again, compare the ledger with the backend, and report.

    Beside a running service that one does the work. Ends with status 1 when something is left
    that is not pinned, or when the backend is unreachable."""
    chosen = loaded.settings
    try:
        backlog, found, is_late = common.run_on(chosen, lambda it: _now(it, chosen, timeout))
    except KeyboardInterrupt:
        click.echo("Interrupted. What is due stays due, and a service goes on with it.", err=True)
        sys.exit(common.INTERRUPTED)
    _print(found, as_json)
    if is_late or backlog.failed or not backlog.is_drained:
        click.echo(_left(backlog, timeout if is_late else None), err=True)
        sys.exit(1)


async def _now(
    gateway: "Application", chosen: Settings, seconds: float
) -> tuple[Backlog, _Report, bool]:
    """What is left, the report, and whether the time was too short."""
    began, limit = datetime.now(UTC), asyncio.timeout(seconds)
    reconciling = ReconcileIfIdle(gateway, chosen)
    await reconciling.check_backend()
    with StatusLine() as line:
        await gateway.contents.expedite()
        try:
            async with limit:
                await _resync(gateway, line)
                await _work_off(gateway, reconciling, began, line)
        except TimeoutError:
            if not limit.expired():
                raise
    backlog = await gateway.contents.backlog(began)
    return backlog, await _report_of(gateway), limit.expired()


async def _resync(gateway: "Application", line: StatusLine) -> None:
    """Compare the ledger with the backend; raises GatewayError when the backend is unreachable."""
    line.show("comparing the ledger with the backend", news=True)
    try:
        while await gateway.resync.now() is None:
            line.show("waiting for the resync of another process", news=True)
            await asyncio.sleep(_BETWEEN_RESYNCS)
    except UpstreamError as unreachable:
        raise GatewayError(f"The pin backend is unreachable: {unreachable.detail}") from unreachable


async def _work_off(
    gateway: "Application", reconciling: ReconcileIfIdle, began: datetime, line: StatusLine
) -> None:
    """Return when nothing is on its way, and everything else was tried since *began*."""
    loop = asyncio.get_running_loop()
    while True:
        await reconciling.ensure_reconciled()
        asked = loop.time()
        backlog = await gateway.contents.backlog(began)
        if backlog.is_drained:
            return
        line.show(
            f"{backlog.pending:,} on their way, {backlog.failed:,} failed,"
            f" {backlog.leased:,} under way"
        )
        # A large ledger takes a while to count: then it is counted less often.
        await asyncio.sleep(max(_POLL_SECONDS, 5 * (loop.time() - asked)))


async def _report_of(gateway: "Application") -> _Report:
    contents = gateway.contents
    health, waiting = await gateway.health.last(), await contents.waiting(_SHOWN)
    if health is not None and health.is_unavailable(datetime.now(UTC)):
        waiting = [health.explain_content(item) for item in waiting]
    return _Report(
        health,
        await contents.counts(),
        await contents.reasons(_SHOWN),
        waiting,
        await gateway.resyncs.last_report(),
    )


def _left(backlog: Backlog, seconds: float | None) -> str:
    """What is left, and after how many seconds if those were too few."""
    states = [state for state in (*PENDING, ContentState.FAILED) if backlog.by_state.get(state)]
    parts = [f"{backlog.by_state[state]:,} {state}" for state in states]
    late = "" if seconds is None else f" after {seconds:g} s"
    return f"Not all is done{late}: {', '.join(parts) or 'work is under way'}."


def _print(found: _Report, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(_as_json(found)))
        return
    for text in _lines(found):
        click.echo(plain(text))


def _lines(found: _Report) -> Iterator[str]:
    """The report for people."""
    now = datetime.now(UTC)
    yield from health_lines(found.health, now)
    for state in ContentState:
        yield f"{state:10} {found.counts.get(state, 0):,}"
    yield from reason_lines(found.reasons, found.health, now)
    if found.waiting:
        oldest = max(0.0, (now - found.waiting[0].since).total_seconds())
        yield f"waiting longest, the first for {timedelta(seconds=round(oldest))}:"
    for item in found.waiting:
        why = f": {item.error.rstrip('.')}" if item.error else ""
        if item.next_at is not None:
            why += f", next {rfc3339(item.next_at)}"
        yield f"  {item.cid} {item.state} since {rfc3339(item.since)}{why}"
    resync = found.resync
    if resync is None:
        yield "no resync yet"
        return
    yield (
        f"last resync {_moment(resync.ended_at)}: {resync.listed:,} listed,"
        f" {resync.missing:,} missing, {resync.under_replicated:,} under-replicated,"
        f" {resync.unmanaged:,} unmanaged"
    )
    for cid in resync.sample[:_SHOWN]:
        yield f"  {cid} is on the backend, and nobody here has asked for it"


def _as_json(found: _Report) -> dict[str, Any]:
    resync, now = found.resync, datetime.now(UTC)
    return {
        "backend": health_json(found.health, now),
        "reasons": shown_reasons(found.reasons, found.health, now),
        "oldestWaiting": rfc3339(found.waiting[0].since) if found.waiting else None,
        "contents": {state.value: found.counts.get(state, 0) for state in ContentState},
        "waiting": [_waiting(item) for item in found.waiting],
        "resync": None
        if resync is None
        else {
            "started": _moment(resync.started_at),
            "ended": _moment(resync.ended_at),
            "listed": resync.listed,
            "missing": resync.missing,
            "underReplicated": resync.under_replicated,
            "unmanaged": resync.unmanaged,
            "sample": [str(cid) for cid in resync.sample],
        },
    }


def _waiting(item: Waiting) -> dict[str, Any]:
    return {
        "cid": str(item.cid),
        "status": item.state.value,
        "since": rfc3339(item.since),
        "attempts": item.attempts,
        "nextAttempt": None if item.next_at is None else rfc3339(item.next_at),
        "reason": item.error,
    }


def _moment(seconds: float) -> str:
    return rfc3339(datetime.fromtimestamp(seconds, UTC))
