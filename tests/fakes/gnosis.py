"""A miniature node of Gnosis: Ethereum's, with SPACE ID's registry of `.gno` and one resolver."""

from eth_abi.abi import encode

from tests.fakes.ethereum import NOBODY, Ethereum, Name, Revert, keccak256, selector

GNO_REGISTRY = "0x5dC881dDA4e4a8d312be3544AD13118D1a04Cb17"
RESOLVER = "0x" + "60" * 20
IDENTIFIER = 2702484275810670337286593638197304166435784191035983069259851825108946


def gno_node(name: str) -> bytes:
    """The node of *name*: the identifier stands as a label at the root, and is not hashed."""
    node = keccak256(bytes(32) + IDENTIFIER.to_bytes(32, "big"))
    for label in reversed(name.split(".")):
        node = keccak256(node + keccak256(label.encode()))
    return node


class Gnosis(Ethereum):
    """The node. What *names* hold is in the resolver, each a call by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.contracts[GNO_REGISTRY.lower()] = self._registered
        self.contracts[RESOLVER] = self._resolved

    def _registered(self, data: bytes) -> bytes:
        held = self._by_node(data[4:])
        if data[:4] == selector("owner(bytes32)"):
            return encode(["address"], [held.owner if held and held.owner else NOBODY])
        assert data[:4] == selector("resolver(bytes32)")
        return encode(["address"], [RESOLVER if held else NOBODY])

    def _resolved(self, data: bytes) -> bytes:
        node = data[4:36]
        held = self._by_node(node)
        assert held is not None
        record = self._record(held, node, data)
        if record and len(record) % 32 == 0:
            return record
        raise Revert(record)

    def _by_node(self, node: bytes) -> Name | None:
        return next((held for text, held in self.names.items() if gno_node(text) == node), None)
