"""The trustless gateway's IPNS records: `/ipns/{key}`, for clients that verify them themselves.

Knows ipfs/specs trustless-gateway.md, "IPNS Record Responses", and for how long HTTP caches may
keep one (RFC 9111). Whoever has no key may have few names looked up; looking up is left to `ipns/`,
and which form is asked for to trustless_forms.py."""

from hashlib import sha256
from typing import Protocol

from content_gateway.errors import InvalidIpnsName, NotFound
from content_gateway.http.address_limits import AddressLimits
from content_gateway.http.attachment import attachment
from content_gateway.http.kinds import ONLY_IF_CACHED
from content_gateway.http.messages import (
    Handler,
    Handlers,
    Request,
    Response,
    has_current_etag,
    length_of,
    wants_only_cached,
)
from content_gateway.http.operations.trustless_forms import (
    IPNS_RECORD,
    RECORD_QUERY,
    RecordForm,
    asked_record,
)
from content_gateway.http.problems import Headers, HttpRefusal
from content_gateway.ipns.resolver import KeptRecord
from content_gateway.model.ipns_name import IpnsName


class IpnsRecords(Protocol):
    """Who knows records, and looks them up."""

    def is_fresh(self, name: IpnsName) -> bool:
        """Whether *name* is told without a look-up."""

    async def record(
        self, name: IpnsName, *, ask: bool = True, requestor: str = ""
    ) -> KeptRecord | None:
        """The record of the key *name*, None where there is none; without *ask*, where none is
        known. Raises Blocked, UpstreamError, Overloaded and TooManyAtOnce."""


class IpnsRecordHandlers:
    """Serves *records*; None: nothing is served, and there is nothing at these paths.

    *visitors* limits how many names one address may have looked up."""

    def __init__(self, records: IpnsRecords | None, visitors: AddressLimits) -> None:
        self._records = records
        self._visitors = visitors

    @property
    def by_id(self) -> Handlers:
        """Handler by operationId."""
        is_served = self._records is not None
        return {
            "getIpnsRecord": Handler(self.get, None) if is_served else None,
            "headIpnsRecord": Handler(self.head, None) if is_served else None,
        }

    async def get(self, request: Request) -> Response:
        """The record, as it was signed."""
        assert self._records is not None  # noqa: S101 - else there is no such handler
        name = IpnsName.parse(request.argument)
        if name.is_dnslink:
            raise InvalidIpnsName("A domain has no IPNS record: it says where it points in DNS.")
        form = asked_record(request)
        asks = not wants_only_cached(request.headers)
        if asks and not self._records.is_fresh(name):
            self._visitors.take(request.charged)
        kept = await self._records.record(name, ask=asks, requestor=request.charged)
        if kept is None and not asks:
            raise HttpRefusal(ONLY_IF_CACHED)
        if kept is None:
            raise NotFound("There is no record of this name.")
        headers = _headers(name, kept, form)
        if has_current_etag(request.headers, dict(headers)[b"etag"]):
            return Response(b"", headers, 304)
        return Response(kept.data, [*headers, length_of(kept.data)])

    async def head(self, request: Request) -> Response:
        """As `get`, without a body."""
        answer = await self.get(request)
        return Response(b"", answer.headers, answer.status)


def _headers(name: IpnsName, kept: KeptRecord, form: RecordForm) -> Headers:
    """The header fields of the record, except a length."""
    headers = [
        (b"content-type", IPNS_RECORD),
        attachment(form.filename or f"{name}.ipns-record"),
        (b"cache-control", b"public, max-age=%d" % kept.lifetime.total_seconds()),
        (b"age", b"%d" % kept.age.total_seconds()),
        (b"etag", f'"{sha256(kept.data).hexdigest()[:32]}.ipns-record"'.encode()),
        (b"vary", b"accept"),
        (b"accept-ranges", b"none"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-ipfs-path", f"/ipns/{name}".encode()),
    ]
    if not form.is_named:
        headers.append((b"content-location", f"/ipns/{name}?{RECORD_QUERY}".encode()))
    return headers
