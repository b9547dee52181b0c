"""What goes into a request to an IPFS Cluster: CIDs that fit into one, and options that hold.

Knows the limits of its REST API (docs/facts/pins.md). Sends nothing."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from content_gateway.model.cid import Cid
from content_gateway.model.multiaddr import Multiaddr

# The cluster reads no more than 4096 bytes of request line and headers.
_CIDS_A_CALL: Final = 50
_LONGEST_CIDS: Final = 3200
_LONGEST_ORIGINS: Final = 2400
_MOST_ORIGINS: Final = 10  # its nodes connect to no more (ipfshttp.go, Connector.Pin)


def batches(cids: Sequence[Cid]) -> list[list[Cid]]:
    """*cids* in pieces that fit into one request line."""
    pieces: list[list[Cid]] = []
    room = 0
    for cid in cids:
        length = len(str(cid)) + 1
        if not pieces or length > room or len(pieces[-1]) == _CIDS_A_CALL:
            pieces.append([])
            room = _LONGEST_CIDS
        pieces[-1].append(cid)
        room -= length
    return pieces


def pin_options(least: int, most: int) -> str:
    """The query that asks for these replication factors: 0 is the cluster's own, -1 all peers.

    That they fit together is checked with the settings."""
    if least == 0 and most == 0:
        return ""
    return f"?replication-min={least}&replication-max={most or least}"


def useful(origins: Sequence[Multiaddr]) -> list[Multiaddr]:
    """Those of *origins* that a node can connect to, as many as it does and as go into a request.

    What is no multiaddr or names no peer would be refused with 400, and the CID pinned all the
    same (docs/facts/pins.md, trap 1; PinOptions.FromQuery)."""
    fitting: list[Multiaddr] = []
    room = _LONGEST_ORIGINS
    for origin in origins:
        size = len(quote(origin.text)) + 1
        if origin.peer_id is not None and size <= room and len(fitting) < _MOST_ORIGINS:
            fitting.append(origin)
            room -= size
    return fitting


def with_origins(options: str, origins: Sequence[Multiaddr]) -> str:
    """The query *options* with *origins*, which are separated by commas (PinOptions.FromQuery)."""
    if not origins:
        return options
    listed = ",".join(quote(origin.text) for origin in origins)
    return f"{options}{'&' if options else '?'}origins={listed}"
