"""One operation: the steps that each request for it takes, up to its answer.

Credential, turn, limits, scope, body, handler: in this order, so that whoever is refused has waited
for the turn of whom it is charged to. Which operation a path belongs to, and what becomes of an
error, is left to asgi.py."""

from collections.abc import MutableMapping
from typing import Any

from content_gateway.concurrency.fair_semaphore import FairSemaphore
from content_gateway.errors import KeyRefused
from content_gateway.http.asgi_extensions import ENCODED_SLASH, SENT_BODY
from content_gateway.http.auth import (
    CREDENTIAL_SOURCES,
    KeyVerifier,
    Principal,
    has_api_key,
    require_scope,
)
from content_gateway.http.bodies import Receive, pass_over_empty, read_body
from content_gateway.http.key_limits import KeyLimits
from content_gateway.http.messages import (
    LARGE_BODY,
    Answer,
    Handler,
    Request,
    Response,
    ResponseStream,
    address_of,
    in_one,
    network_of,
)
from content_gateway.http.openapi import Operation
from content_gateway.http.request_turns import RequestTurns
from content_gateway.http.traffic import Exchange, RouteTraffic

# ASGI 3.0, as asgi.readthedocs.io has it.
Scope = MutableMapping[str, Any]


class Admission:
    """What a request passes before it costs anything: its turn, and the limits of its key."""

    def __init__(self, turns: RequestTurns, limits: KeyLimits) -> None:
        self.try_begin = turns.try_begin
        self.wait = turns.wait
        self.admit = limits.admit

    async def wait_by_address(self, scope: Scope) -> None:
        """Wait for the turn of a request without a requestor: it is charged to its address."""
        network = network_of(address_of(scope))
        if not self.try_begin(network):
            await self.wait(network)


class Route:
    """One operation; *traffic* counts its answers, *answers* are the permits for large ones."""

    def __init__(
        self,
        operation: Operation,
        handler: Handler,
        keys: KeyVerifier,
        body_seconds: float,
        *,
        traffic: RouteTraffic,
        answers: FairSemaphore,
        admission: "Admission",
    ) -> None:
        self.traffic = traffic
        self._id = operation.id
        self._scope = operation.scope
        self._source = CREDENTIAL_SOURCES.get(operation.scheme or "")  # None: the path, or no key
        self._key_is_optional = operation.key_is_optional
        self._body_type = operation.body_type
        self._handler = handler
        self._keys = keys
        self._body_seconds = body_seconds
        self._answers = answers
        self._admission = admission

    async def answer(
        self, scope: Scope, exchange: Exchange, argument: str, receive: Receive
    ) -> Answer:
        """The answer to the request in *scope*; *argument* is its path parameter.

        Raises what the handler raises, and KeyRefused, ScopeMissing, HttpRefusal, Overloaded and
        TooManyAtOnce."""
        headers, body, principal = scope["headers"], b"", None
        if self._scope is not None and not (self._key_is_optional and not has_api_key(headers)):
            try:
                key = argument if self._source is None else self._source(headers)
                requestor = self._keys.remembered(key) or await self._keys.identify(key)
            except KeyRefused:
                await self._admission.wait_by_address(scope)
                raise
            principal = Principal(requestor, key)
            exchange.requestor = requestor
            charged = requestor.id
        else:
            charged = network_of(address_of(scope))
        if not self._admission.try_begin(charged):  # mostly it may, and no coroutine is needed
            await self._admission.wait(charged)
        if principal is not None and self._scope is not None:
            exchange.use = self._admission.admit(principal.requestor, self._id, exchange.begun)
            require_scope(principal.requestor, self._scope)
        if SENT_BODY in scope.get("extensions", ()):
            with exchange.holding():
                if self._body_type is not None:
                    seconds, kind = self._body_seconds, self._body_type
                    body = await read_body(scope, receive, seconds=seconds, media_type=kind)
                else:
                    await pass_over_empty(scope, receive, seconds=self._body_seconds)
        if ENCODED_SLASH in argument:
            argument = argument.replace(ENCODED_SLASH, "/")
        request = Request(argument, scope["query_string"], headers, principal, body, charged)
        answer = await self._handler.answer(request)
        if isinstance(answer, Response) and len(answer.body) > LARGE_BODY:
            permit = self._answers.request(charged)
            await permit.granted()
            return ResponseStream(
                in_one(answer.body), answer.headers, answer.status, permit.release
            )
        return answer
