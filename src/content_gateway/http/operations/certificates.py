"""May a proxy get a certificate for this domain? What Caddy asks before it does (`on_demand_tls`).

Says yes for a host of `gateway.hosts` whose name has content at this moment, and no to everything
else: a name that is not ours, not normalised (ENSIP-15), that is blocked, that has nothing to show,
and one of which that could not be found out in time. Whoever opens a connection chooses what is
asked here, so that only so many look-ups are begun at once, and in a minute."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from content_gateway.concurrency.sliding_window import SlidingWindow
from content_gateway.errors import GatewayError
from content_gateway.http.gateway_hosts import GatewayHosts
from content_gateway.http.kinds import NO_CERTIFICATE
from content_gateway.http.messages import JSON, Handler, Handlers, Request, Response, length_of
from content_gateway.http.problems import HttpRefusal
from content_gateway.http.query import parse_query
from content_gateway.model.domain import DomainName
from content_gateway.names.content import ContentNames

_YES: Final = b'{"message":"This domain shows content here."}'
# All who ask share one place in what names cost: whom a handshake is from is not known here.
_REQUESTOR: Final = "certificates"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AskPolicy:
    """At most *at_once* are answered at the same time, each for *seconds* at most; of those that
    are not known already, *per_minute* in any 60 seconds."""

    at_once: int = 16
    per_minute: int = 600
    seconds: float = 5.0


class CertificateHandlers:
    """Answers for the hosts in *hosts*, by what *names* show."""

    def __init__(
        self,
        hosts: GatewayHosts,
        names: ContentNames,
        *,
        policy: AskPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hosts = hosts
        self._names = names
        self._policy = policy or AskPolicy()
        self._clock = clock
        self._window = SlidingWindow(self._policy.per_minute, 60)
        self._under_way = 0

    @property
    def by_id(self) -> Handlers:
        """Handler by operationId; there is nothing to ask where there are no such hosts."""
        return {"askForCertificate": Handler(self.ask, None) if self._hosts else None}

    async def ask(self, request: Request) -> Response:
        """200 for yes; raises HttpRefusal (404) for no, whatever the reason."""
        try:
            domain = parse_query(request.query, ("domain",)).get("domain", "")
            await self._check(domain)
        except GatewayError as no:
            log.info("no certificate", reason=no.detail)
            raise HttpRefusal(NO_CERTIFICATE) from no
        return Response(_YES, [JSON, (b"cache-control", b"no-store"), length_of(_YES)])

    async def _check(self, domain: str) -> None:
        """Raise HttpRefusal or GatewayError unless the host *domain* shows content now."""
        shown = self._hosts.name_in(domain)
        if shown is None or self._under_way >= self._policy.at_once:
            raise HttpRefusal(NO_CERTIFICATE)
        self._under_way += 1
        try:
            async with asyncio.timeout(self._policy.seconds):
                name = await asyncio.to_thread(DomainName.parse, shown)
                if name.text != shown:  # one certificate is enough, and spellings are many
                    raise HttpRefusal(NO_CERTIFICATE)
                if not self._names.is_fresh(name) and not self._window.take(self._clock()):
                    log.warning("certificates were asked for too often", limit=self._window.limit)
                    raise HttpRefusal(NO_CERTIFICATE)
                found = await self._names.find(name, requestor=_REQUESTOR)
                if found.is_stale:  # it was so some minutes ago: the name is looked at once more
                    again = self._names.find(name, force_refresh=True, requestor=_REQUESTOR)
                    found = await again
                if found.is_stale:
                    raise HttpRefusal(NO_CERTIFICATE)
        except TimeoutError as late:
            raise HttpRefusal(NO_CERTIFICATE) from late
        finally:
            self._under_way -= 1
