"""The handlers of /version and /spec: what this service is, without a key.

Reads the description as it stands on disk now, whatever else is down. Answers a conditional
request with 304 (representation.py)."""

from content_gateway.http.messages import Handler, Handlers, Request, Response
from content_gateway.http.openapi import Contract


class InformationHandlers:
    """Tells whoever asks what *contract* says."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract

    @property
    def by_id(self) -> Handlers:
        """Handler by operationId."""
        return {"getVersion": Handler(self.version, None), "getSpec": Handler(self.spec, None)}

    async def version(self, request: Request) -> Response:
        """The version of the description; raises ContractBroken and HttpRefusal."""
        return (await self._contract.current()).version.answer(request)

    async def spec(self, request: Request) -> Response:
        """The whole description as JSON; raises ContractBroken and HttpRefusal."""
        return (await self._contract.current()).whole.answer(request)
