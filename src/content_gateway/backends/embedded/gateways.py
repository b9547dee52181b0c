"""Several trustless gateways: who is asked for a block, who next, and who never again.

Knows that gateways differ by pin (one has the content, another has not) and that one which has
served wrong bytes for a block is not asked for it any more. What one gateway says is
TrustlessGateway's business, what is wanted the retrieval's."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from content_gateway.backends.embedded.gateway import Busy, NotGiven, TrustlessGateway, WrongBytes
from content_gateway.errors import (
    PinDeferred,
    PinFailed,
    UpstreamError,
    UpstreamUnavailable,
)
from content_gateway.model.cid import Cid
from content_gateway.net.http_client import HttpClient

HEDGE_SECONDS: Final = 2.0
WRONG_SECONDS: Final = 3600.0
_MAX_WRONG: Final = 10_000


class TrustlessGateways:
    """The gateways at *urls*.

    One block from one of them may take *seconds*; after *hedge_seconds* another is asked beside
    it. A whole CAR may take *stream_seconds*."""

    def __init__(
        self,
        outbound: HttpClient,
        urls: Sequence[str],
        *,
        seconds: float = 30.0,
        stream_seconds: float = 3600.0,
        hedge_seconds: float = HEDGE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._all = [
            TrustlessGateway(outbound, url, seconds=seconds, stream_seconds=stream_seconds)
            for url in dict.fromkeys(url.rstrip("/") for url in urls)
        ]
        self._seconds, self._stream_seconds = seconds, stream_seconds
        self._hedge_seconds = hedge_seconds
        self._clock = clock
        self._turn = 0
        # A gateway may be mended, so what it did wrong is forgotten after an hour.
        self._wrong: OrderedDict[tuple[TrustlessGateway, bytes], float] = OrderedDict()

    def take_turns(self) -> list[TrustlessGateway]:
        """All of them; each time another one is the first."""
        self._turn += 1
        at = self._turn % len(self._all) if self._all else 0
        return self._all[at:] + self._all[:at]

    def joined_by(self, outbound: HttpClient, urls: Sequence[str]) -> "TrustlessGateways":
        """These and, for one content, those at *urls*, which others chose and *outbound*
        reaches."""
        joined = TrustlessGateways(
            outbound,
            urls,
            seconds=self._seconds,
            stream_seconds=self._stream_seconds,
            hedge_seconds=self._hedge_seconds,
            clock=self._clock,
        )
        for origin in joined._all:
            origin.name = "an origin"  # all who hold the content read why it is not pinned
        joined._all = [*self._all, *joined._all]
        joined._wrong = self._wrong
        return joined

    def was_wrong(self, gateway: TrustlessGateway, multihash: bytes) -> bool:
        """Whether *gateway* has served wrong bytes for that block."""
        return self._wrong.get((gateway, multihash), 0.0) > self._clock()

    def note_wrong(self, gateway: TrustlessGateway, multihash: bytes) -> None:
        """Take note that *gateway* has served wrong bytes for that block."""
        self._wrong[gateway, multihash] = self._clock() + WRONG_SECONDS
        if len(self._wrong) > _MAX_WRONG:
            self._wrong.popitem(last=False)

    async def block(self, cid: Cid, score: "PeerScore") -> bytes:
        """The verified bytes of the block *cid* from the first gateway that gives them.

        One that refuses for too many requests is asked again when it takes more, and the others
        meanwhile. Raises PinFailed when gateways answered and none had it, PinDeferred when some
        were too slow or too busy to say, UpstreamUnavailable when none could be reached."""
        failures: dict[TrustlessGateway, UpstreamError] = {}
        waiting: list[TrustlessGateway] = []
        for gateway in sorted(self.take_turns(), key=score.rank):
            if self.was_wrong(gateway, cid.multihash):
                failures[gateway] = WrongBytes("It served wrong bytes.")
            else:
                waiting.append(gateway)
        running: dict[asyncio.Task[bytes], TrustlessGateway] = {}
        try:
            while waiting or running:
                if waiting:
                    gateway = waiting.pop(0)
                    running[asyncio.create_task(gateway.block(cid))] = gateway
                done, _ = await asyncio.wait(
                    running,
                    timeout=self._hedge_seconds if waiting else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in done:
                    gateway = running.pop(task)
                    try:
                        data = task.result()
                    except Busy as refused:
                        if gateway.pace.takes_nothing:
                            failures[gateway] = refused
                        else:
                            waiting.append(gateway)
                        continue
                    except UpstreamError as failed:
                        failures[gateway] = failed
                        self._record_failure(gateway, cid, failed, score)
                        continue
                    score.note(gateway, gave=True)
                    return data
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        raise _none_gave(cid, failures)

    def _record_failure(
        self, gateway: TrustlessGateway, cid: Cid, failed: UpstreamError, score: "PeerScore"
    ) -> None:
        if isinstance(failed, WrongBytes):
            self.note_wrong(gateway, cid.multihash)
        score.note(gateway, gave=False)


class PeerScore:
    """How the gateways have served one pin: those that mostly failed are asked last."""

    def __init__(self) -> None:
        self._balance: dict[TrustlessGateway, int] = {}

    def note(self, gateway: TrustlessGateway, *, gave: bool) -> None:
        """Take note of how a request has ended."""
        balance = self._balance.get(gateway, 0) + (1 if gave else -1)
        self._balance[gateway] = max(-3, min(balance, 3))

    def is_penalised(self, gateway: TrustlessGateway) -> bool:
        """Whether others should be asked first."""
        return self._balance.get(gateway, 0) < 0

    def rank(self, gateway: TrustlessGateway) -> tuple[bool, float]:
        """Its place in the order of asking: the least first."""
        return self.is_penalised(gateway), gateway.pace.delay


def _none_gave(cid: Cid, failures: dict[TrustlessGateway, UpstreamError]) -> UpstreamError:
    """What it means that all of *failures* happened, in words that name each gateway."""
    reasons = [f"{gateway.name}: {failed.detail}" for gateway, failed in failures.items()]
    detail = " ".join([f"No gateway gave the block {cid}.", *reasons])
    if any(isinstance(failed, Busy) for failed in failures.values()):
        return PinDeferred(detail)  # it may have it: a refusal is no verdict
    if any(isinstance(failed, NotGiven) for failed in failures.values()):
        return PinFailed(detail)
    if any(isinstance(failed, PinDeferred) for failed in failures.values()):
        return PinDeferred(detail)
    return UpstreamUnavailable(detail)
