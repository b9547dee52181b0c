"""Ethereum JSON-RPC: `eth_call` against the first endpoint of a list that answers.

Knows how nodes report results, reverts and failures. A revert is an answer of the contract and
is raised at once; anything else that is not a result sends the call to the next endpoint. What
is called, and what the bytes mean, is left to `names/`."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import structlog

from content_gateway.errors import UpstreamError, UpstreamNonsense, UpstreamUnavailable
from content_gateway.ethereum.abi import Reverted
from content_gateway.outbound import Outbound, json_object

MAX_ANSWER_BYTES = 256 * 1024
_REVERT_CODE = 3  # EIP-1474 as geth and its kin use it

log = structlog.get_logger(__name__)


class EthereumRpc:
    """One chain, reached through *urls* in the operator's order; *seconds* bounds each try."""

    def __init__(self, outbound: Outbound, urls: Sequence[str], *, seconds: float) -> None:
        self._outbound = outbound
        self._urls = list(urls)
        self._seconds = seconds

    async def call(self, to: str, data: bytes) -> bytes:
        """What the contract at *to* returns for *data*, at the latest block; never empty.

        Raises Reverted when the contract refuses, UpstreamError when no endpoint gave an
        answer that can be right: the error of the last one."""
        failure: UpstreamError = UpstreamUnavailable("No Ethereum endpoint is configured.")
        body = msgspec.json.encode(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "eth_call",
                "params": [{"to": to, "data": "0x" + data.hex()}, "latest"],
            }
        )
        for index, url in enumerate(self._urls):
            try:
                return await self._ask(url, body)
            except UpstreamError as failed:
                # The position names the endpoint: its URL may carry the operator's secret.
                log.warning("rpc endpoint failed", endpoint=index, reason=failed.detail)
                failure = failed
        raise failure

    async def _ask(self, url: str, body: bytes) -> bytes:
        answer = await self._outbound.ask(
            "POST",
            url,
            seconds=self._seconds,
            max_bytes=MAX_ANSWER_BYTES,
            headers={"Content-Type": "application/json"},
            body=body,
        )
        if answer.status == 429 or answer.status >= 500:
            raise UpstreamUnavailable(f"The Ethereum endpoint answered {answer.status}.")
        return read_call_answer(answer.body)


def read_call_answer(body: bytes) -> bytes:
    """The returned bytes in a JSON-RPC answer to `eth_call`.

    Raises Reverted for a revert, UpstreamUnavailable for any other error the node reports,
    UpstreamNonsense for what is not an answer to `eth_call`."""
    answer = json_object(body, who="The Ethereum endpoint")
    if isinstance(answer.get("error"), dict):
        raise _failure(answer["error"])
    returned = _hex_bytes(answer.get("result"))
    if returned is None:
        raise UpstreamNonsense("The Ethereum endpoint answered without a result.")
    if not returned:
        # An address without code "returns" nothing: the wrong chain, or a broken node.
        raise UpstreamNonsense("There is no contract at that address on this endpoint's chain.")
    return returned


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
