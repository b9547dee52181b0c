"""The ASGI application: finds the route of a request, and sends its answer.

Every error on the way becomes a problem (RFC 9457), or below /psa an error of the Pinning Service
API, in one place, where floods of refusals are paced too. The operations come from the description
(spec.yaml), their answers from route.py and the handlers."""

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Final

import structlog

from content_gateway.concurrency.fair_semaphore import FairSemaphore
from content_gateway.errors import (
    Blocked,
    KeyRefused,
    Overloaded,
    OwnFault,
    UnexpectedBody,
    UpstreamError,
    WrongSettings,
)
from content_gateway.http import problems
from content_gateway.http.asgi_extensions import ANSWER, CONNECTION, SENT_BODY
from content_gateway.http.auth import CREDENTIAL_SOURCES, KEY_IN_PATH, KeyVerifier
from content_gateway.http.bodies import SECONDS, Receive
from content_gateway.http.cors import Cors
from content_gateway.http.header_block import block_of, fields_of
from content_gateway.http.key_limits import KeyLimits
from content_gateway.http.kinds import (
    INTERNAL,
    OVERLOADED,
    QUOTA_EXCEEDED,
    RATE_LIMITED,
    TOO_MANY_AT_ONCE,
    UNKNOWN_PATH,
    WRONG_METHOD,
    Kind,
)
from content_gateway.http.messages import (
    Answer,
    Handlers,
    Response,
    ResponseStream,
    address_of,
    length_of,
    network_of,
)
from content_gateway.http.openapi import Operation
from content_gateway.http.operations import psa_errors
from content_gateway.http.overload import Refusals
from content_gateway.http.problems import HttpRefusal
from content_gateway.http.request_turns import RequestTurns
from content_gateway.http.route import Admission, Route, Scope
from content_gateway.http.site_route import PROBLEM_FIELDS, SiteRoute
from content_gateway.http.streams import Send, large_answers, send_stream
from content_gateway.http.traffic import Exchange, RouteTraffic, Traffic
from content_gateway.http.trusted_proxies import TrustedProxies
from content_gateway.telemetry.request_ids import request_ids, sent_request_id

# In the table of routes, stands for a last segment that is a parameter.
_PARAMETER: Final = "/{}"
# And for two: the last of them is a path of any length.
_PATH: Final = "/{}/{}"
_NO_STATE: Final[dict[str, Any]] = {}
# What a good key may not do, or not now; of 401 the keys themselves know whose key it was.
_REFUSED: Final = frozenset({403, 409, 429, 451})
# Of these a client may have as many as it can send requests for: it does not wait for anything.
_PACED: Final = frozenset({RATE_LIMITED, QUOTA_EXCEEDED, TOO_MANY_AT_ONCE, OVERLOADED})

log = structlog.get_logger(__name__)


class Api:
    """The whole service as an ASGI application."""

    def __init__(
        self,
        operations: Iterable[Operation],
        handlers: Handlers,
        keys: KeyVerifier,
        *,
        body_seconds: float = SECONDS,
        answers: FairSemaphore | None = None,
        cors: Cors | None = None,
        traffic: Traffic | None = None,
        limits: KeyLimits | None = None,
        turns: RequestTurns | None = None,
        proxies: TrustedProxies | None = None,
        sites: SiteRoute | None = None,
        refused: Callable[[str, str], None] = lambda requestor, code: None,
    ) -> None:
        """*answers* limits how many large answers are sent at the same time. *sites* answers what
        is for hosts of its own. *refused* is told of each requestor that was refused something, and
        with which code.

        Raises WrongSettings unless operations and handlers match one to one."""
        answers = answers or large_answers()
        operations = list(operations)
        if wrong := _mismatch(operations, handlers):
            raise WrongSettings("\n".join(wrong))
        self._cors = cors or Cors()
        self.traffic = traffic or Traffic()
        self.limits = limits or KeyLimits()
        self._admission = Admission(turns or RequestTurns(), self.limits)
        self._refusals = Refusals()
        self._proxies = proxies or TrustedProxies()
        self._table: dict[str, dict[str, Route]] = {}
        for operation in operations:
            handler = handlers[operation.id]
            if handler is not None:
                route = Route(
                    operation,
                    handler,
                    keys,
                    body_seconds,
                    traffic=self.traffic.route(operation.path),
                    answers=answers,
                    admission=self._admission,
                )
                self._table.setdefault(_key(operation.path), {})[operation.method] = route
        self._paths = {
            key.removesuffix("{}/{}"): routes
            for key, routes in self._table.items()
            if key.endswith(_PATH)
        }
        self._every_method = set[str]().union(*self._table.values())
        self._sites = sites
        if sites is not None:
            sites.join(self.traffic.route(sites.traffic.route), self._admission)
        self._request_ids = request_ids()
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Every exception becomes an answer here; none is raised."""
        headers, status = scope["headers"], 0
        if self._proxies:
            scope["client"] = self._proxies.client_of(address_of(scope), headers), 0
        exchange = self.traffic.begin(sent_request_id(headers) or next(self._request_ids), headers)
        # The lines of the fields that are added to those of the answer.
        shared = b"x-request-id: %b\r\n" % exchange.request_id.encode()
        shown = None if self._sites is None else self._sites.hosts.shown_by(headers)
        if self._cors.is_on and shown is None:
            shared += self._cors.block(headers)
        try:
            try:
                route: Route | SiteRoute | _Aside
                if self._sites is not None and shown is not None:
                    route, argument = self._sites, shown
                else:
                    route, argument = self._find(scope["path"], scope["method"])
                exchange.route = route.traffic
                response = await route.answer(scope, exchange, argument, receive)
                if isinstance(response, ResponseStream):
                    lines, request_id = shared + _left(exchange), exchange.request_id
                    if await send_stream(
                        response, lines, scope, receive, send, request_id=request_id
                    ):
                        status = response.status
                    return
                block = response.block or block_of(response.headers)
            except Exception as error:
                response = await self._problem(scope, exchange, error)
                block = block_of(response.headers)
            block += shared + _left(exchange)
            # Our protocol sends an answer in one call; under another server (tests), or while the
            # client's buffer is full, ASGI's two are used.
            state = scope.get("state", _NO_STATE)
            at_once = state.get(ANSWER)
            if at_once is not None and at_once(response.status, block, response.body):
                status = response.status
                return
            start = {"type": "http.response.start", "status": response.status}
            with exchange.holding():
                await send(start | {"headers": fields_of(block)})
                await send({"type": "http.response.body", "body": response.body})
            connection = state.get(CONNECTION)
            if connection is None or not connection.is_closing():
                status = response.status
        finally:
            self.traffic.end(exchange, scope["method"], status)

    async def _problem(self, scope: Scope, exchange: Exchange, error: Exception) -> Response:
        """The answer that tells *error*, once it may be sent, in the form of the face that the path
        belongs to; on hosts of sites all paths are theirs."""
        path, requestor = scope["path"], exchange.requestor
        is_site = self._sites is not None and exchange.route is self._sites.traffic
        kind, detail = problems.kind_of(error)
        if kind in _PACED:
            charged = requestor.id if requestor else network_of(address_of(scope))
            with exchange.holding():
                await self._refusals.wait(charged)
        _tell(error, kind, exchange.request_id)
        extra = error.more if isinstance(error, HttpRefusal) else ()
        if requestor is not None:
            if kind.status in _REFUSED:
                self._refused(requestor.id, kind.code)
            elif isinstance(error, KeyRefused):  # revoked while this was under way
                self._refused(requestor.id, f"key-{error.detail}")
        self.traffic.problems[kind.code] += 1
        if psa_errors.is_below(path) and not is_site:
            body = psa_errors.body_of(kind, detail)
            fields = psa_errors.headers_of(kind)
        else:
            body = problems.body_of(kind, detail, exchange.request_id)
            fields = [*problems.headers_of(kind), *(PROBLEM_FIELDS if is_site else ())]
        return Response(body, [*fields, *extra, length_of(body)], kind.status)

    def _find(self, path: str, method: str) -> "tuple[Route | _Aside, str]":
        """What answers *method* at *path*, and the path's last segment, which is its parameter if
        it has one: 404 for an unknown path, 405 for a method the path does not have."""
        if method == "OPTIONS":
            return _Aside(self.traffic.unknown, self._options), ""
        try:
            found, argument = self._at(path)
        except HttpRefusal as refusal:
            return self._refusing(refusal), ""
        route = found.get(method)
        if route is None and method == "HEAD":
            route = found.get("GET")  # the server sends no body (RFC 9110 section 9.3.2)
        if route is None:
            return self._refusing(HttpRefusal(WRONG_METHOD, (b"allow", _methods(found)))), ""
        return route, argument

    def _refusing(self, refusal: HttpRefusal) -> "_Aside":
        async def refuse(scope: Scope) -> Response:
            await self._admission.wait_by_address(scope)
            raise refusal

        return _Aside(self.traffic.unknown, refuse)

    def _at(self, path: str) -> "tuple[dict[str, Route], str]":
        """The routes of *path* by method, and its parameter; raises HttpRefusal for 404."""
        beginning, _, argument = path.rpartition("/")
        found = self._table.get(path) or (argument and self._table.get(beginning + _PARAMETER))
        if found:
            return found, argument
        for prefix, routes in self._paths.items():
            if path.startswith(prefix) and path != prefix:
                return routes, path.removeprefix(prefix)
        raise HttpRefusal(UNKNOWN_PATH)

    async def _options(self, scope: Scope) -> Response:
        """The answer to OPTIONS, which needs no key (RFC 9110 section 9.3.7).

        Raises HttpRefusal for an unknown path, and UnexpectedBody."""
        await self._admission.wait_by_address(scope)
        if SENT_BODY in scope.get("extensions", ()):
            raise UnexpectedBody
        path, headers = scope["path"], scope["headers"]
        is_preflight = self._cors.is_preflight(headers)
        try:
            routes: Collection[str] = self._every_method if path == "*" else self._at(path)[0]
        except HttpRefusal:
            # A page reads nothing behind a preflight that was refused, so that the request itself
            # is told what is wrong with its path (fetch.spec.whatwg.org, CORS-preflight fetch).
            if not is_preflight:
                raise
            routes = self._every_method
        methods = _methods(routes)
        permission = self._cors.permission(methods) if is_preflight else []
        return Response(b"", [(b"allow", methods), *permission], 204)


class _Aside:
    """What answers a request that is for no operation; counted as *traffic*."""

    def __init__(
        self, traffic: RouteTraffic, respond: Callable[[Scope], Awaitable[Response]]
    ) -> None:
        self.traffic = traffic
        self._respond = respond

    async def answer(self, scope: Scope, exchange: Exchange, argument: str, _: Receive) -> Answer:
        """As `Route.answer`."""
        return await self._respond(scope)


def _left(exchange: Exchange) -> bytes:
    """The lines that tell what is left of a key's limits, if it has any."""
    return b"" if exchange.use is None else exchange.use.lines(exchange.begun)


def _methods(routes: Collection[str]) -> bytes:
    """The value of Allow for a path with these *routes*, by method."""
    named = {*routes, "OPTIONS", *(["HEAD"] if "GET" in routes else [])}
    return ", ".join(sorted(named)).encode()


def _key(path: str) -> str:
    """The key of a *path* in the table of routes; WrongSettings if more than its end is a
    parameter."""
    if path.endswith("/{path}") and path.count("{") == 2:
        return path[: path.index("/{")] + _PATH
    beginning, _, last = path.rpartition("/")
    if "{" in beginning or ("{" in last and not (last[0] == "{" and last[-1] == "}")):
        raise WrongSettings(f"spec_file: {path}: only the last segment can be a parameter")
    return beginning + _PARAMETER if "{" in last else path


def _mismatch(operations: list[Operation], handlers: Handlers) -> list[str]:
    """What differs between the described *operations* and *handlers*, a line for each."""
    described = [operation.id for operation in operations]
    doubled = {name for name in described if described.count(name) > 1}
    return [
        *(f"spec_file: {name} is described twice" for name in sorted(doubled)),
        *(
            f"spec_file: {name} is given another x-scope or security"
            for name in _unlike(operations, handlers)
        ),
        *(f"spec_file: {name} has no handler" for name in sorted(set(described) - set(handlers))),
        *(f"spec_file: {name} is missing" for name in sorted(set(handlers) - set(described))),
    ]


def _unlike(operations: list[Operation], handlers: Handlers) -> list[str]:
    """The operations whose scope or security differs between description and handler."""
    unlike = set()
    for operation in operations:
        handler = handlers.get(operation.id)
        scheme = operation.scheme
        if (handler and operation.scope != handler.scope) or (
            scheme and scheme not in CREDENTIAL_SOURCES and scheme != KEY_IN_PATH
        ):
            unlike.add(operation.id)
    return sorted(unlike)


def _tell(error: Exception, kind: Kind, request_id: str) -> None:
    """Log *error*, which is of that *kind*, if operators need it."""
    if isinstance(error, KeyRefused):
        log.info("key refused", reason=error.detail, request_id=request_id)
    elif isinstance(error, Blocked):
        log.info("blocked", reason=error.detail, request_id=request_id)
    elif isinstance(error, UpstreamError):
        log.warning("upstream failed", reason=error.detail, request_id=request_id)
    elif isinstance(error, Overloaded):
        log.warning("overloaded", reason=error.detail, request_id=request_id)
    elif isinstance(error, OwnFault):
        log.error(
            "our fault", reason=error.detail, cause=repr(error.__cause__), request_id=request_id
        )
    elif kind is INTERNAL:
        log.error("unhandled error", request_id=request_id, exc_info=error)
