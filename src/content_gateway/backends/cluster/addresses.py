"""The multiaddrs in what an IPFS Cluster says: origins of its pins, addresses of its IPFS nodes.

Knows the members of its JSON (api/types.go: Pin, ID). What no address is to us is left out, as
the cluster may know more protocols than we do. Asks nobody."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from content_gateway.model.multiaddr import Multiaddr


def read_origins(pin: Mapping[str, Any]) -> list[Multiaddr]:
    """The origins in *pin*, as `/allocations` has it."""
    return multiaddrs(pin.get("origins"))


def read_addresses(peer: Mapping[str, Any]) -> list[str]:
    """Where the IPFS node of *peer*, a line of `/peers`, is reachable; empty if it did not say."""
    node = peer.get("ipfs")
    found = multiaddrs(node.get("addresses") if isinstance(node, dict) else None)
    return [address.text for address in found]


def multiaddrs(listed: Any) -> list[Multiaddr]:
    """The multiaddrs in the JSON value *listed*; none where it is no list."""
    found = []
    for text in listed if isinstance(listed, list) else ():
        with suppress(ValueError):
            found.append(Multiaddr.parse(text if isinstance(text, str) else ""))
    return found
