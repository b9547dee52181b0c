"""IPFS Cluster over its REST API.

Knows the API's paths, answers and traps (facts-pins sections 2 and 5): only `/allocations` says
cheaply and truly that a CID is not in the pinset, and a pin is believed when enough of the
allocated peers say `pinned`. When to ask again is the reconciler's business."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from content_gateway.content.cid import Cid
from content_gateway.content.pins import Holding
from content_gateway.errors import PinFailed, UpstreamNonsense, UpstreamUnavailable
from content_gateway.outbound import Answer, Outbound, json_object

MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
# The cluster asks every peer for a status and waits up to 15 s for each that is dead.
_STATUS_SECONDS: Final = 20.0


class IpfsCluster:
    """One cluster, through one of its peers."""

    def __init__(
        self,
        outbound: Outbound,
        url: str,
        *,
        username: str = "",
        password: str = "",
        seconds: float = 10.0,
    ) -> None:
        self._outbound = outbound
        self._url = url.rstrip("/")
        self._seconds = seconds
        self._headers: dict[str, str] = {}
        if username:
            credentials = b64encode(f"{username}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {credentials}"

    async def look(self, cid: Cid) -> Holding:
        """What the cluster holds of *cid*; raises PinFailed when every allocated peer failed."""
        allocation = await self._ask("GET", f"/allocations/{cid}")
        if allocation.status == 404:
            return Holding.ABSENT
        wanted = _object(allocation).get("replication_factor_min")
        status = await self._ask("GET", f"/pins/{cid}", _STATUS_SECONDS)
        return read_status(_object(status), wanted if isinstance(wanted, int) else -1)

    async def submit(self, cid: Cid) -> None:
        """Put *cid* into the pinset. A bad CID is the only refusal that blames the content."""
        answer = await self._ask("POST", f"/pins/{cid}")
        if answer.status == 400:
            raise PinFailed(f"The cluster refused the pin: {_message(answer)}")
        _object(answer)

    async def _ask(self, method: str, path: str, seconds: float | None = None) -> Answer:
        answer = await self._outbound.ask(
            method,
            self._url + path,
            seconds=seconds or self._seconds,
            max_bytes=MAX_ANSWER_BYTES,
            headers=self._headers,
        )
        if answer.status in (401, 403):
            raise UpstreamUnavailable("The cluster refuses our user name and password.")
        if answer.status == 429 or answer.status >= 500:
            raise UpstreamUnavailable(f"The cluster answered {answer.status}: {_message(answer)}")
        return answer


def read_status(status: Mapping[str, Any], replication_min: int) -> Holding:
    """What a status object means for a pin that wants *replication_min* peers (below 1: all).

    Raises PinFailed with the peers' reasons when all of them failed, UpstreamNonsense when it
    is not a status."""
    peers = status.get("peer_map")
    if not isinstance(peers, dict) or not all(isinstance(peer, dict) for peer in peers.values()):
        raise UpstreamNonsense("The cluster's answer is not a pin status.")
    allocated = [peer for peer in peers.values() if peer.get("status") != "remote"]
    states = [peer.get("status") for peer in allocated]
    wanted = replication_min if replication_min > 0 else len(states)
    if states and states.count("pinned") >= wanted:
        return Holding.PINNED
    if states and all(state == "pin_error" for state in states):
        reasons = {str(peer.get("error") or "unknown") for peer in allocated}
        raise PinFailed("The cluster could not pin it: " + "; ".join(sorted(reasons))[:500])
    return Holding.PINNING


def _object(answer: Answer) -> dict[str, Any]:
    """The JSON object of a good answer; raises UpstreamNonsense for anything else."""
    if answer.status != 200:
        raise UpstreamNonsense(f"The cluster answered {answer.status}.")
    return json_object(answer.body, who="The cluster")


def _message(answer: Answer) -> str:
    """The cluster's own words about an error, from the first line: a second may follow."""
    try:
        first = answer.body.partition(b"\n")[0]
        return str(json_object(first, who="The cluster")["message"])[:500]
    except (UpstreamNonsense, KeyError):
        return "no reason given"
