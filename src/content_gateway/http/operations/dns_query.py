"""The handlers of DNS over HTTPS: RFC 8484 by GET and POST, and the JSON form of public resolvers.

Knows how a question is put into a request and a reply into a response; who may ask without a key is
decided here. What is answered is left to dns_answers.py."""

import asyncio
import base64
import binascii
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from content_gateway.errors import InvalidBody, InvalidQuery, KeyRefused, Overloaded
from content_gateway.http.address_limits import AddressLimits
from content_gateway.http.messages import Handler, Handlers, Request, Response, length_of
from content_gateway.http.query import parse_query

if TYPE_CHECKING:
    from content_gateway.codecs.dns_message import DnsReply
    from content_gateway.http.operations.dns_answers import DnsAnswers

DNS_MESSAGE: Final = b"application/dns-message"
DNS_JSON: Final = b"application/dns-json"
# What clients of the two public resolvers send besides; it changes nothing of what is known here.
_PASSED_OVER: Final = ("ct", "edns_client_subnet", "random_padding")
_PARAMETERS: Final = ("dns", "name", "type", "do", "cd", *_PASSED_OVER)
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)
_BOOLEANS: Final = {"": True, "1": True, "true": True, "0": False, "false": False}


class DnsHandlers:
    """Answers DNS questions. *answers* makes what knows the answers, at the first question; without
    a key everybody may ask if it *is_open*, as often as *limits* allow each address."""

    def __init__(
        self, answers: "Callable[[], DnsAnswers]", limits: AddressLimits, *, is_open: bool
    ) -> None:
        self._make = answers
        self._answers: DnsAnswers | None = None
        self._limits = limits
        self._is_open = is_open

    @property
    def by_id(self) -> Handlers:
        """Handler by operationId."""
        return {
            "dnsQuery": Handler(self.get, "resolve"),
            "dnsQueryPost": Handler(self.post, "resolve"),
            "dnsQueryKeyed": Handler(self.get, "resolve"),
            "dnsQueryKeyedPost": Handler(self.post, "resolve"),
        }

    async def get(self, request: Request) -> Response:
        """The reply to the question in the query: bytes for `dns`, JSON for `name`."""
        self._admit(request)
        given = parse_query(request.query, _PARAMETERS)
        if ("dns" in given) == ("name" in given):
            raise InvalidQuery(
                "Ask with dns=, a DNS message in base64url, or with name= and type=; not with both."
            )
        if "dns" in given:
            return await self._by_wire(request, _decoded(given["dns"]), InvalidQuery)
        answers = await self._loaded()
        from content_gateway.codecs.dns_message import question_of  # noqa: PLC0415 - see _load

        try:
            question = question_of(
                given["name"],
                given.get("type", "A"),
                wants_dnssec=_boolean("do", given),
                checking_disabled=_boolean("cd", given),
            )
        except ValueError as wrong:
            raise InvalidQuery(str(wrong)) from wrong
        reply = await answers.answer(question, request.charged)
        return _response(request, reply, DNS_JSON, msgspec.json.encode(reply.json))

    async def post(self, request: Request) -> Response:
        """The reply to the question in the body."""
        self._admit(request)
        parse_query(request.query, ())
        return await self._by_wire(request, request.body, InvalidBody)

    def _admit(self, request: Request) -> None:
        """Raises KeyRefused where a key is missing, and HttpRefusal beyond an address's limit."""
        if request.principal is None:
            if not self._is_open:
                raise KeyRefused("missing")
            self._limits.take(request.charged)

    async def _by_wire(
        self, request: Request, wire: bytes, wrong: type[InvalidQuery | InvalidBody]
    ) -> Response:
        answers = await self._loaded()
        from content_gateway.codecs.dns_message import (  # noqa: PLC0415 - see _load
            NoQuestion,
            parse_question,
        )

        try:
            question = parse_question(wire)
        except NoQuestion as reason:
            raise wrong(f"This is no DNS question. {reason}") from reason
        reply = await answers.answer(question, request.charged)
        return _response(request, reply, DNS_MESSAGE, reply.wire)

    async def _loaded(self) -> "DnsAnswers":
        if self._answers is None:
            # dnspython takes 120 ms to import: not at the start, and not on the event loop.
            try:
                self._answers = await asyncio.to_thread(self._make)
            except OSError as failed:  # no descriptor for the files of an installed package
                raise Overloaded("DNS messages cannot be read now.") from failed
        return self._answers


def _response(request: Request, reply: "DnsReply", media_type: bytes, body: bytes) -> Response:
    """The response that may be kept as long as *reply* (RFC 8484 section 5.1).

    Shared caches know nothing of keys, and may keep only what needs none."""
    freshness = b"no-store"
    if reply.ttl is not None:
        scope = b"" if request.principal is None else b"private, "
        freshness = b"%bmax-age=%d" % (scope, reply.ttl)
    return Response(
        body, [(b"content-type", media_type), (b"cache-control", freshness), length_of(body)]
    )


def _decoded(text: str) -> bytes:
    """The message in *text*, base64url without padding (RFC 8484); raises InvalidQuery."""
    if _BASE64URL.fullmatch(text):
        try:
            return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except binascii.Error:
            pass
    raise InvalidQuery("dns must be a DNS message in base64url, without padding.")


def _boolean(name: str, given: dict[str, str]) -> bool:
    if name not in given:
        return False
    value = _BOOLEANS.get(given[name].lower())
    if value is None:
        raise InvalidQuery(f"{name} takes true or false.")
    return value
