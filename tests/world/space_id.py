"""SPACE ID's `.gno` on a real node, at the address that its registry has on Gnosis.

Registry and resolver are ENS's own compiled code, whose functions and events SPACE ID's have; the
ending is put into it as SPACE ID's SANN contract does (docs/facts/names.md). Its token, and what
that knows of expiry, is not there: nobody asks it for names."""

from typing import Self

from tests.fakes.ethereum import keccak256
from tests.fakes.gnosis import GNO_REGISTRY, IDENTIFIER, gno_node

from .ens import EnsWorld, calldata
from .ethereum import Anvil

_ROOT = bytes(32)


class SpaceIdWorld(EnsWorld):
    """`.gno` on one node; its first account owns the ending."""

    registry = GNO_REGISTRY

    @classmethod
    async def deploy(cls, anvil: Anvil) -> Self:
        """Put registry and resolver on *anvil*'s chain."""
        world = await cls._with_registry(anvil)
        label = IDENTIFIER.to_bytes(32, "big")
        for parent, below in ((_ROOT, label), (keccak256(_ROOT + label), keccak256(b"gno"))):
            signature = "setSubnodeOwner(bytes32,bytes32,address)"
            await world._register(parent, calldata(signature, parent, below, anvil.account))
        return world

    @staticmethod
    def node_of(name: str) -> bytes:
        """The node of *name*, which is `gno` or ends in `.gno`."""
        return gno_node(name)
