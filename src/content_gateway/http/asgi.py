"""The ASGI application: routes a request to the handler of its operation, and sends the answer.

Each request takes the same steps: route, credential, body, handler, answer. Every error on the
way becomes a problem (RFC 9457), or below /psa an error of the Pinning Service API, in one place.
The operations come from the description (spec.yaml), the answers from the handlers."""

from collections.abc import Callable, Collection, Iterable, MutableMapping
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
from content_gateway.http.auth import (
    CREDENTIAL_SOURCES,
    KeyVerifier,
    authenticate,
    require_scope,
)
from content_gateway.http.bodies import SECONDS, Receive, pass_over_empty, read_body
from content_gateway.http.cors import Cors
from content_gateway.http.header_block import block_of, fields_of
from content_gateway.http.key_limits import KeyLimits
from content_gateway.http.kinds import INTERNAL, UNKNOWN_PATH, WRONG_METHOD, Kind
from content_gateway.http.messages import (
    LARGE_BODY,
    Answer,
    Handler,
    Handlers,
    Request,
    Response,
    ResponseStream,
    address_of,
    in_one,
    length_of,
    network_of,
)
from content_gateway.http.openapi import Operation
from content_gateway.http.operations import psa_errors
from content_gateway.http.overload import Refusals
from content_gateway.http.problems import Headers, HttpRefusal
from content_gateway.http.protocol import ANSWER, ENCODED_SLASH, SENT_BODY
from content_gateway.http.request_turns import RequestTurns
from content_gateway.http.streams import Send, large_answers, send_stream
from content_gateway.http.traffic import Exchange, RouteTraffic, Traffic
from content_gateway.telemetry.request_ids import request_ids, sent_request_id

# ASGI 3.0, as asgi.readthedocs.io has it.
Scope = MutableMapping[str, Any]

# In the table of routes, stands for a last segment that is a parameter.
_PARAMETER: Final = "/{}"
_NO_STATE: Final[dict[str, Any]] = {}
# What a good key may not do, or not now; of 401 the keys themselves know whose key it was.
_REFUSED: Final = frozenset({403, 409, 429, 451})

log = structlog.get_logger(__name__)


class _Route:
    """One operation: checks the credential, reads the body and calls the handler."""

    def __init__(
        self,
        operation: Operation,
        handler: Handler,
        keys: KeyVerifier,
        body_seconds: float,
        *,
        traffic: RouteTraffic,
        answers: FairSemaphore,
        turns: RequestTurns,
        refusals: Refusals,
        limits: KeyLimits,
    ) -> None:
        self.traffic = traffic
        self._id = operation.id
        self._scope = operation.scope
        self._source = CREDENTIAL_SOURCES[operation.scheme] if operation.scheme else None
        self._takes_body = operation.takes_body
        self._handler = handler
        self._keys = keys
        self._body_seconds = body_seconds
        self._answers = answers
        self._turns = turns
        self._refusals = refusals
        self._limits = limits

    async def answer(
        self, scope: Scope, exchange: Exchange, argument: str, receive: Receive
    ) -> Answer:
        """The answer to the request in *scope*; *argument* is its path parameter.

        Raises what the handler raises, and KeyRefused, ScopeMissing, HttpRefusal, Overloaded."""
        headers, body, principal = scope["headers"], b"", None
        if self._scope is not None and self._source is not None:
            try:
                principal = authenticate(self._keys, headers, self._source)
            except KeyRefused:
                await _await_turn(self._turns, scope)
                raise
            exchange.requestor = principal.requestor
            charged = principal.requestor.id
            require_scope(principal.requestor, self._scope)
        else:
            charged = network_of(address_of(scope))
        try:
            if not self._turns.try_begin(charged):  # mostly it may, and no coroutine is needed
                await self._turns.wait(charged)
            if principal is not None:
                exchange.use = self._limits.admit(principal.requestor, self._id, exchange.begun)
        except (Overloaded, HttpRefusal):
            await self._refusals.wait(charged)
            raise
        if SENT_BODY in scope.get("extensions", ()):
            if self._takes_body:
                body = await read_body(scope, receive, seconds=self._body_seconds)
            else:
                await pass_over_empty(scope, receive, seconds=self._body_seconds)
        if ENCODED_SLASH in argument:
            argument = argument.replace(ENCODED_SLASH, "/")
        request = Request(argument, scope["query_string"], headers, principal, body, charged)
        try:
            answer = await self._handler.answer(request)
        except Overloaded:
            await self._refusals.wait(charged)
            raise
        if isinstance(answer, Response) and len(answer.body) > LARGE_BODY:
            permit = self._answers.request(request.charged)
            await permit.granted()
            return ResponseStream(
                in_one(answer.body), answer.headers, answer.status, permit.release
            )
        return answer


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
        refused: Callable[[str, str], None] = lambda requestor, code: None,
    ) -> None:
        """*answers* limits how many large answers are sent at the same time. *refused* is told of
        each requestor that was refused something, and with which code.

        Raises WrongSettings unless operations and handlers match one to one."""
        answers = answers or large_answers()
        operations = list(operations)
        if wrong := _mismatch(operations, handlers):
            raise WrongSettings("\n".join(wrong))
        self._cors = cors or Cors()
        self.traffic = traffic or Traffic()
        self.limits = limits or KeyLimits()
        self._turns = turns = turns or RequestTurns()
        refusals = Refusals()
        self._table: dict[str, dict[str, _Route]] = {}
        for operation in operations:
            handler = handlers[operation.id]
            if handler is not None:
                route = _Route(
                    operation,
                    handler,
                    keys,
                    body_seconds,
                    traffic=self.traffic.route(operation.path),
                    answers=answers,
                    turns=turns,
                    refusals=refusals,
                    limits=self.limits,
                )
                self._table.setdefault(_key(operation.path), {})[operation.method] = route
        self._every_method = set[str]().union(*self._table.values())
        self._request_ids = request_ids()
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Every exception becomes an answer here; none is raised."""
        headers, path, status = scope["headers"], scope["path"], 0
        exchange = self.traffic.begin(sent_request_id(headers) or next(self._request_ids), headers)
        # The lines of the fields that are added to those of the answer.
        shared = b"x-request-id: %b\r\n" % exchange.request_id.encode()
        if self._cors.is_on:
            shared += self._cors.block(headers)
        try:
            try:
                if scope["method"] == "OPTIONS":
                    found = self._options(scope)
                    await _await_turn(self._turns, scope)
                    await _send(scope, send, 204, block_of(found) + shared, b"")
                    status = 204
                    return
                route, argument = self._find(path, scope["method"])
            except HttpRefusal:
                await _await_turn(self._turns, scope)
                raise
            exchange.route = route.traffic
            response = await route.answer(scope, exchange, argument, receive)
            if exchange.use is not None:
                shared += exchange.use.lines(exchange.begun)
            status = response.status
            if isinstance(response, ResponseStream):
                await send_stream(
                    response, shared, scope, receive, send, request_id=exchange.request_id
                )
                return
            block = response.block or block_of(response.headers)
            await _send(scope, send, status, block + shared, response.body)
        except Exception as error:
            kind, detail, extra = _problem(error, exchange.request_id)
            if kind.status in _REFUSED and exchange.requestor is not None:
                self._refused(exchange.requestor.id, kind.code)
            self.traffic.problems[kind.code] += 1
            if exchange.use is not None:
                shared += exchange.use.lines(exchange.begun)
            if psa_errors.is_below(path):
                body = psa_errors.body_of(kind, detail)
                fields = psa_errors.headers_of(kind)
            else:
                body = problems.body_of(kind, detail, exchange.request_id)
                fields = problems.headers_of(kind)
            status = kind.status
            block = block_of([*fields, *extra, length_of(body)])
            await _send(scope, send, status, block + shared, body)
        finally:
            self.traffic.end(exchange, scope["method"], status)

    def _find(self, path: str, method: str) -> tuple[_Route, str]:
        """The route of *path*, and the path's last segment, which is its parameter if it has one.

        Raises HttpRefusal: 404 for an unknown path, 405 for a method the path does not have."""
        found, argument = self._at(path)
        route = found.get(method)
        if route is None and method == "HEAD":
            route = found.get("GET")  # the server sends no body (RFC 9110 section 9.3.2)
        if route is None:
            raise HttpRefusal(WRONG_METHOD, (b"allow", _methods(found)))
        return route, argument

    def _at(self, path: str) -> "tuple[dict[str, _Route], str]":
        """The routes of *path* by method, and its parameter; raises HttpRefusal for 404."""
        beginning, _, argument = path.rpartition("/")
        found = self._table.get(path) or (argument and self._table.get(beginning + _PARAMETER))
        if not found:
            raise HttpRefusal(UNKNOWN_PATH)
        return found, argument

    def _options(self, scope: Scope) -> Headers:
        """The fields of the answer to OPTIONS, which needs no key (RFC 9110 section 9.3.7).

        Raises HttpRefusal for an unknown path, and UnexpectedBody."""
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
        return [(b"allow", methods), *permission]


def _methods(routes: Collection[str]) -> bytes:
    """The value of Allow for a path with these *routes*, by method."""
    named = {*routes, "OPTIONS", *(["HEAD"] if "GET" in routes else [])}
    return ", ".join(sorted(named)).encode()


async def _await_turn(turns: RequestTurns, scope: Scope) -> None:
    """Wait for the turn of a request that has no requestor yet: it is charged to its address."""
    network = network_of(address_of(scope))
    if not turns.try_begin(network):
        await turns.wait(network)


def _key(path: str) -> str:
    """The key of a *path* in the table of routes; WrongSettings if more than its end is a
    parameter."""
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
            scheme and scheme not in CREDENTIAL_SOURCES
        ):
            unlike.add(operation.id)
    return sorted(unlike)


def _problem(error: Exception, request_id: str) -> tuple[Kind, str, Headers]:
    """Kind, detail and extra header fields of *error*, which is logged if operators need it."""
    kind, detail = problems.kind_of(error)
    if isinstance(error, HttpRefusal):
        return kind, detail, list(error.more)
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
    return kind, detail, []


async def _send(scope: Scope, send: Send, status: int, block: bytes, body: bytes) -> None:
    # Our protocol sends an answer in one call; under another server (tests) ASGI's two are used.
    answer = scope.get("state", _NO_STATE).get(ANSWER)
    if answer is not None and answer(status, block, body):
        return
    fields = fields_of(block)
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
