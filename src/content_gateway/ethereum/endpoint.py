"""One Ethereum node: `eth_call` and `eth_blockNumber` over JSON-RPC.

Knows how nodes report results, reverts and failures, and remembers how this one has been doing
lately. Which of several nodes is asked is left to rpc.py and quorum.py, what the bytes mean to
`names/`."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import structlog

from content_gateway.breaker import Breaker
from content_gateway.errors import UpstreamError, UpstreamNonsense, UpstreamUnavailable
from content_gateway.ethereum.abi import Reverted
from content_gateway.outbound import Outbound, host_of, json_object

MAX_ANSWER_BYTES: Final = 256 * 1024
_REVERT_CODE: Final = 3  # as geth and its kin report a revert
_FAMILIAR: Final = 0.2  # how much the newest answer weighs in the usual latency

log = structlog.get_logger(__name__)


class Endpoint:
    """The node at *url*; *seconds* bounds one request."""

    def __init__(
        self,
        outbound: Outbound,
        url: str,
        *,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.breaker = Breaker(clock)
        # Host and port name an endpoint in the log: its path may carry the operator's secret.
        self.name = host_of(url)
        self.usual_latency: float | None = None
        self._outbound = outbound
        self._url = url
        self._seconds = seconds
        self._clock = clock

    async def call(self, to: str, data: bytes, block: str = "latest") -> bytes:
        """What the contract at *to* returns for *data* at *block*; never empty.

        Raises Reverted when the contract refuses, UpstreamError for any other failure."""
        params = [{"to": to, "data": "0x" + data.hex()}, block]
        return read_call_answer(await self._ask("eth_call", params))

    async def block_number(self) -> int:
        """The number of the newest block the node knows; raises UpstreamError."""
        return read_block_number(await self._ask("eth_blockNumber", []))

    async def _ask(self, method: str, params: list[Any]) -> bytes:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        start = self._clock()
        answer = await self._outbound.ask(
            "POST",
            self._url,
            seconds=self._seconds,
            max_bytes=MAX_ANSWER_BYTES,
            headers={"Content-Type": "application/json"},
            body=msgspec.json.encode(request),
        )
        if answer.status == 429 or answer.status >= 500:
            raise UpstreamUnavailable(f"The Ethereum endpoint answered {answer.status}.")
        took = self._clock() - start
        usual = took if self.usual_latency is None else self.usual_latency
        self.usual_latency = usual + _FAMILIAR * (took - usual)
        return answer.body

    def told(self, failure: BaseException | None) -> None:
        """Note how a call that the breaker let in has ended; a revert is a good answer."""
        if isinstance(failure, UpstreamError):
            self.breaker.failed()
            log.warning("rpc endpoint failed", endpoint=self.name, reason=failure.detail)
        elif failure is None or isinstance(failure, Reverted):
            self.breaker.succeeded()
        else:
            self.breaker.left()


def read_call_answer(body: bytes) -> bytes:
    """The returned bytes in a JSON-RPC answer to `eth_call`.

    Raises Reverted for a revert, UpstreamUnavailable for any other error the node reports,
    UpstreamNonsense for what is not an answer to `eth_call`."""
    returned = _hex_bytes(_result(body))
    if returned is None:
        raise UpstreamNonsense("The Ethereum endpoint answered without a result.")
    if not returned:
        # An address without code "returns" nothing: the wrong chain, or a broken node.
        raise UpstreamNonsense("There is no contract at that address on this endpoint's chain.")
    return returned


def read_block_number(body: bytes) -> int:
    """The number in a JSON-RPC answer to `eth_blockNumber`; raises UpstreamError."""
    number = _result(body)
    if isinstance(number, str) and number.startswith("0x") and len(number) <= 18:
        try:
            return int(number, 16)
        except ValueError:
            pass
    raise UpstreamNonsense("The Ethereum endpoint answered without a block number.")


def _result(body: bytes) -> object:
    answer = json_object(body, who="The Ethereum endpoint")
    if isinstance(answer.get("error"), dict):
        raise _failure(answer["error"])
    return answer.get("result")


def _failure(error: Mapping[str, Any]) -> Exception:
    """A node's error object: a revert with its data, or a node that cannot answer."""
    data = error.get("data")
    if isinstance(data, dict):
        data = data.get("data")
    revert = _hex_bytes(data)
    message = str(error.get("message", ""))[:200]
    if revert is not None and (revert or error.get("code") == _REVERT_CODE):
        return Reverted(revert)
    # A provider's own words may name the operator's project or plan: they are for the log.
    log.warning("rpc endpoint answered an error", code=error.get("code"), message=message)
    return UpstreamUnavailable("The Ethereum endpoint answered with an error.")


def _hex_bytes(value: object) -> bytes | None:
    if not isinstance(value, str) or not value.startswith("0x"):
        return None
    try:
        return bytes.fromhex(value[2:])
    except ValueError:
        return None
