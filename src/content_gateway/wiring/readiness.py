"""What must hold for a service to get traffic: one check for each, in words for operators.

Knows which parts can tell. How often they are asked, and what an answer looks like, is left to
http/admin.py."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from content_gateway.errors import StorageUnavailable
from content_gateway.http.admin import Check
from content_gateway.settings.groups import AdminSettings
from content_gateway.wiring.app import Application


def readiness_checks(
    gateway: Application, chosen: AdminSettings, is_stopping: Callable[[], bool]
) -> Mapping[str, Check]:
    """The checks by name, in the order in which they are shown."""

    async def stopping() -> str | None:
        return "the service is stopping" if is_stopping() else None

    async def ledger() -> str | None:
        try:
            await gateway.ledger.check_writable()
        except StorageUnavailable as failed:
            return failed.detail
        return None

    async def backlog() -> str | None:
        try:
            waiting = await gateway.contents.waiting(1)
        except StorageUnavailable as failed:
            return failed.detail
        seconds = max(
            ((datetime.now(UTC) - one.since).total_seconds() for one in waiting), default=0
        )
        if seconds <= chosen.oldest_waiting:
            return None
        return f"a pin has waited for {seconds:.0f} s, longer than {chosen.oldest_waiting:g} s"

    checks: dict[str, Check] = {"stopping": stopping, "ledger": ledger}
    return checks | ({"backlog": backlog} if chosen.oldest_waiting else {})
