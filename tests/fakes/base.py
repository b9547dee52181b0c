"""A miniature node of Base: Ethereum's, with the registry of Basenames."""

from eth_abi.abi import encode

from content_gateway.model.domain import DomainName
from tests.fakes.ethereum import NOBODY, Ethereum, namehash, selector

BASE_REGISTRY = "0xB94704422c2a1E396835A571837Aa5AE53285a95"
RESOLVER = "0x" + "5e" * 20


class Base(Ethereum):
    """Base with the registry of Basenames: who owns a name, and its resolver's contenthash."""

    def __init__(self) -> None:
        super().__init__()
        self.contenthashes: dict[bytes, bytes] = {}
        self.owners: dict[bytes, str] = {}
        self.contracts[BASE_REGISTRY.lower()] = self._registry
        self.contracts[RESOLVER] = self._resolver

    def put(self, name: DomainName, contenthash: bytes, owner: str = NOBODY) -> None:
        """Let *name* exist."""
        node = namehash(name.text)
        self.contenthashes[node], self.owners[node] = contenthash, owner

    def _registry(self, data: bytes) -> bytes:
        function, node = data[:4], data[4:]
        if function == selector("owner(bytes32)"):
            return encode(["address"], [self.owners.get(node, NOBODY)])
        assert function == selector("resolver(bytes32)")
        return encode(["address"], [RESOLVER if node in self.contenthashes else NOBODY])

    def _resolver(self, data: bytes) -> bytes:
        assert data[:4] == selector("contenthash(bytes32)")
        return encode(["bytes"], [self.contenthashes[data[4:]]])
