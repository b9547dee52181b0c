"""One Ethereum node: `eth_call` and `eth_blockNumber` over JSON-RPC.

Knows how nodes report results, reverts and failures, and how healthy this one is. Which of several
nodes is asked is left to rpc.py and quorum.py, what the bytes mean to `names/`."""

import asyncio
import re
from binascii import unhexlify
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec
import structlog

from content_gateway.codecs.abi import Reverted
from content_gateway.errors import (
    InvalidUpstreamResponse,
    NoContract,
    Overloaded,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from content_gateway.net.circuit_breaker import Breaker, BreakerAttempt
from content_gateway.net.http_client import HttpClient, host_of, json_object

# In hexadecimal: half a megabyte of records, or of a contract's request for a lookup.
MAX_ANSWER_BYTES: Final = 1024 * 1024 + 64 * 1024
_REVERT_CODE: Final = 3  # as geth and its kin report a revert
_LIMIT_EXCEEDED: Final = -32005  # EIP-1474
_NEWEST_WEIGHT: Final = 0.2  # of the newest answer in the usual latency
_QUANTITY: Final = re.compile(r"0x[0-9a-fA-F]{1,16}")

T = TypeVar("T")

log = structlog.get_logger(__name__)


class NodeRefused(UpstreamUnavailable):
    """The node says itself that it cannot answer the call; *said* is for the log only, as a
    provider's words may name the operator's project or plan."""

    def __init__(self, said: str) -> None:
        super().__init__("The Ethereum endpoint answered with an error.")
        self.said = said


class NodeBehind(UpstreamUnavailable):
    """The node does not have the block yet that an answer must not be behind."""


class Endpoint:
    """The node at *url*, in logs and metrics called *name*; *seconds* bounds one request."""

    def __init__(
        self,
        outbound: HttpClient,
        url: str,
        *,
        name: str,
        seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self.breaker = Breaker(clock)
        self.name = name
        self.usual_latency: float | None = None
        self.patience = seconds / 4  # a node that takes longer may be unhealthy
        self.clock = clock
        self.answers = 0  # so far, to whatever was asked
        self.block = 0  # the newest that it has said to have
        self.is_being_checked = False
        self._outbound = outbound
        self._url = url
        self._seconds = seconds

    def enter(self) -> "CallAttempt | None":
        """The attempt of a call that may be made now; None while its breaker is open."""
        attempt = self.breaker.enter()
        return None if attempt is None else CallAttempt(self, attempt)

    async def ask(self, request: bytes, begun: Callable[[], None]) -> bytes:
        """The node's answer to a JSON-RPC *request*; *begun* is called when it is sent.

        Raises UpstreamError, and Overloaded where it could not be sent."""
        start = self.clock()

        def is_sent() -> None:
            nonlocal start
            start = self.clock()
            begun()

        answer = await self._outbound.ask(
            "POST",
            self._url,
            seconds=self._seconds,
            max_bytes=MAX_ANSWER_BYTES,
            headers={"Content-Type": "application/json"},
            body=request,
            begun=is_sent,
        )
        if answer.status == 429 or answer.status >= 500:
            raise UpstreamUnavailable(f"The Ethereum endpoint answered {answer.status}.")
        took = self.clock() - start
        self.answers += 1
        usual = took if self.usual_latency is None else self.usual_latency
        self.usual_latency = usual + _NEWEST_WEIGHT * (took - usual)
        return answer.body

    async def check_health(self) -> None:
        """Ask for the newest block, to see whether the node answers at all."""
        self.is_being_checked = True
        try:
            with suppress(UpstreamError, Overloaded):
                await self.ask(_BLOCK_NUMBER, lambda: None)
        finally:
            self.is_being_checked = False


def endpoints_of(
    outbound: HttpClient, urls: Sequence[str], *, seconds: float, clock: Callable[[], float]
) -> list[Endpoint]:
    """The nodes at *urls*, in their order, each with a name of its own."""
    # Host and port, as the rest may be the operator's secret; and where that names several, as two
    # plans of one provider, which of *urls* it is, from 1.
    hosts = [host_of(url) for url in urls]
    several = Counter(hosts)
    names = [
        f"{host}#{number}" if several[host] > 1 else host for number, host in enumerate(hosts, 1)
    ]
    return [
        Endpoint(outbound, url, name=name, seconds=seconds, clock=clock)
        for url, name in zip(urls, names, strict=True)
    ]


class CallAttempt:
    """One call of an endpoint, from the moment its breaker has let it in until it ends.

    A contract may be anybody's: it can make every node refuse, answer invalid bytes, or not answer
    at all. Such an outcome counts against a node only if another one does better, or a few requests
    for such a name would open all breakers. That the call hangs, and not the node, shows in what
    the node has answered meanwhile; a probe asks for the newest block first."""

    def __init__(self, endpoint: Endpoint, attempt: BreakerAttempt) -> None:
        self.endpoint = endpoint
        self._attempt = attempt
        self._begun: float | None = None  # while it waits for a connection
        self._answers = 0  # of the node, when it began
        self._late: asyncio.TimerHandle | None = None  # when it takes too long
        self._check: asyncio.Task[None] | None = None
        self._is_over = False

    async def call(self, request: bytes, at_least: int = 0) -> bytes:
        """What the contract returns to a *request* of `encode_call`; never empty.

        Raises NodeBehind where the node does not have the block *at_least*, Reverted when the
        contract refuses, Overloaded where nothing was asked for want of a connection,
        UpstreamError for any other failure."""
        if self._attempt.is_probe:
            await self.block_number()
            self._attempt.succeeded()
        if self.endpoint.block < at_least and await self.block_number() < at_least:
            raise NodeBehind("The Ethereum endpoint does not have the newest block yet.")
        try:
            return read_call_answer(await self.endpoint.ask(request, self._sent))
        finally:
            if self._late is not None:
                self._late.cancel()
            if self._check is not None:
                self._check.cancel()
                await asyncio.gather(self._check, return_exceptions=True)

    async def block_number(self) -> int:
        """The number of the newest block the node knows; raises as `call` does."""
        number = read_block_number(await self.endpoint.ask(_BLOCK_NUMBER, self._begin))
        self.endpoint.block = number
        return number

    def _begin(self) -> None:
        self._begun, self._answers = self.endpoint.clock(), self.endpoint.answers

    def _sent(self) -> None:
        self._begin()
        if self._late is not None:
            self._late.cancel()
        loop = asyncio.get_running_loop()
        self._late = loop.call_later(self.endpoint.patience, self._check_health)

    def _check_health(self) -> None:
        if not self.endpoint.is_being_checked:
            self._check = asyncio.create_task(self.endpoint.check_health(), name="rpc check")

    @property
    def _hangs_alone(self) -> bool:
        """Whether the node has answered other calls since it was asked this."""
        return self._begun is not None and self.endpoint.answers > self._answers

    def answered(self) -> None:
        """The node answered; a revert is a good answer."""
        self._attempt.succeeded()

    def failed(self, failure: UpstreamError | Overloaded) -> bool:
        """The node failed; False if that may be the contract's doing: `lost_race` may follow."""
        self._is_over = True
        if isinstance(failure, Overloaded):
            self._attempt.abandoned()
            return True
        said = failure.said if isinstance(failure, NodeRefused) else None
        name = self.endpoint.name
        log.warning("rpc endpoint failed", endpoint=name, reason=failure.detail, said=said)
        if isinstance(failure, InvalidUpstreamResponse | NodeRefused):
            return False
        if isinstance(failure, UpstreamTimeout) and self._hangs_alone:
            return False
        self._attempt.failed()
        return True

    def lost_race(self) -> None:
        """Another node has answered what this one could not, or not in time."""
        if self._begun is None:
            self._attempt.abandoned()  # it was not asked yet
        else:
            self._attempt.failed()

    def abandoned(self) -> None:
        """Nobody waits any more; the node's failure only if somebody waited for long."""
        begun, endpoint = self._begun, self.endpoint
        if (
            not self._is_over
            and begun is not None
            and endpoint.clock() - begun >= endpoint.patience
            and not self._hangs_alone
        ):
            self._attempt.failed()
        self._attempt.abandoned()


def encode_call(to: str, data: bytes, block: str = "latest") -> bytes:
    """The JSON-RPC request that calls the contract at *to* with *data*, as of *block*."""
    return encode("eth_call", {"to": to, "data": "0x" + data.hex()}, block)


def encode(method: str, *params: Any) -> bytes:
    """The JSON-RPC request for *method* with *params*."""
    return msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


_BLOCK_NUMBER: Final = encode("eth_blockNumber")


def understood(returned: bytes, read: Callable[[bytes], T]) -> T:
    """*read* of what a contract *returned*; InvalidUpstreamResponse for its ValueError."""
    try:
        return read(returned)
    except ValueError as wrong:
        raise InvalidUpstreamResponse(f"The contract's answer cannot be read: {wrong}.") from wrong


def read_call_answer(body: bytes) -> bytes:
    """The returned bytes in a JSON-RPC answer to `eth_call`.

    Raises Reverted for a revert, UpstreamUnavailable for any other error the node reports,
    NoContract where nothing is returned, InvalidUpstreamResponse for anything else."""
    returned = _hex_bytes(_result(body))
    if returned is None:
        raise InvalidUpstreamResponse("The Ethereum endpoint answered without a result.")
    if not returned:
        # An address without code "returns" nothing: the wrong chain, or a broken node.
        raise NoContract("There is no contract at that address on this endpoint's chain.")
    return returned


def read_block_number(body: bytes) -> int:
    """The number in a JSON-RPC answer to `eth_blockNumber`; raises UpstreamError."""
    try:
        number = _result(body)
    except Reverted:
        number = None  # no contract was called that could refuse
    if isinstance(number, str) and _QUANTITY.fullmatch(number):
        return int(number, 16)
    raise InvalidUpstreamResponse("The Ethereum endpoint answered without a block number.")


def read_result(body: bytes) -> object:
    """The result in a JSON-RPC answer to anything but `eth_call`; raises UpstreamError."""
    try:
        return _result(body)
    except Reverted as refused:  # no contract was called that could
        raise NodeRefused("a revert") from refused


def _result(body: bytes) -> object:
    answer = json_object(body, who="The Ethereum endpoint")
    error = answer.get("error")
    if isinstance(error, dict):
        raise _failure(error)
    if error is not None:
        # JSON-RPC 2.0 section 5: a result, or an error object, and never both.
        raise InvalidUpstreamResponse(
            "The Ethereum endpoint answered with an error of no known form."
        )
    return answer.get("result")


def _failure(error: Mapping[str, Any]) -> Exception:
    """A node's error object: a revert with its data, or a node that cannot answer."""
    data = error.get("data")
    if isinstance(data, dict):
        data = data.get("data")
    revert = _hex_bytes(data)
    if revert is not None and (revert or error.get("code") == _REVERT_CODE):
        return Reverted(revert)
    if error.get("code") == _LIMIT_EXCEEDED:
        return UpstreamUnavailable("The Ethereum endpoint is asked too much.")
    return NodeRefused(f"{error.get('code')}: {error.get('message')}"[:200])


def _hex_bytes(value: object) -> bytes | None:
    if not isinstance(value, str) or not value.startswith("0x"):
        return None
    try:
        return unhexlify(value[2:])
    except ValueError:
        return None
