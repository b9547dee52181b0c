"""The handlers of domains and IPNS names.

Turns a path parameter into a domain, asks the directory, and renders the answer (spec.yaml). Who
may ask is left to route.py, what an error looks like to asgi.py."""

import asyncio
import re
from typing import Final
from urllib.parse import parse_qs

from content_gateway.errors import InvalidCoinType, InvalidQuery
from content_gateway.http.messages import Handler, Handlers, Request, Response, demands_refresh
from content_gateway.http.operations.domain_answers import (
    RenderedResolutions,
    ipns_progress,
    ipns_started,
    records_known,
)
from content_gateway.ipns.resolver import IpnsResolver
from content_gateway.model.domain import DomainName
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.record_keys import RecordKey, parse_record_keys
from content_gateway.model.wallet import ETHEREUM, CoinType, parse_coin_type
from content_gateway.names.directory import Directory

# The parameter, and what is meant for it: `coin_type`, `coinTypes`, `coinType[]` (a list in PHP).
_COIN_TYPE: Final = re.compile(r"\s*coin[-_ ]?(types?)?(\[\w*\])?\s*", re.IGNORECASE)


class NameHandlers:
    """Answers what domains and IPNS names point at."""

    def __init__(self, *, directory: Directory, ipns: IpnsResolver) -> None:
        self._directory = directory
        self._ipns = ipns
        self._rendered = RenderedResolutions()

    @property
    def by_id(self) -> Handlers:
        """Handler by operationId."""
        return {
            "resolveDomain": Handler(self.resolve, "resolve"),
            "getRecords": Handler(self.records, "resolve"),
            "startIpnsResolution": Handler(self.start_ipns, "resolve"),
            "getIpnsResult": Handler(self.ipns_result, "resolve"),
        }

    async def resolve(self, request: Request) -> Response:
        """What a domain points at."""
        # A name that is not plain loads a large library, once: off the event loop.
        name = DomainName.parse_plain(request.argument) or await domain_of(request.argument)
        coin, more = _asked(request.query) if request.query else (ETHEREUM, ())
        force_refresh = demands_refresh(request.headers)
        resolution = await self._directory.resolve(
            name, coin, more=more, force_refresh=force_refresh, requestor=request.charged
        )
        return self._rendered.of(resolution)

    async def records(self, request: Request) -> Response:
        """What a domain was last known to point at."""
        name = DomainName.parse_plain(request.argument) or await domain_of(request.argument)
        return records_known(name, *await self._directory.known(name))

    async def start_ipns(self, request: Request) -> Response:
        """A resolution of an IPNS name that goes on behind the answer."""
        return ipns_started(
            await self._ipns.begin(IpnsName.parse(request.argument), requestor=request.requestor)
        )

    async def ipns_result(self, request: Request) -> Response:
        """How such a resolution is going."""
        progress = await self._ipns.progress(request.argument, requestor=request.requestor)
        return ipns_progress(progress)


async def domain_of(text: str) -> DomainName:
    """The name in *text*; raises InvalidDomain."""
    return await asyncio.to_thread(DomainName.parse, text)


def _asked(query: bytes) -> tuple[CoinType, tuple[RecordKey, ...]]:
    """The coin type that *query* asks for, Ethereum's if it names none, and the records besides.

    Whoever misspells the parameter must not be told the address on another chain. Raises
    InvalidCoinType and InvalidQuery."""
    given = _parameters(query)
    coin, lists = coin_type(given), given.get("records")
    if lists is None:
        return coin, ()
    if any("\ufffd" in one for one in lists):
        raise InvalidQuery("records: a key is UTF-8, percent-encoded.")
    return coin, parse_record_keys(",".join(lists))


def coin_type_asked(query: bytes) -> CoinType:
    """The coin type that *query* asks for, Ethereum's if it names none; raises InvalidCoinType."""
    return coin_type(_parameters(query)) if query else ETHEREUM


def _parameters(query: bytes) -> dict[str, list[str]]:
    try:
        return parse_qs(query.decode("ascii"), keep_blank_values=True, max_num_fields=32)
    except ValueError as wrong:
        raise InvalidCoinType("The query cannot be read.") from wrong


def coin_type(given: dict[str, list[str]]) -> CoinType:
    """The coin type among the parameters *given*, which is taken out; raises InvalidCoinType."""
    values = given.pop("coinType", [])
    if len(values) > 1 or any(_COIN_TYPE.fullmatch(name) for name in given):
        raise InvalidCoinType("The parameter is coinType, spelt so and given once.")
    return parse_coin_type(values[0]) if values else ETHEREUM
