"""The gateways of CCIP-Read (EIP-3668): servers that hold off the chain what a contract needs.

Knows how a request becomes a URL, which answers end the search and which send it to the next
URL. What a gateway says is not trusted: the contract checks it in its callback. Which URLs may
be asked at all is left to the guard of the HttpClient that is given."""

import binascii
from dataclasses import dataclass
from time import monotonic
from typing import Final

import msgspec
import structlog

from content_gateway.codecs.http_error import is_refusal
from content_gateway.errors import (
    InvalidUpstreamResponse,
    ResolverFailed,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.net.http_client import Answer, HttpClient, host_of, json_object

# EIP-3668 bounds neither; but whoever owns a name must not have us ask half the world.
MAX_URLS: Final = 16  # tried for one request
MAX_ATTEMPTS: Final = 64  # for one call of a contract, batches and further rounds included
MAX_URL_BYTES: Final = 2048  # before sender and data are put in
MAX_BODY_BYTES: Final = 1024 * 1024  # proofs of second layers are tens of KB in hexadecimal
_MOST_SHARES: Final = 4  # of the time that is left: a silent gateway keeps one for itself

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GatewayRequest:
    """What the contract at *sender* (20 bytes) wants of any one of *urls*, the best ones first."""

    sender: bytes
    urls: tuple[str, ...]
    data: bytes


class GatewayRefused(ResolverFailed):
    """The gateway does not serve what the contract has us ask for: *status* is 4xx."""

    def __init__(self, status: int) -> None:
        super().__init__(f"The name's off-chain gateway answered {status}.")
        self.status = status


class GatewayFailed(UpstreamUnavailable):
    """The gateway says itself that it cannot answer now: *status* is 5xx, 408 or 429."""

    def __init__(self, status: int) -> None:
        super().__init__(f"The name's off-chain gateway answered {status}.")
        self.status = status


class Attempts:
    """How often gateways may still be asked, until the contract has its answer, and for whom."""

    def __init__(self, left: int = MAX_ATTEMPTS, *, requestor: str = "") -> None:
        self.requestor = requestor
        self._left = left

    def take(self) -> bool:
        """Count one more; False when there were enough."""
        self._left -= 1
        return self._left >= 0


class OffchainGateways:
    """Whichever gateways contracts name, asked through *outbound*, which must be a guarded one."""

    def __init__(self, outbound: HttpClient) -> None:
        self._outbound = outbound

    async def ask(
        self, request: GatewayRequest, *, seconds: float, attempts: Attempts | None = None
    ) -> bytes:
        """What the first gateway that has an answer says, within *seconds* in all.

        Raises the failure of the last gateway asked, as GatewayRefused or GatewayFailed where it
        gave a status; UpstreamTimeout; Overloaded where one could not be asked."""
        end, attempts = monotonic() + seconds, attempts or Attempts()
        urls = request.urls[:MAX_URLS]
        failure: UpstreamError = UpstreamUnavailable("The contract names no off-chain gateway.")
        for position, url in enumerate(urls):
            left = end - monotonic()
            if left <= 0:
                raise UpstreamTimeout("The name's off-chain gateways did not answer in time.")
            if not attempts.take():
                log.info("too many gateways", host=host_of(url))
                break
            # Some of the time is kept for the gateways behind, so that a silent one can be left.
            share = left / min(len(urls) - position, _MOST_SHARES)
            try:
                answer = await self._ask(url, request, share, attempts.requestor)
                return read_gateway_answer(answer)
            except UpstreamError as failed:
                log.info("gateway failed", host=host_of(url), reason=failed.detail)
                failure = failed
                # EIP-3668: after 4xx the search ends; whatever else went wrong, the next may do.
                if isinstance(failed, GatewayRefused | GatewayFailed) and failed.status < 500:
                    break
        raise failure

    async def _ask(
        self, template: str, request: GatewayRequest, seconds: float, requestor: str
    ) -> Answer:
        sender, data = "0x" + request.sender.hex(), "0x" + request.data.hex()
        # Once each: a template of nothing but {data} would become a URL of megabytes.
        url = template.replace("{sender}", sender, 1).replace("{data}", data, 1)
        headers, body = {"Accept": "application/json"}, None
        if "{data}" not in template:
            headers["Content-Type"] = "application/json"
            body = msgspec.json.encode({"data": data, "sender": sender})
        return await self._outbound.ask(
            "GET" if body is None else "POST",
            url,
            seconds=seconds,
            max_bytes=MAX_BODY_BYTES,
            headers=headers,
            body=body,
            requestor=requestor,
        )


def read_gateway_answer(answer: Answer) -> bytes:
    """The response data in *answer*.

    Raises GatewayRefused or GatewayFailed for a status of 4xx and 5xx, UpstreamTimeout for 504,
    InvalidUpstreamResponse for what is no answer."""
    if is_refusal(answer.status):
        raise GatewayRefused(answer.status)
    if answer.status == 504:
        raise UpstreamTimeout("The name's off-chain gateway answered 504.")
    if answer.status >= 400:
        raise GatewayFailed(answer.status)
    if answer.status not in range(200, 300):
        raise InvalidUpstreamResponse(f"The name's off-chain gateway answered {answer.status}.")
    data = json_object(answer.body, who="The name's off-chain gateway").get("data")
    if not isinstance(data, str) or data[:2] != "0x":
        raise InvalidUpstreamResponse("The name's off-chain gateway answered without data.")
    try:
        return binascii.unhexlify(data[2:])
    except ValueError as wrong:
        raise InvalidUpstreamResponse(
            "The name's off-chain gateway answered no hexadecimal."
        ) from wrong
