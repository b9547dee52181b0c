"""CCIP-Read (EIP-3668): calls of contracts that keep their answers off the chain.

A contract that reverts with OffchainLookup is given what its gateways say, and asked again. Knows
the rounds, their bounds and the batch gateway (ENSIP-21), which it is itself. How one gateway is
asked is left to `gateways.py`; whether its word is good, to the contract that named it."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final, Protocol, TypeVar

from content_gateway.codecs import abi, http_error
from content_gateway.codecs.abi import Reverted
from content_gateway.errors import InvalidUpstreamResponse, UpstreamError, UpstreamTimeout
from content_gateway.ethereum.gateways import (
    MAX_URL_BYTES,
    Attempts,
    GatewayFailed,
    GatewayRefused,
    GatewayRequest,
    OffchainGateways,
)
from content_gateway.net.byte_budget import ByteBudget, Hold

MAX_ROUNDS: Final = 4
MAX_BATCH: Final = 24  # wallet, content, and as many records as may be asked for beside them
MAX_LOOKUP_BYTES: Final = 512 * 1024  # as much as fits in a node's answer
# What gateways say to one contract in all: with its extra data three times as much in
# hexadecimal, and nodes take 5 MiB (geth's default).
MAX_RESPONSE_BYTES: Final = 1024 * 1024
MAX_LARGE_BYTES: Final = 32 * 1024 * 1024  # call data beyond the ordinary, of all calls at once
SECONDS: Final = 4.0

LOCAL_BATCH: Final = "x-batch-gateway:true"  # ENSIP-21: the client may be the batch gateway

_QUERY: Final = bytes.fromhex("a780bab6")  # query((address,string[],bytes)[])

T = TypeVar("T")


class Calls(Protocol):
    """Reads of one chain."""

    async def call(self, to: str, data: bytes, read: Callable[[bytes], T]) -> T:
        """What *read* makes of the contract's answer; raises Reverted or UpstreamError."""


@dataclass(frozen=True, slots=True)
class OffchainLookup:
    """A contract's word instead of an answer: ask *request*, bring the response to *callback*."""

    request: GatewayRequest
    callback: bytes
    extra: bytes


class CcipRead:
    """The same chain as *ethereum*, off-chain answers included; *seconds* bounds all gateways."""

    def __init__(
        self, ethereum: Calls, gateways: OffchainGateways, *, seconds: float = SECONDS
    ) -> None:
        self._ethereum = ethereum
        self._gateways = gateways
        self._seconds = seconds
        self._room = ByteBudget(MAX_LARGE_BYTES)

    async def call(
        self, to: str, data: bytes, read: Callable[[bytes], T], *, requestor: str = ""
    ) -> T:
        """What *read* makes of the answer that the contract at *to* has in the end.

        Connections to gateways are charged to *requestor*. Raises Reverted when the contract, or
        its callback, refuses; UpstreamError when a chain or gateway failed, or the contract asks
        for what no good contract would; Overloaded."""
        with self._room.hold() as hold:
            return await self._call(to, data, read, hold, requestor)

    async def _call(
        self, to: str, data: bytes, read: Callable[[bytes], T], hold: Hold, requestor: str
    ) -> T:
        left, attempts = self._seconds, Attempts(requestor=requestor)
        for _ in range(MAX_ROUNDS):
            try:
                return await self._ethereum.call(to, data, read)
            except Reverted as revert:
                lookup = _lookup(revert.data, to)
                if lookup is None:
                    raise
            begun = monotonic()
            response = await self._response(lookup.request, left, attempts)
            left -= monotonic() - begun
            # Of each byte there are the data, its hexadecimal and the request to a node.
            hold.resize(5 * (len(response) + len(lookup.extra)))
            data = lookup.callback + abi.encode_bytes(response, lookup.extra)
        try:
            return await self._ethereum.call(to, data, read)
        except Reverted as revert:
            if _lookup(revert.data, to) is None:
                raise
            raise InvalidUpstreamResponse(
                f"The name needs more than {MAX_ROUNDS} lookups."
            ) from revert

    async def _response(self, request: GatewayRequest, seconds: float, attempts: Attempts) -> bytes:
        if LOCAL_BATCH in request.urls:
            return await self._batch(request.data, seconds, _Allowance(attempts))
        return await self._gateways.ask(request, seconds=seconds, attempts=attempts)

    async def _batch(self, query: bytes, seconds: float, allowance: "_Allowance") -> bytes:
        """What a batch gateway answers to *query*: responses, and errors in place of the others."""
        try:
            requests = read_query(query)
        except ValueError as wrong:
            raise InvalidUpstreamResponse(
                f"The batch of lookups cannot be read: {wrong}."
            ) from wrong
        try:
            async with asyncio.TaskGroup() as group:
                asking = [
                    group.create_task(self._element(request, seconds, allowance))
                    for request in requests
                ]
        except BaseExceptionGroup as failed:  # ours: the contract hears of no failed gateway
            raise failed.exceptions[0] from None
        return encode_batch([task.result() for task in asking])

    async def _element(
        self, request: GatewayRequest, seconds: float, allowance: "_Allowance"
    ) -> bytes | UpstreamError:
        """The response to one request of a batch, or why there is none."""
        try:
            allowance.take()
            # The request of a contract that asks the Universal Resolver is a batch in a batch.
            if LOCAL_BATCH in request.urls:
                return await self._batch(request.data, seconds, allowance)
            response = await self._gateways.ask(
                request, seconds=seconds, attempts=allowance.attempts
            )
            allowance.weigh(response)
        except UpstreamError as failed:
            return failed
        return response


class _Allowance:
    """How many requests a batch may still make, those of the batches in it included, how often
    gateways may be asked for them, and what they may say in all."""

    def __init__(self, attempts: Attempts) -> None:
        self.attempts = attempts
        self._left = MAX_BATCH
        self._bytes = MAX_RESPONSE_BYTES

    def take(self) -> None:
        """Count one request; raises InvalidUpstreamResponse when there were too many."""
        if not self._left:
            raise InvalidUpstreamResponse(f"A batch holds more than {MAX_BATCH} requests.")
        self._left -= 1

    def weigh(self, response: bytes) -> None:
        """Count the bytes of a *response*; raises InvalidUpstreamResponse for too many."""
        if len(response) > self._bytes:
            raise InvalidUpstreamResponse("The answers to a batch of lookups are too long.")
        self._bytes -= len(response)


def _lookup(revert: bytes, to: str) -> OffchainLookup | None:
    """The lookup that the contract at *to* asks for; None if it reverts with anything else."""
    try:
        lookup = read_lookup(revert)
    except ValueError as wrong:
        raise InvalidUpstreamResponse(f"The off-chain lookup cannot be read: {wrong}.") from wrong
    # EIP-3668: somebody deeper in the call may have said it, whose callback we cannot reach.
    if lookup is not None and "0x" + lookup.request.sender.hex() != to.lower():
        raise InvalidUpstreamResponse("The off-chain lookup is not that of the contract called.")
    return lookup


def read_lookup(revert: bytes) -> OffchainLookup | None:
    """The OffchainLookup in the data of a revert, None if it is another error.

    ValueError for one that is cut short, too long or otherwise broken."""
    if revert[:4] != abi.OFFCHAIN_LOOKUP:
        return None
    if len(revert) > MAX_LOOKUP_BYTES:
        raise ValueError(f"it has more than {MAX_LOOKUP_BYTES} bytes")
    arguments = revert[4:]
    request = _request(arguments, 0)
    callback = abi.read_selector(arguments, 3 * abi.WORD)
    return OffchainLookup(request, callback, abi.read_bytes(arguments, 4 * abi.WORD))


def read_query(query: bytes) -> list[GatewayRequest]:
    """The requests in a call of the batch gateway's only function; ValueError if it is none."""
    if query[:4] != _QUERY:
        raise ValueError("it calls another function")
    arguments = query[4:]
    count, first = abi.read_array(arguments)
    if count > MAX_BATCH:
        raise ValueError(f"it holds more than {MAX_BATCH} requests")
    offsets = (abi.read_uint(arguments, first + index * abi.WORD) for index in range(count))
    return [_request(arguments, first + offset) for offset in offsets]


def _request(data: bytes, base: int) -> GatewayRequest:
    """The sender, URLs and data with which both tuples begin, the tuple being at byte *base*."""
    count, first = abi.read_array(data, base + abi.WORD, base)
    urls = tuple(_url(data, first + index * abi.WORD, first) for index in range(count))
    return GatewayRequest(
        abi.read_address(data, base), urls, abi.read_bytes(data, base + 2 * abi.WORD, base)
    )


def _url(data: bytes, head: int, base: int) -> str:
    # Looked at before it is read: many offsets may lead to the same long string.
    if abi.read_uint(data, base + abi.read_uint(data, head)) > MAX_URL_BYTES:
        raise ValueError(f"a URL has more than {MAX_URL_BYTES} bytes")
    # What is not UTF-8 is no URL either, which is for the guard to say.
    return abi.read_bytes(data, head, base).decode("utf-8", "replace")


def encode_batch(elements: Sequence[bytes | UpstreamError]) -> bytes:
    """What `query` returns: `(bool[] failures, bytes[] responses)`."""
    failures = [isinstance(element, UpstreamError) for element in elements]
    responses = [
        encode_failure(element) if isinstance(element, UpstreamError) else element
        for element in elements
    ]
    return abi.with_offsets([abi.bools_tail(failures), abi.bytes_array_tail(responses)])


def encode_failure(failed: UpstreamError) -> bytes:
    """`HttpError(uint16,string)`: the gateway's status, or the one that a proxy would send.

    ENSIP-21 has `Error(string)` where no status came. A contract says that too, of its own
    accord; as a status, a gateway's failure stays one to whoever reads the records."""
    match failed:
        # Of its own server, which to us is an outage of the gateway, and no invalid answer of it.
        case GatewayFailed(status=http_error.INVALID):
            status = http_error.UNAVAILABLE
        case GatewayRefused() | GatewayFailed():
            status = failed.status
        case UpstreamTimeout():
            status = http_error.TIMEOUT
        case InvalidUpstreamResponse():
            status = http_error.INVALID
        case _:
            status = http_error.UNAVAILABLE
    return http_error.encode(status, failed.detail)
