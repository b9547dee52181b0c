"""The routes: from a request to the handler of its operation, and back to an answer.

A request passes here in one direction: route, key, body, handler, answer; whatever goes wrong
on the way becomes a problem in one place. Which operations there are is said by the contract,
what they answer by handlers.py."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final

import structlog

from content_gateway.api.answers import Reply, length_of
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
    Blocked,
    KeyRefused,
    OwnFault,
    UnexpectedBody,
    UpstreamError,
    WrongSettings,
)
from content_gateway.telemetry import request_ids

# ASGI 3.0, as asgi.readthedocs.io has it.
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

# How the table names a last segment that is a parameter; no path can contain it.
_PARAMETER: Final = "/{}"

log = structlog.get_logger(__name__)


class UnknownPath(Exception):
    """No operation has this path."""


class WrongMethod(Exception):
    """The path takes other methods; its text is the value of Allow."""


class _Endpoint:
    """One operation as it is asked: key first, then the body, then the handler."""

    def __init__(self, operation: Operation, handler: Handler, keys: Keys) -> None:
        self._scope = operation.scope
        self._handler = handler
        self._keys = keys

    async def answer(self, scope: Scope, argument: str) -> Reply:
        """The answer to the request in *scope*, whose path ends with *argument*."""
        headers = scope["headers"]
        admitted = None if self._scope is None else admit(self._keys, headers, self._scope)
        if UNREAD_BODY in scope.get("extensions", ()):
            raise UnexpectedBody
        if ENCODED_SLASH in argument:
            argument = argument.replace(ENCODED_SLASH, "/")
        return await self._handler.answer(Call(argument, scope["query_string"], headers, admitted))


class Api:
    """The whole service as an ASGI application."""

    def __init__(
        self, operations: Iterable[Operation], handlers: Mapping[str, Handler], keys: Keys
    ) -> None:
        """Raises WrongSettings unless operations and handlers match one to one."""
        operations = list(operations)
        if problems := _mismatch(operations, handlers):
            raise WrongSettings("\n".join(problems))
        self._table: dict[str, dict[str, _Endpoint]] = {}
        for operation in operations:
            endpoint = _Endpoint(operation, handlers[operation.id], keys)
            self._table.setdefault(_key(operation.path), {})[operation.method] = endpoint
        self._request_ids = request_ids()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; nothing raised below goes further than here."""
        request_id = next(self._request_ids)
        try:
            endpoint, argument = self._find(scope["path"], scope["method"])
            reply = await endpoint.answer(scope, argument)
            headers = [*reply.headers, (b"x-request-id", request_id.encode())]
            await _send(send, reply.status, headers, reply.body)
        except Exception as error:
            kind, detail, extra = _problem(error, request_id)
            body = body_of(kind, detail, request_id)
            headers = [*headers_of(kind, request_id), *extra, length_of(body)]
            await _send(send, kind.status, headers, body)

    def _find(self, path: str, method: str) -> tuple[_Endpoint, str]:
        """The operation at *path*, and the path's last segment where that is its parameter.

        Raises UnknownPath, or WrongMethod with the methods that the path takes."""
        table = self._table
        beginning, _, argument = path.rpartition("/")
        found = table.get(path) or (argument and table.get(beginning + _PARAMETER))
        if not found:
            raise UnknownPath
        endpoint = found.get(method)
        if endpoint is None:
            raise WrongMethod(", ".join(sorted(found)))
        return endpoint, argument


def _key(path: str) -> str:
    """The templated *path* as the table has it; WrongSettings where a request cannot be matched
    to it by its last segment alone."""
    beginning, _, last = path.rpartition("/")
    if "{" in beginning or ("{" in last and not (last[0] == "{" and last[-1] == "}")):
        raise WrongSettings(f"spec_file: {path}: only the last segment can be a parameter")
    return beginning + _PARAMETER if "{" in last else path


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
    elif isinstance(error, Blocked):
        log.info("blocked", reason=error.detail, request_id=request_id)
    elif isinstance(error, UpstreamError):
        log.warning("upstream failed", reason=error.detail, request_id=request_id)
    elif isinstance(error, OwnFault):
        log.error(
            "our fault", reason=error.detail, cause=repr(error.__cause__), request_id=request_id
        )
    elif kind is INTERNAL:
        log.error("unhandled error", request_id=request_id, exc_info=error)
    return kind, detail, []


async def _send(send: Send, status: int, headers: Headers, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
