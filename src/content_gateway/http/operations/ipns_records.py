"""The trustless gateway's IPNS records: `/ipns/{key}`, for clients that verify them themselves.

Knows ipfs/specs trustless-gateway.md, "IPNS Record Responses", and for how long HTTP caches may
keep one (RFC 9111). Only records of names that were resolved are served; which they are is left to
`ipns/`, and which form is asked for to trustless_forms.py."""

from hashlib import sha256
from typing import Protocol

from content_gateway.concurrency.fair_semaphore import FairSemaphore
from content_gateway.errors import InvalidIpnsName, NotFound
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
from content_gateway.http.operations.trustless_forms import IPNS_RECORD, asked_record
from content_gateway.http.problems import Headers, HttpRefusal
from content_gateway.ipns.resolver import HeldRecord
from content_gateway.model.ipns_name import IpnsName


class IpnsRecords(Protocol):
    """The records that are known."""

    async def record(self, name: IpnsName, *, requestor: str = "") -> HeldRecord | None:
        """The record of the key *name*, None where none is known that is valid.

        Raises Blocked and StorageUnavailable."""


class IpnsRecordHandlers:
    """Serves *records*; None: nothing is served, and there is nothing at these paths.

    Each answer is one of the *answers* made at once."""

    def __init__(self, records: IpnsRecords | None, answers: FairSemaphore) -> None:
        self._records = records
        self._answers = answers

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
        filename = asked_record(request)
        async with self._answers.request(request.charged):
            held = await self._records.record(name, requestor=request.charged)
        if held is None and wants_only_cached(request.headers):
            raise HttpRefusal(ONLY_IF_CACHED)
        if held is None:
            raise NotFound("No record of this name is held here.")
        headers = _headers(name, held, filename)
        if has_current_etag(request.headers, dict(headers)[b"etag"]):
            return Response(b"", headers, 304)
        return Response(held.data, [*headers, length_of(held.data)])

    async def head(self, request: Request) -> Response:
        """As `get`, without a body."""
        answer = await self.get(request)
        return Response(b"", answer.headers, answer.status)


def _headers(name: IpnsName, held: HeldRecord, filename: str | None) -> Headers:
    """The header fields of the record, except a length."""
    return [
        (b"content-type", IPNS_RECORD),
        attachment(filename or f"{name}.ipns-record"),
        (b"cache-control", b"public, max-age=%d" % held.lifetime.total_seconds()),
        (b"age", b"%d" % held.age.total_seconds()),
        (b"etag", f'"{sha256(held.data).hexdigest()[:32]}.ipns-record"'.encode()),
        (b"vary", b"accept"),
        (b"accept-ranges", b"none"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-ipfs-path", f"/ipns/{name}".encode()),
    ]
