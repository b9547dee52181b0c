"""Requests on hosts of names: each is for a file of a site, whatever its path, and needs no key.

Nothing of the API is there, so that no page of a site stands beside it: not the console, not the
description. The steps before the handler are those of route.py, charged to the address."""

from typing import Final

from content_gateway.errors import UnexpectedBody
from content_gateway.http.asgi_extensions import ENCODED_SLASH, SENT_BODY
from content_gateway.http.bodies import Receive
from content_gateway.http.gateway_hosts import GatewayHosts
from content_gateway.http.kinds import WRONG_METHOD
from content_gateway.http.messages import Answer, Request, Response, address_of, network_of
from content_gateway.http.operations.domain_content import ContentHandlers
from content_gateway.http.problems import HttpRefusal
from content_gateway.http.route import Admission, Scope
from content_gateway.http.traffic import Exchange, RouteTraffic

ROUTE: Final = "site"  # in metrics and in the access log
# What a page of another origin may read of a refusal.
PROBLEM_FIELDS: Final = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"Retry-After, X-Request-Id"),
)
_METHODS: Final = b"GET, HEAD, OPTIONS"
_PREFLIGHT: Final = [
    (b"allow", _METHODS),
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", _METHODS),
    (b"access-control-allow-headers", b"Range, If-None-Match, If-Range, Cache-Control"),
    (b"access-control-max-age", b"86400"),
]


class SiteRoute:
    """Answers all requests on *hosts* by *content*; *traffic* counts them."""

    def __init__(self, hosts: GatewayHosts, content: ContentHandlers) -> None:
        self.hosts = hosts
        self._content = content
        self._admission: Admission | None = None
        self.traffic = RouteTraffic(ROUTE)

    def join(self, traffic: RouteTraffic, admission: Admission) -> None:
        """Take turns by *admission* from now on, counted in *traffic*."""
        self.traffic, self._admission = traffic, admission

    async def answer(
        self, scope: Scope, exchange: Exchange, argument: str, receive: Receive
    ) -> Answer:
        """As `Route.answer`; *argument* is the text of the name."""
        if self._admission is not None:
            await self._admission.wait_by_address(scope)
        if SENT_BODY in scope.get("extensions", ()):
            raise UnexpectedBody
        method, path = scope["method"], scope["path"].replace(ENCODED_SLASH, "/")
        if method == "OPTIONS":
            return Response(b"", [*_PREFLIGHT], 204)
        request = Request(
            argument + (path if path[:1] == "/" else "/"),
            scope["query_string"],
            scope["headers"],
            None,
            b"",
            network_of(address_of(scope)),
        )
        if method == "HEAD":
            return await self._content.head_site(request)
        if method == "GET":
            return await self._content.get_site(request)
        raise HttpRefusal(WRONG_METHOD, (b"allow", _METHODS))
