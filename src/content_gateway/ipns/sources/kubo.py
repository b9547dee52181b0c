"""The operator's Kubo as a source of IPNS records, over its RPC API (`routing/get`).

Knows the events Kubo answers with and the error it says "none" with. Nothing it returns is
believed here, though the node is the operator's own: verification is the resolver's business."""

from base64 import b64decode
from typing import Any, Final

from content_gateway.errors import InvalidUpstreamResponse, UpstreamUnavailable
from content_gateway.ipns.sources.http import NOT_FOUND
from content_gateway.model.ipns_name import MAX_RECORD_BYTES, IpnsName
from content_gateway.net.http_client import Answer, HttpClient, json_object

MAX_ANSWER_BYTES: Final = 64 * 1024  # a record in base64 needs 14 KiB; other events may precede it
_VALUE: Final = 5  # go-libp2p routing.QueryEvent: the type of the event that holds the value


class KuboSource:
    """One node, by the base URL of its RPC API.

    A node that is offline refuses: it cannot look. One that is online but has nobody to ask
    answers from what it published or saw before."""

    kind = "kubo"

    def __init__(self, outbound: HttpClient, url: str, *, seconds: float) -> None:
        self._outbound = outbound
        self._url = url.rstrip("/")
        self._seconds = seconds

    async def record(self, name: IpnsName) -> bytes | None:
        """The best record of *name* that the node found, None if none; raises UpstreamError."""
        answer = await self._outbound.ask(
            "POST",
            f"{self._url}/api/v0/routing/get?arg=/ipns/{name}",
            seconds=self._seconds,  # Kubo gives up when we hang up
            max_bytes=MAX_ANSWER_BYTES,
        )
        if answer.status == 200:
            return read_value(answer.body)
        # Unlike a gateway's, a 404 is no absence here: it means that there is no RPC API.
        if answer.status != 500 or _message(answer) != NOT_FOUND:
            raise UpstreamUnavailable(f"Kubo answered {answer.status} when asked for a record.")
        return None


def read_value(body: bytes) -> bytes:
    """The record in Kubo's events, a JSON object a line; raises InvalidUpstreamResponse."""
    found: Any = None
    for line in body.splitlines():
        event = json_object(line, who="Kubo")
        if event.get("Type") == _VALUE:
            found = event.get("Extra")  # later ones are better: the last is the result
    try:
        record = b64decode(found, validate=True)
    except (TypeError, ValueError) as wrong:
        raise InvalidUpstreamResponse("Kubo's answer holds no record.") from wrong
    if len(record) > MAX_RECORD_BYTES:
        raise InvalidUpstreamResponse(f"Kubo's record has more than {MAX_RECORD_BYTES} bytes.")
    return record


def _message(answer: Answer) -> object:
    try:
        return json_object(answer.body, who="Kubo").get("Message")
    except InvalidUpstreamResponse:
        return None  # not Kubo's own words: somebody's before it
