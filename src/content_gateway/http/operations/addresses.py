"""The handler of addresses: which name one has.

Turns a path parameter and a coin type into the bytes of an address, asks the directory, and renders
its answer (spec.yaml). What a primary name is, is left to names/primary.py."""

from content_gateway.http.messages import (
    Handler,
    Handlers,
    Request,
    Response,
    confirmed,
    demands_refresh,
)
from content_gateway.http.operations.domain_answers import stale_headers
from content_gateway.http.operations.domains import coin_type_asked
from content_gateway.model.wallet import address_text, parse_address
from content_gateway.names.directory import Directory


class AddressHandlers:
    """Answers which names addresses have."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    @property
    def by_id(self) -> Handlers:
        """Handler by operationId."""
        return {"resolveAddress": Handler(self.resolve, "resolve")}

    async def resolve(self, request: Request) -> Response:
        """The primary name of an address."""
        coin = coin_type_asked(request.query)
        address = parse_address(coin, request.argument)
        resolution = await self._directory.primary_name(
            address,
            coin,
            force_refresh=demands_refresh(request.headers),
            requestor=request.charged,
        )
        records, stale = resolution.records, resolution.stale
        result = {
            "address": address_text(coin, address),
            "coinType": coin,
            "name": records.primary,
        }
        if records.resolver is not None:
            result["resolver"] = records.resolver
        return confirmed("Address resolved", result, *(stale_headers(stale) if stale else ()))
