"""The routes: from a request to the handler of its operation, and back to an answer.

A request passes here in one direction: route, key, body, handler, answer; whatever goes wrong
on the way becomes a problem in one place. Which operations there are is said by the contract,
what they answer by handlers.py."""

from collections.abc import Iterable, Mapping
from typing import cast

import structlog
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from content_gateway.api.auth import Keys, admit
from content_gateway.api.contract import Operation
from content_gateway.api.handlers import Call, Handler
from content_gateway.api.problems import (
    INTERNAL,
    UNKNOWN_PATH,
    WRONG_METHOD,
    Headers,
    Kind,
    body_of,
    headers_of,
    kind_of,
)
from content_gateway.api.server import ENCODED_SLASH, UNREAD_BODY
from content_gateway.errors import (
    KeyRefused,
    OwnFault,
    UnexpectedBody,
    UpstreamError,
    WrongSettings,
)
from content_gateway.telemetry import request_ids

log = structlog.get_logger(__name__)


class UnknownPath(Exception):
    """No operation has this path."""


class WrongMethod(Exception):
    """The path takes other methods; its text is the value of Allow."""


class _Endpoint:
    """One operation as an ASGI application: key first, then the body, then the handler."""

    def __init__(self, operation: Operation, handler: Handler, keys: Keys) -> None:
        self._scope = operation.scope
        self._handler = handler
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope["headers"]
        admitted = None if self._scope is None else admit(self._keys, headers, self._scope)
        if UNREAD_BODY in scope.get("extensions", ()):
            raise UnexpectedBody
        argument = next(iter(scope["path_params"].values()), "")
        query = scope["query_string"]
        call = Call(argument.replace(ENCODED_SLASH, "/"), query, headers, admitted)
        reply = await self._handler.answer(call)
        await _send(send, reply.status, reply.headers, reply.body, scope["request_id"])


class Api:
    """The whole service as an ASGI application."""

    def __init__(
        self, operations: Iterable[Operation], handlers: Mapping[str, Handler], keys: Keys
    ) -> None:
        """Raises WrongSettings unless operations and handlers match one to one."""
        operations = list(operations)
        if problems := _mismatch(operations, handlers):
            raise WrongSettings("\n".join(problems))
        routes = []
        # The router tries one route after the other; those with a parameter are the busy ones.
        for operation in sorted(operations, key=lambda operation: "{" not in operation.path):
            endpoint = _Endpoint(operation, handlers[operation.id], keys)
            route = Route(operation.path, endpoint, methods=[operation.method])
            # An operation exists only if the contract describes it; Starlette adds HEAD.
            route.methods = {operation.method}
            routes.append(route)
        self._routes = routes
        self._request_ids = request_ids()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; nothing raised below goes further than here."""
        request_id = next(self._request_ids)
        scope["request_id"] = request_id
        try:
            await self._endpoint(scope)(scope, receive, send)
        except Exception as error:
            kind, detail, extra = _problem(error, request_id)
            body = body_of(kind, detail, request_id)
            await _send(send, kind.status, headers_of(kind, request_id) + extra, body, None)

    def _endpoint(self, scope: Scope) -> ASGIApp:
        """The operation that *scope* asks for, its path parameter put into *scope*.

        Raises UnknownPath, or WrongMethod with the methods that the path takes."""
        allowed: set[str] = set()
        for route in self._routes:
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                return cast(ASGIApp, route.endpoint)
            if match is Match.PARTIAL:
                allowed |= route.methods or set()
        if allowed:
            raise WrongMethod(", ".join(sorted(allowed)))
        raise UnknownPath


def _mismatch(operations: list[Operation], handlers: Mapping[str, Handler]) -> list[str]:
    described = [operation.id for operation in operations]
    unlike = {
        operation.id
        for operation in operations
        if operation.id in handlers and operation.scope != handlers[operation.id].scope
    }
    doubled = {name for name in described if described.count(name) > 1}
    return [
        *(f"spec_file: {name} is described twice" for name in sorted(doubled)),
        *(f"spec_file: {name} is given another x-scope or security" for name in sorted(unlike)),
        *(f"spec_file: {name} has no handler" for name in sorted(set(described) - set(handlers))),
        *(f"spec_file: {name} is missing" for name in sorted(set(handlers) - set(described))),
    ]


def _problem(error: Exception, request_id: str) -> tuple[Kind, str, Headers]:
    """Kind, detail and extra header fields of *error*; logs what an operator should see."""
    if isinstance(error, WrongMethod):
        return WRONG_METHOD, WRONG_METHOD.detail, [(b"allow", str(error).encode())]
    if isinstance(error, UnknownPath):
        return UNKNOWN_PATH, UNKNOWN_PATH.detail, []
    kind, detail = kind_of(error)
    if isinstance(error, KeyRefused):
        log.info("key refused", reason=error.detail, request_id=request_id)
    elif isinstance(error, UpstreamError):
        log.warning("upstream failed", reason=error.detail, request_id=request_id)
    elif isinstance(error, OwnFault):
        log.error(
            "our fault", reason=error.detail, cause=repr(error.__cause__), request_id=request_id
        )
    elif kind is INTERNAL:
        log.error("unhandled error", request_id=request_id, exc_info=error)
    return kind, detail, []


async def _send(
    send: Send, status: int, headers: Headers, body: bytes, request_id: str | None
) -> None:
    lines = [*headers]
    if status != 304:  # its length would be that of the body it does not have (RFC 9110, 8.6)
        lines.append((b"content-length", str(len(body)).encode()))
    if request_id is not None:
        lines.append((b"x-request-id", request_id.encode()))
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
