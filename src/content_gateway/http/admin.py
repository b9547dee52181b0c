"""The admin listener: what operators see, on a socket of its own, without a key.

Knows how checks become /readyz, as Kubernetes' own servers have it: 200 or 503, with a line for
each check (kubernetes.io, "Kubernetes API health endpoints"). The checks and the other pages are
handed in by wiring/admin.py."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from socket import socket
from typing import Any, Final, TypeAlias

import structlog

from content_gateway.http.limits import ClientLimits
from content_gateway.http.server import make_server

# Returns why the service may not get traffic now, None where it may.
Check: TypeAlias = Callable[[], Awaitable[str | None]]
# Seconds that one check may take, and for which a report stands: whoever asks more often learns
# nothing new, and costs nothing.
_PATIENCE: Final = 2.0
_KEPT: Final = 1.0
_LIMITS: Final = ClientLimits(connections=256, per_address=256, drain=0.0, stop=2)
TEXT: Final = b"text/plain; charset=utf-8"
# No page of it runs a script, is framed, or is kept by anybody.
_POLICY: Final = b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
_EVERY: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Report:
    """What a round of checks has found: *reasons* by name, None for what is well."""

    reasons: Mapping[str, str | None]

    @property
    def is_ready(self) -> bool:
        """Whether the service may get traffic."""
        return not any(self.reasons.values())

    def text(self) -> str:
        """A line for each check, and one for all."""
        lines = [
            f"[+]{name} ok" if reason is None else f"[-]{name} failed: {reason}"
            for name, reason in self.reasons.items()
        ]
        return "\n".join([*lines, "ready" if self.is_ready else "not ready"]) + "\n"


class Readiness:
    """Runs *checks*, side by side, at most once a second; and again once the service is draining,
    which load balancers are to see at once."""

    def __init__(
        self,
        checks: Mapping[str, Check],
        *,
        is_draining: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._checks = dict(checks)
        self._is_draining = is_draining
        self._clock = clock
        self._last: tuple[float, Report] | None = None
        self._has_drained = False  # when the last report was made
        self._running: asyncio.Task[Report] | None = None

    async def report(self) -> Report:
        """What the checks say; every change is logged."""
        is_known = self._last is not None and self._clock() - self._last[0] < _KEPT
        if self._last is not None and is_known and self._has_drained == self._is_draining():
            return self._last[1]
        if self._running is None:
            self._has_drained = self._is_draining()
            self._running = asyncio.create_task(self._run(), name="readiness")
        return await asyncio.shield(self._running)

    async def close(self) -> None:
        """Check no more."""
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running

    async def _run(self) -> Report:
        try:
            answers = await asyncio.gather(*map(_reason, self._checks.values()))
            report = Report(dict(zip(self._checks, answers, strict=True)))
            was_ready = self._last is None or self._last[1].is_ready
            if report.is_ready != was_ready:
                log.warning(
                    "readiness changed",
                    is_ready=report.is_ready,
                    **{name: reason for name, reason in report.reasons.items() if reason},
                )
            self._last = (self._clock(), report)
            return report
        finally:
            self._running = None


async def _reason(check: Check) -> str | None:
    try:
        async with asyncio.timeout(_PATIENCE):
            return await check()
    except TimeoutError:
        return f"no answer in {_PATIENCE:g} s"
    except Exception as error:
        log.error("a check of readiness failed", exc_info=error)
        return "it could not be checked"


@dataclass(frozen=True, slots=True)
class AdminPage:
    """An answer of the admin listener."""

    body: bytes
    media_type: bytes = TEXT
    status: int = 200


class AdminApi:
    """The admin listener as an ASGI application: *pages* by path."""

    def __init__(self, pages: Mapping[str, Callable[[], Awaitable[AdminPage]]]) -> None:
        self._pages = pages

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        page = self._pages.get(scope["path"])
        if scope["method"] not in ("GET", "HEAD"):
            await _send(
                send, AdminPage(b"Only GET and HEAD.\n", status=405), (b"allow", b"GET, HEAD")
            )
        elif page is None:
            await _send(
                send, AdminPage(f"There are {', '.join(self._pages)}.\n".encode(), status=404)
            )
        else:
            await _send(send, await page())


async def _send(send: Any, page: AdminPage, *more: tuple[bytes, bytes]) -> None:
    length = (b"content-length", b"%d" % len(page.body))
    headers = [(b"content-type", page.media_type), *_EVERY, length, *more]
    await send({"type": "http.response.start", "status": page.status, "headers": headers})
    await send({"type": "http.response.body", "body": page.body})


@asynccontextmanager
async def served(api: AdminApi, listener: socket | None) -> AsyncIterator[None]:
    """The admin listener, open from before the service itself takes requests until it has ended.

    Without a *listener* there is none."""
    if listener is None:
        yield
        return
    server = make_server(api, _LIMITS)
    server.owns_signals = False
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="admin listener")
    try:
        yield
    finally:
        server.should_exit = True
        await serving
