"""The operations: each `operationId` of the contract, its handler, and the way between.

A request passes here in one direction: route, key, body, handler, answer; whatever goes wrong
on the way becomes a problem in one place. Knows the fields of the answers (interface
specification section 2); what they say comes from the directory and the pinning."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from content_gateway.api.auth import Admitted, Keys, admit
from content_gateway.api.contract import Contract, Operation
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
from content_gateway.api.server import ENCODED_SLASH
from content_gateway.content.domain import DomainName
from content_gateway.content.pins import Pin
from content_gateway.content.records import IpfsContent, IpnsContent, OtherContent, Resolution
from content_gateway.errors import (
    KeyRefused,
    OwnFault,
    UnexpectedBody,
    UpstreamError,
    WrongSettings,
)
from content_gateway.names.directory import Directory
from content_gateway.pins.pinning import Pinning
from content_gateway.telemetry import request_ids

log = structlog.get_logger(__name__)

_JSON: Final = (b"content-type", b"application/json")
_NO_STORE: Final = (b"cache-control", b"no-store")
_REVALIDATE: Final = (b"cache-control", b"no-cache")

ALREADY_PINNED: Final = msgspec.json.encode(
    {"message": "A pin already exists for this CID and API key"}
)


@dataclass(frozen=True, slots=True)
class Call:
    """One request: its path parameter, its header fields, and who asks (None: no key needed)."""

    argument: str
    headers: Iterable[tuple[bytes, bytes]]
    admitted: Admitted | None


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, complete."""

    body: bytes
    headers: Headers = field(default_factory=lambda: [_JSON, _NO_STORE])
    status: int = 200


Handler = Callable[[Call], Awaitable[Reply]]


class Handlers:
    """The handlers of every operation; `by_id` is the table that the contract must match."""

    def __init__(self, contract: Contract, directory: Directory, pinning: Pinning) -> None:
        self._contract = contract
        self._directory = directory
        self._pinning = pinning

    @property
    def by_id(self) -> Mapping[str, Handler]:
        """Handler by operationId."""
        return {
            "getVersion": self.version,
            "getSpec": self.spec,
            "resolveDomain": self.resolve,
            "addPin": self.add_pin,
        }

    async def version(self, call: Call) -> Reply:
        """The version of the description, as it stands on disk now."""
        document = self._contract.read()
        etag = b'"' + document.version.encode() + b'"'
        return _validated(call, etag, msgspec.json.encode({"version": document.version}))

    async def spec(self, call: Call) -> Reply:
        """The whole description as JSON, as it stands on disk now."""
        document = self._contract.read()
        return _validated(call, document.etag, document.json)

    async def resolve(self, call: Call) -> Reply:
        """What a domain points at."""
        text = call.argument
        # Normalising what is not ASCII loads a large library once: off the event loop.
        name = (
            DomainName.parse(text)
            if text.isascii()
            else await asyncio.to_thread(DomainName.parse, text)
        )
        resolution = await self._directory.resolve(name)
        return Reply(resolution_body(resolution), resolution_headers(resolution))

    async def add_pin(self, call: Call) -> Reply:
        """A new pin for the requestor, or the notice that it exists."""
        admitted = cast(Admitted, call.admitted)
        pin = await self._pinning.add(admitted.requestor.id, call.argument)
        return Reply(ALREADY_PINNED if pin is None else pin_body(pin, admitted.key))


def resolution_body(resolution: Resolution) -> bytes:
    """The domain resolution result (section 2.3)."""
    records, notes = resolution.records, []
    body: dict[str, Any] = {"message": ""}
    match records.content:
        case IpfsContent(cid):
            body["content"] = {"type": "ipfs", "cid": str(cid)}
        case IpnsContent(name):
            body["content"] = {"type": "ipns", "name": name.text}
            if resolution.ipns_cache is not None:
                body["content"]["ipnsCache"] = str(resolution.ipns_cache)
        case OtherContent(codec):
            notes.append(f"its content is of the type {codec}, which is not served here")
    if records.wallet is not None:
        body["walletAddress"] = {"type": "address", "addr": records.wallet}
    else:
        notes.append("it has no wallet address")
    body["message"] = "; ".join(["Domain resolved", *notes])
    return msgspec.json.encode(body)


def resolution_headers(resolution: Resolution) -> Headers:
    """The header fields of a resolution: whose wallet it is, how stale the answer (RFC 9211)."""
    headers = [_JSON, _NO_STORE]
    if resolution.records.wallet_is_owner:
        headers.append((b"content-gateway-wallet", b"owner"))
    if resolution.stale is not None:
        age, overdue = resolution.stale.age, resolution.stale.overdue
        ttl = -int(overdue.total_seconds())
        headers.append((b"age", str(int(age.total_seconds())).encode()))
        headers.append((b"cache-status", f"content-gateway; hit; ttl={ttl}".encode()))
    return headers


def pin_body(pin: Pin, key: str) -> bytes:
    """The Pin Add response (section 2.5) for a new pin; the key is put in here and kept nowhere."""
    timestamp = pin.created_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return msgspec.json.encode(
        {
            "message": "Pin added",
            "result": {"cid": pin.spelling, "type": "pin", "timestamp": timestamp},
            "apiKey": key,
        }
    )


def _validated(call: Call, etag: bytes, body: bytes) -> Reply:
    """*body* under *etag*, or 304 where the caller has it already (RFC 9110, If-None-Match)."""
    headers = [(b"etag", etag), _REVALIDATE]
    for name, value in call.headers:
        if name == b"if-none-match":
            known = [tag.strip().removeprefix(b"W/") for tag in value.split(b",")]
            if etag in known or b"*" in known:
                return Reply(b"", headers, 304)
    return Reply(body, [_JSON, *headers])


class _Endpoint:
    """One operation as an ASGI application: key first, then the body, then the handler."""

    def __init__(self, operation: Operation, handler: Handler, keys: Keys) -> None:
        self._scope = operation.scope
        self._handler = handler
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope["headers"]
        admitted = None if self._scope is None else admit(self._keys, headers, self._scope)
        _refuse_body(headers)
        argument = next(iter(scope["path_params"].values()), "")
        call = Call(argument.replace(ENCODED_SLASH, "/"), headers, admitted)
        reply = await self._handler(call)
        await _send(send, reply.status, reply.headers, reply.body, scope["request_id"])


def _refuse_body(headers: Iterable[tuple[bytes, bytes]]) -> None:
    for name, value in headers:
        if name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0")):
            raise UnexpectedBody


class Api:
    """The whole service as an ASGI application."""

    def __init__(
        self, operations: Iterable[Operation], handlers: Mapping[str, Handler], keys: Keys
    ) -> None:
        """Raises WrongSettings unless operations and handlers match one to one."""
        operations = list(operations)
        described = [operation.id for operation in operations]
        if problems := _mismatch(described, handlers):
            raise WrongSettings("\n".join(problems))
        routes = []
        for operation in operations:
            endpoint = _Endpoint(operation, handlers[operation.id], keys)
            route = Route(operation.path, endpoint, methods=[operation.method])
            # An operation exists only if the contract describes it; Starlette adds HEAD.
            route.methods = {operation.method}
            routes.append(route)
        self._router = Router(routes, redirect_slashes=False, default=_unknown_path)
        self._request_ids = request_ids()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; nothing raised below goes further than here."""
        request_id = next(self._request_ids)
        scope["request_id"] = request_id
        scope["app"] = self
        try:
            await self._router(scope, receive, send)
        except Exception as error:
            kind, detail, extra = _problem(error, request_id)
            body = body_of(kind, detail, request_id)
            await _send(send, kind.status, headers_of(kind, request_id) + extra, body, None)


def _mismatch(described: list[str], handlers: Mapping[str, Handler]) -> list[str]:
    doubled = {name for name in described if described.count(name) > 1}
    return [
        *(f"spec_file: {name} is described twice" for name in sorted(doubled)),
        *(f"spec_file: {name} has no handler" for name in sorted(set(described) - set(handlers))),
        *(f"spec_file: {name} is missing" for name in sorted(set(handlers) - set(described))),
    ]


async def _unknown_path(scope: Scope, receive: Receive, send: Send) -> None:
    raise HTTPException(404)


def _problem(error: Exception, request_id: str) -> tuple[Kind, str, Headers]:
    """Kind, detail and extra header fields of *error*; logs what an operator should see."""
    if isinstance(error, HTTPException):
        kind = WRONG_METHOD if error.status_code == 405 else UNKNOWN_PATH
        allow = (error.headers or {}).get("Allow")
        return kind, kind.detail, [(b"allow", allow.encode())] if allow else []
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
    lines = [*headers, (b"content-length", str(len(body)).encode())]
    if request_id is not None:
        lines.append((b"x-request-id", request_id.encode()))
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": body})
