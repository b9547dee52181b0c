"""The wire side of the outbound client: answers are read in small steps, and waste has an end.

Knows how much a server may send that is no answer: interim answers, header fields, the framing of
chunks, unsolicited bytes. The size and time of an answer are bounded by `http_client.py`.

Theory of operation. A loop that is handed 256 KiB at once parses them before anybody else has a
turn, and aiohttp waits for the end of interim answers without a turn at all. So the parser gets
a piece at a time, larger ones where next to nothing of them was framing, and after each piece we
ask what it was good for. Until the head is complete, all is head: at most 32 KiB, and four
interim answers. Behind it, a byte is body or framing; framing is free up to half of the body it
came with, and the rest is paid from 16 KiB for the whole answer. So a server decides how fast it
is thrown out, and never how long it holds us."""

import asyncio
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import HttpProcessingError

from content_gateway.concurrency.loop_turns import Turns

if TYPE_CHECKING:
    from aiohttp.http import RawResponseMessage

MAX_IDLE: Final = 64  # connections that are kept for another request
MAX_INTERIM: Final = 4
MAX_HEAD_BYTES: Final = 32 * 1024
MAX_FRAMING_BYTES: Final = 16 * 1024
_HEAD_STEP: Final = 4 * 1024
# Of a body: the most where there is next to no framing, and the least where there is more.
_STEP: Final = 16 * 1024
_LARGE_STEP: Final = 256 * 1024  # which is what uvloop reads at once
_NEXT_TO_NONE: Final = 1 / 64


class Wasteful(aiohttp.ClientError):
    """The server sends much that is no answer; its words say what."""


class ResponseProtocol(ResponseHandler):
    """One connection: hangs up on whoever wastes what it may waste in one exchange."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        idle: "dict[ResponseProtocol, None]",
        turns: Turns,
    ) -> None:
        super().__init__(loop)
        self._idle = idle
        self._turns = turns
        self._is_waiting = False  # for a turn
        self._is_held = False  # by whoever reads the body, until there is room again
        self._rest = memoryview(b"")  # of the last read, for the next turn or until there is room
        self._lost: tuple[BaseException | None] | None = None  # reported behind it
        self._begin()

    def _begin(self) -> None:
        """A new exchange: nothing is used up."""
        self._is_open = True
        self._interim = self._head_bytes = self._framing = 0
        self._body: aiohttp.StreamReader | None = None  # once the head is complete
        self._step = _HEAD_STEP
        self._unjudged = self._judged_body = 0

    def _end(self) -> None:
        """The exchange is over; of the connections that wait for another, the newest stay."""
        self._is_open = False
        self._idle[self] = None
        if len(self._idle) > MAX_IDLE:
            next(iter(self._idle)).close()

    def set_response_params(self, **params: Any) -> None:
        """A request is about to be sent, says the session."""
        self._idle.pop(self, None)
        self._begin()
        super().set_response_params(**params)

    def pause_reading(self) -> None:
        """Whoever reads the body has enough for now, says the body."""
        self._is_held = True
        super().pause_reading()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """There is room again, says the body: at every piece of it, be it a byte."""
        if self._is_held:
            self._is_held = False
            super().resume_reading(resume_parser)

    def data_received(self, data: bytes) -> None:
        """Parse *data*, now as far as this turn goes, and the rest in another."""
        if not data:  # aiohttp's word for: parse on with what is left
            self._feed(data)
        whole = bytes(self._rest) + data if self._rest else data
        self._rest, left = memoryview(b""), memoryview(whole)
        while left and self._goes_on and not (self._is_held or self._turns.is_over):
            piece, left = left[: self._step], left[self._step :]
            with self._turns.taking():
                # The parser takes bytes: most reads are one piece, and need no copy.
                self._feed(whole if len(piece) == len(whole) else bytes(piece))
        if left and self._goes_on and not self._is_open:
            self.abort()  # before the connection can be used again
            return
        self._rest = left
        if not self._is_behind:
            self._report_lost()
        elif left:
            self._wait_for_a_turn()

    @property
    def _goes_on(self) -> bool:
        return self.transport is not None and self.exception() is None

    @property
    def _is_behind(self) -> bool:
        """Whether something of the answer has arrived and is not parsed yet.

        aiohttp's parser stops within a piece when the body's reader has enough, keeps the rest of
        that piece, and would take the end of the connection for the end of the answer."""
        is_unread = bool(self._rest) or (self._is_held and self._is_open)
        return is_unread and self._goes_on

    def _wait_for_a_turn(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()
        if not self._is_held and not self._is_waiting:
            self._is_waiting = True
            self._turns.wait(self._go_on)

    def _go_on(self) -> None:
        """Its turn has come: parse what is left."""
        self._is_waiting = False
        if self._rest and not self._is_held:
            self.data_received(b"")
        transport = self.transport
        if transport and not transport.is_closing() and not (self._rest or self._is_held):
            transport.resume_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection is gone; reported when all that came before it is parsed."""
        self._idle.pop(self, None)
        self._lost = (exc,)
        if not self._is_behind:
            self._report_lost()

    def _report_lost(self) -> None:
        lost, self._lost = self._lost, None
        if lost is not None:
            super().connection_lost(*lost)

    def close(self) -> None:
        """Whoever asked wants no more of it."""
        self._idle.pop(self, None)
        super().close()
        self._report_lost()

    def abort(self) -> None:
        """The same, at once."""
        self._idle.pop(self, None)
        super().abort()
        self._report_lost()

    def _feed(self, piece: bytes) -> None:
        if piece and not self._is_open:
            # Nobody asked: it must not be taken for the answer to the next request (RFC 9112,
            # section 9.2).
            self.abort()
            return
        was_head = self._body is None
        super().data_received(piece)
        if not self._is_open:
            return
        if self.exception() is not None:
            if self._body is not None and isinstance(self.exception(), HttpProcessingError):
                self._refuse("The answer is not HTTP.")  # or the body would seem cut short
        elif self._body is None:
            self._head_bytes += len(piece)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse("The head of the answer is too long.")
        elif not was_head:
            self._judge(len(piece), self._body)

    def _judge(self, received: int, body: aiohttp.StreamReader) -> None:
        """Count what was *received* beside the *body*, unless some of it is not parsed yet."""
        self._unjudged += received
        if self._is_held:
            return
        gained = body.total_raw_bytes - self._judged_body
        framing = self._unjudged - gained
        self._framing += max(0, framing - gained // 2)
        # Small chunks take as long to parse as many large ones: only of these more at a time.
        is_little = framing <= self._unjudged * _NEXT_TO_NONE
        self._step = min(2 * self._step, _LARGE_STEP) if is_little else _STEP
        self._unjudged, self._judged_body = 0, body.total_raw_bytes
        if self._framing > MAX_FRAMING_BYTES:
            self._refuse("The answer is cut into too many pieces.")

    def feed_data(
        self, data: "tuple[RawResponseMessage, aiohttp.StreamReader]", size: int = 0
    ) -> None:
        """A head has been parsed; only that of the one answer is passed on."""
        message, body = data
        if self.exception() is not None:
            return
        if self._body is not None:
            self.force_close()  # a second answer to one request
        elif message.code >= 200:
            self._body, self._step = body, _STEP if message.chunked else _LARGE_STEP
            self._turns.spend_on_one()  # whoever asked goes on with it in the next turn
            super().feed_data(data, size)
            body.on_eof(self._end)
        else:
            self._interim += 1
            # 101 (RFC 9110, section 15.2.2) agrees to what was never proposed.
            if self._interim > MAX_INTERIM or message.code == 101:
                self._refuse("The server promises an answer again and again.")

    def _refuse(self, why: str) -> None:
        wrong = Wasteful(why)
        self.abort()
        self.set_exception(wrong)
        if self._body is not None:
            self._body.set_exception(wrong)


def with_bounds(connector: aiohttp.TCPConnector, turns: Turns) -> aiohttp.TCPConnector:
    """*connector*, with connections of this kind that share *turns*. Needs a running loop."""
    # aiohttp has no public place for it: the parser, and the loop that waits for the end of
    # interim answers, are reached through the protocol alone.
    connection: Callable[..., ResponseHandler] = ResponseProtocol
    loop = asyncio.get_running_loop()
    connector._factory = functools.partial(connection, loop=loop, idle={}, turns=turns)
    return connector
