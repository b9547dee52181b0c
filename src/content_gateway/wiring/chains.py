"""The chains that may be asked, each through endpoints of its own.

One chain is one object, whoever asks it: name services, and who listens to it."""

from collections.abc import Sequence

from content_gateway.ethereum.quorum import EthereumQuorum
from content_gateway.ethereum.rpc import EthereumRpc
from content_gateway.net.http_client import HttpClient
from content_gateway.settings.model import Settings


class Chains:
    """The chains that may be asked, each through endpoints of its own.

    *by_kind* has those that were asked for, by the word for them in metrics."""

    def __init__(self, settings: Settings, outbound: HttpClient) -> None:
        self._seconds, self._quorum = settings.ens.timeout, settings.ens.quorum
        self._outbound = outbound
        self.by_kind: dict[str, EthereumRpc | EthereumQuorum] = {}

    def through(self, urls: Sequence[str], kind: str) -> EthereumRpc | EthereumQuorum:
        """The chain *kind* through *urls*: the first that answers, or as many as must agree."""
        if kind not in self.by_kind:
            self.by_kind[kind] = self._made(urls)
        return self.by_kind[kind]

    def require(self, kind: str, block: int) -> None:
        """Names have changed in this *block* of the chain *kind*."""
        if kind in self.by_kind:
            self.by_kind[kind].required.require(block)

    def were_behind(self, since: float) -> bool:
        """Whether answers, since that time, may be from before a block that was required."""
        return any(chain.required.was_behind(since) for chain in self.by_kind.values())

    def _made(self, urls: Sequence[str]) -> EthereumRpc | EthereumQuorum:
        if self._quorum > 1:
            return EthereumQuorum(self._outbound, urls, seconds=self._seconds, quorum=self._quorum)
        return EthereumRpc(self._outbound, urls, seconds=self._seconds)
