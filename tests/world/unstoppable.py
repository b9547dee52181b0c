"""Real contracts of Unstoppable Domains on a real node, the ProxyReader where a test wants it.

Registry and reader are UNS's own compiled code, without the proxies that make them upgradeable.
Puts names on the chain; asking for them is what the tests are about."""

import json
from collections.abc import Mapping

from eth_utils.address import to_checksum_address

from tests.fakes.ethereum import namehash

from .ens import NOBODY, calldata
from .ethereum import Anvil
from .peers import require_peer


class UnstoppableWorld:
    """UNS on one chain. `registry` keeps its names, `proxy_reader` answers for them."""

    def __init__(self, anvil: Anvil, registry: str, proxy_reader: str) -> None:
        self.proxy_reader = proxy_reader
        self._anvil = anvil
        self.registry = registry

    @classmethod
    async def deploy(cls, anvil: Anvil) -> "UnstoppableWorld":
        """Put the contracts on *anvil*'s chain; its first account manages all endings."""
        registry = await _create(anvil, "UNSRegistry")
        reader = await _create(anvil, "ProxyReader")
        manager = calldata(
            "initialize(address,address,address,address)", anvil.account, NOBODY, NOBODY, NOBODY
        )
        await anvil.send(registry, manager)
        await anvil.send(reader, calldata("initialize(address,address)", registry, NOBODY))
        return cls(anvil, registry, reader)

    async def name(self, name: str, *, owner: str, records: Mapping[str, str]) -> None:
        """Let *name*, of two labels, exist with these records."""
        label, ending = name.split(".")
        node = int.from_bytes(namehash(ending))
        if not await self._exists(node):
            await self._send(calldata("mintTLD(uint256,string)", node, ending))
        await self._send(
            calldata(
                "mintWithRecords(address,string[],string[],string[],bool)",
                owner,
                [label, ending],
                list(records),
                list(records.values()),
                False,
            )
        )

    async def burn(self, name: str, owner: str) -> None:
        """Burn *name*, as its *owner* may."""
        node = int.from_bytes(namehash(name))
        await self._anvil.send(self.registry, calldata("burn(uint256)", node), sender=owner)

    async def expire(self, name: str) -> None:
        """Let *name* have run out by now; the registry keeps its records."""
        block = await self._anvil.rpc("eth_getBlockByNumber", "latest", False)
        expiry = int(block["timestamp"], 16) + 60
        node = int.from_bytes(namehash(name))
        await self._send(calldata("setExpiry(uint64,uint256)", expiry, node))
        await self._anvil.rpc("evm_increaseTime", 120)
        await self._anvil.rpc("evm_mine")

    async def _exists(self, node: int) -> bool:
        return any(await self._anvil.call(self.registry, calldata("exists(uint256)", node)))

    async def _send(self, data: bytes) -> None:
        await self._anvil.send(self.registry, data)


async def _create(anvil: Anvil, contract: str) -> str:
    """A new *contract* as its authors compiled it."""
    artifact = require_peer("@unstoppabledomains/uns") / "artifacts" / f"{contract}.json"
    code = bytes.fromhex(json.loads(artifact.read_text())["bytecode"][2:])
    return to_checksum_address((await anvil.send(None, code))["contractAddress"])
