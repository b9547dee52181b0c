"""Nodes: under which 32 bytes registries of ENS's shape keep a name.

Knows EIP-137, and the root that SPACE ID gives to an ending in place of the root node
(docs/facts/names.md, SPACE ID). What is kept there is left to the name services."""

from typing import Final

from content_gateway.model.domain import DomainName

GNO: Final = "gno"
# keccak256(32 zero bytes ‖ the ending's identifier); the label of the root is not hashed.
_GNO_ROOT: Final = bytes.fromhex("c4a8c56f9b0096f720f38bd557d30306dbd78f7751d277e05f062d1b85912a63")


def space_id_node(name: DomainName) -> bytes:
    """The node of *name*, which ends in `.gno`, in the registry of SPACE ID."""
    return name.node_below(_GNO_ROOT)


def nodes_of(name: DomainName) -> tuple[bytes, ...]:
    """Each node under which some registry may keep *name*."""
    if name.labels[-1] == GNO:
        return name.namehash, space_id_node(name)
    return (name.namehash,)
