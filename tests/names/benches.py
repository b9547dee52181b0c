"""Benches of the name services for the suite of promises, each before miniature nodes.

Knows how a name comes to exist for each service. What is promised is left to promises.py."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from content_gateway.ethereum.rpc import EthereumRpc
from content_gateway.model.domain import DomainName
from content_gateway.model.records import IpfsContent
from content_gateway.names.basenames import Basenames
from content_gateway.names.ens import EnsNames
from content_gateway.names.registry import Registry
from content_gateway.names.space_id import SpaceIdNames
from content_gateway.names.unstoppable import (
    CONTENT_KEYS,
    WALLET_KEYS,
    Chain,
    UnstoppableNames,
)
from content_gateway.net.http_client import HttpClient
from content_gateway.settings.unstoppable_defaults import TLDS
from tests.fakes import unstoppable
from tests.fakes.base import BASE_REGISTRY, Base
from tests.fakes.ethereum import REGISTRY, UNIVERSAL_RESOLVER, Ethereum, Name, running_ethereum
from tests.fakes.gnosis import GNO_REGISTRY, Gnosis
from tests.fakes.miniature import Mood, running
from tests.names.promises import Bench

SECONDS = 3.0
IPFS_NS = bytes.fromhex("e301")  # EIP-1577


class EnsBench:
    """ENS before one node."""

    def __init__(self, outbound: HttpClient, ethereum: Ethereum) -> None:
        rpc = EthereumRpc(outbound, [ethereum.url], seconds=SECONDS)
        self.service = EnsNames(rpc, universal_resolver=UNIVERSAL_RESOLVER, registry=REGISTRY)
        self.name, self.foreign = DomainName.parse("site.eth"), None
        self._ethereum = ethereum

    def put(self, wallet: str | None, content: IpfsContent | None) -> None:
        binary = IPFS_NS + bytes(content.cid) if content else None
        self._ethereum.names[self.name.text] = Name(address=wallet, contenthash=binary)

    def misbehave(self, mood: Mood) -> None:
        self._ethereum.misbehave(mood)


class BasenamesBench:
    """Basenames before a node of Ethereum, which has the wallet, and one of Base."""

    def __init__(self, outbound: HttpClient, ethereum: Ethereum, base: Base) -> None:
        rpc = EthereumRpc(outbound, [ethereum.url], seconds=SECONDS)
        ens = EnsNames(rpc, universal_resolver=UNIVERSAL_RESOLVER, registry=REGISTRY)
        to_base = EthereumRpc(outbound, [base.url], seconds=SECONDS)
        self.service = Basenames(ens, Registry(to_base, BASE_REGISTRY, title="Basenames"))
        self.name, self.foreign = DomainName.parse("alice.base.eth"), None
        self._ethereum, self._base = ethereum, base

    def put(self, wallet: str | None, content: IpfsContent | None) -> None:
        self._ethereum.names[self.name.text] = Name(address=wallet)
        self._base.put(self.name, IPFS_NS + bytes(content.cid) if content else b"")

    def misbehave(self, mood: Mood) -> None:
        self._ethereum.misbehave(mood)
        self._base.misbehave(mood)


class SpaceIdBench:
    """`.gno` before a node of Gnosis."""

    def __init__(self, outbound: HttpClient, gnosis: Gnosis) -> None:
        chain = EthereumRpc(outbound, [gnosis.url], seconds=SECONDS)
        self.service = SpaceIdNames(Registry(chain, GNO_REGISTRY, title=".gno"))
        self.name, self.foreign = DomainName.parse("alice.gno"), DomainName.parse("site.eth")
        self._gnosis = gnosis

    def put(self, wallet: str | None, content: IpfsContent | None) -> None:
        binary = IPFS_NS + bytes(content.cid) if content else None
        self._gnosis.names[self.name.text] = Name(address=wallet, contenthash=binary)

    def misbehave(self, mood: Mood) -> None:
        self._gnosis.misbehave(mood)


class UnstoppableBench:
    """Unstoppable Domains before two chains, the second of which has the name."""

    def __init__(self, outbound: HttpClient, chains: list[unstoppable.UnstoppableChain]) -> None:
        asked = [
            Chain(
                f"chain {number}",
                EthereumRpc(outbound, [chain.url], seconds=SECONDS),
                unstoppable.PROXY_READER,
            )
            for number, chain in enumerate(chains)
        ]
        self.service = UnstoppableNames(asked, TLDS)
        self.name, self.foreign = DomainName.parse("brad.crypto"), DomainName.parse("site.eth")
        self._chains = chains

    def put(self, wallet: str | None, content: IpfsContent | None) -> None:
        records = {
            WALLET_KEYS[-1]: wallet or "",
            CONTENT_KEYS[0]: str(content.cid) if content else "",
        }
        # An owner of nobody's: one who is somebody stands in for a wallet that is unset.
        self._chains[1].names[self.name.text] = unstoppable.Name(
            "0x000000000000000000000000000000000000dEaD", records
        )

    def misbehave(self, mood: Mood) -> None:
        for chain in self._chains:
            chain.misbehave(mood)


@asynccontextmanager
async def ens_bench() -> AsyncIterator[Bench]:
    """ENS, on which there is no name."""
    async with running_ethereum() as ethereum, HttpClient() as outbound:
        yield EnsBench(outbound, ethereum)


@asynccontextmanager
async def basenames_bench() -> AsyncIterator[Bench]:
    """Both chains, without names."""
    async with (
        running_ethereum() as ethereum,
        running(Base()) as base,
        HttpClient() as outbound,
    ):
        yield BasenamesBench(outbound, ethereum, base)


@asynccontextmanager
async def space_id_bench() -> AsyncIterator[Bench]:
    """Gnosis, without names."""
    async with running(Gnosis()) as gnosis, HttpClient() as outbound:
        yield SpaceIdBench(outbound, gnosis)


@asynccontextmanager
async def unstoppable_bench() -> AsyncIterator[Bench]:
    """Two chains without names."""
    async with (
        unstoppable.running_chain() as one,
        unstoppable.running_chain() as two,
        HttpClient() as outbound,
    ):
        yield UnstoppableBench(outbound, [one, two])


BENCHES: dict[str, Callable[[], AbstractAsyncContextManager[Bench]]] = {
    "ENS": ens_bench,
    "Basenames": basenames_bench,
    "SPACE ID": space_id_bench,
    "Unstoppable Domains": unstoppable_bench,
}
