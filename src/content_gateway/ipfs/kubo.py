"""Kubo over its RPC API, as a pin backend for one node.

Knows `pin/ls` and `pin/add` and their trap (facts-pins sections 2 and 6): adding a pin that is
there already drops it first, so nothing is added that a look has not shown to be absent. When
to ask again is the reconciler's business."""

from typing import Any, Final

from content_gateway.content.cid import Cid
from content_gateway.content.pins import Holding
from content_gateway.errors import PinFailed, UpstreamUnavailable
from content_gateway.outbound import Answer, Outbound, json_object

MAX_ANSWER_BYTES: Final = 64 * 1024


class Kubo:
    """One node, by the base URL of its RPC API; *pin_seconds* bounds one retrieval."""

    def __init__(
        self, outbound: Outbound, url: str, *, seconds: float = 10.0, pin_seconds: float = 600.0
    ) -> None:
        self._outbound = outbound
        self._url = url.rstrip("/")
        self._seconds = seconds
        self._pin_seconds = pin_seconds

    async def look(self, cid: Cid) -> Holding:
        """Whether the node holds *cid* pinned recursively."""
        answer = await self._ask(f"pin/ls?arg={cid}&type=recursive", self._seconds)
        value = json_object(answer.body, who="Kubo")
        keys = value.get("Keys")
        if answer.status == 200 and isinstance(keys, dict) and str(cid) in keys:
            return Holding.PINNED
        if answer.status == 500 and str(value.get("Message", "")).endswith("is not pinned"):
            return Holding.ABSENT
        raise UpstreamUnavailable(f"Kubo could not say what it holds: {_message(value)}")

    async def submit(self, cid: Cid) -> None:
        """Pin *cid*, which was looked for and is absent; returns when all of it is there."""
        answer = await self._ask(f"pin/add?arg={cid}&recursive=true", self._pin_seconds)
        value = json_object(answer.body, who="Kubo")
        if answer.status != 200 or value.get("Pins") != [str(cid)]:
            raise PinFailed(f"Kubo could not pin it: {_message(value)}")

    async def _ask(self, call: str, seconds: float) -> Answer:
        return await self._outbound.ask(
            "POST", f"{self._url}/api/v0/{call}", seconds=seconds, max_bytes=MAX_ANSWER_BYTES
        )


def _message(value: dict[str, Any]) -> str:
    return str(value.get("Message") or "no reason given")[:500]
