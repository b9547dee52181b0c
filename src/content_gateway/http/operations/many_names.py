"""The handler of many names in one request: each answered, refused and counted by itself.

Knows the body that is taken, and how the answer to one name becomes a member of a list. A name goes
the same way as alone, so that its look-up is shared with whoever else wants it."""

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Annotated, Any, Final, cast

import msgspec
import structlog

from content_gateway.concurrency.gather import each_of
from content_gateway.errors import GatewayError, InvalidBody, InvalidCoinType, UpstreamError
from content_gateway.http.auth import Principal
from content_gateway.http.key_limits import KeyLimits
from content_gateway.http.messages import (
    Handler,
    Handlers,
    Request,
    Response,
    demands_refresh,
    keyed,
)
from content_gateway.http.operations.domain_answers import age_and_ttl, resolution_members
from content_gateway.http.operations.domains import domain_of
from content_gateway.http.problems import HttpRefusal, kind_of
from content_gateway.http.query import parse_query
from content_gateway.http.request_turns import RequestTurns
from content_gateway.model.domain import MAX_TEXT, DomainName
from content_gateway.model.records import Resolution
from content_gateway.model.wallet import ETHEREUM, CoinType, parse_coin_type
from content_gateway.names.directory import Directory

MAX_NAMES: Final = 100
# Names of one request that are looked up at the same time: a key that may have fewer look-ups at
# once has as many.
_AT_ONCE: Final = 20
_REFUSED: Final = frozenset({429, 451})

log = structlog.get_logger(__name__)


class Many(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body: *names* as they are spelt, and the coin whose addresses are wanted."""

    names: Annotated[list[str], msgspec.Meta(min_length=1)]
    coin: int = msgspec.field(default=int(ETHEREUM), name="coinType")


_MANY: Final = msgspec.json.Decoder(Many)


class ManyNamesHandlers:
    """Answers what many domains point at."""

    def __init__(
        self,
        directory: Directory,
        limits: KeyLimits,
        turns: RequestTurns,
        *,
        refused: Callable[[str, str], None] = lambda requestor, code: None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """*limits* count by the same *clock* for all requests; *refused* is told of each name that
        a requestor was refused, and with which code."""
        self._directory = directory
        self._turns = turns
        self._limits = limits
        self._refused = refused
        self._clock = clock

    @property
    def by_id(self) -> Handlers:
        """Handler by operationId."""
        return {"resolveDomains": Handler(self.resolve, "resolve")}

    async def resolve(self, request: Request) -> Response:
        """What each domain points at, in their order; those beyond the key's limits are refused."""
        parse_query(request.query, ())
        names, coin = parse_many(request.body)
        requestor = cast(Principal, request.principal).requestor
        # The request itself was counted as its first name.
        more, refusal = self._limits.admit_more(requestor, len(names) - 1, self._clock())
        force_refresh = demands_refresh(request.headers)
        at_once = min(_AT_ONCE, requestor.allowance.lookups or _AT_ONCE)
        answer = partial(
            self._answer, coin=coin, force_refresh=force_refresh, requestor=request.charged
        )
        answers = await each_of(answer, names[: 1 + more], at_once=at_once)
        if refusal is not None:
            answers += [self._told(name, refusal, requestor.id) for name in names[1 + more :]]
        body = {"message": "Domains resolved", "result": answers}
        return keyed(msgspec.json.encode(body))

    async def _answer(
        self, text: str, *, coin: CoinType, force_refresh: bool, requestor: str
    ) -> dict[str, Any]:
        """The answer to one name, or what went wrong with it."""
        try:
            # As for a request: who sends a hundred names holds nobody up for longer than who
            # sends a hundred requests.
            if not self._turns.try_begin(requestor):
                await self._turns.wait(requestor)
            name = DomainName.parse_plain(text) or await domain_of(text)
            resolution = await self._directory.resolve(
                name, coin, force_refresh=force_refresh, requestor=requestor
            )
        except GatewayError as error:
            if isinstance(error, UpstreamError):
                log.warning("upstream failed", reason=error.detail, domain=text[:MAX_TEXT])
            return self._told(text, error, requestor)
        return {"domain": text, "status": 200, **_members(resolution)}

    def _told(self, text: str, error: Exception, requestor: str) -> dict[str, Any]:
        """The member of the list that tells *error* of the name *text*."""
        kind, detail = kind_of(error)
        if kind.status in _REFUSED:
            self._refused(requestor, kind.code)
        told = {"domain": text, "status": kind.status, "code": kind.code, "message": detail}
        more = error.more if isinstance(error, HttpRefusal) else kind.headers
        wait = next((value for name, value in more if name == b"retry-after"), None)
        return told if wait is None else told | {"retryAfter": int(wait)}


def parse_many(body: bytes) -> tuple[list[str], CoinType]:
    """The names in *body*, and the coin; raises InvalidBody."""
    try:
        many = _MANY.decode(body)
        coin = parse_coin_type(str(many.coin))
    except UnicodeDecodeError as wrong:  # msgspec raises it as it is
        raise InvalidBody("The body is not what this takes: it is not UTF-8.") from wrong
    except (msgspec.DecodeError, RecursionError) as wrong:
        raise InvalidBody(f"The body is not what this takes: {wrong}.") from wrong
    except InvalidCoinType as wrong:
        raise InvalidBody(wrong.detail) from wrong
    if len(many.names) > MAX_NAMES:
        raise InvalidBody(
            f"A request has {MAX_NAMES} names at most; this one has {len(many.names)}."
        )
    return many.names, coin


def _members(resolution: Resolution) -> dict[str, Any]:
    """The members of the answer to one name, with what its header fields tell where it is alone."""
    members, records = resolution_members(resolution), resolution.records
    if records.wallet_is_owner:
        members["walletIsOwner"] = True
    if failures := records.failures:
        members["failed"] = list(failures)
    if resolution.stale is not None:
        members["age"], members["ttl"] = age_and_ttl(resolution.stale)
    return members
