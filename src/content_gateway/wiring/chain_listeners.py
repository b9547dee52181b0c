"""The part of the composition root that listens to chains, where the settings ask for it.

A service has one listener for a chain, however many workers it has: its supervisor listens, and
tells them what it hears. Which chains there are, and which events say that a name has changed, meet
here; what follows from a change is left to the names of each process."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from content_gateway.ethereum.chain_listener import BlockSource, ChainListener
from content_gateway.ethereum.polling import Polling
from content_gateway.ethereum.subscription import Subscription
from content_gateway.names.record_events import ENS_EVENTS, UNSTOPPABLE_EVENTS, changed_node
from content_gateway.net.http_client import HttpClient
from content_gateway.settings.model import Settings
from content_gateway.wiring.chains import Chains

# The chains that are one each, in metrics.
ENS: Final = "ens"
BASENAMES: Final = "basenames"
GNOSIS: Final = "gnosis"
# Polling gives way after that: a WebSocket endpoint may be back, which costs no calls.
_POLLING_SPELL: Final = 300.0
# Changes that a worker is told of as it begins: what it finds in the database may be older. A block
# of Ethereum has one of them at most where its logs are asked for, and three where they are pushed.
_LATELY: Final = 200


@dataclass(frozen=True, slots=True)
class HeardChange:
    """What a listener has heard: in this *block* of the chain *kind* the records of *nodes*
    (EIP-137) may have changed."""

    kind: str
    block: int
    nodes: list[bytes]


@dataclass(frozen=True, slots=True)
class ListenedChain:
    """A chain that is asked through *rpc_urls*, and how it is listened to."""

    kind: str
    rpc_urls: Sequence[str]
    ws_urls: Sequence[str]
    events: Sequence[bytes]


def listened_chains(settings: Settings) -> list[ListenedChain]:
    """The chains whose names are looked up here, and that can be listened to."""
    polls = settings.names.poll_interval > 0
    return [one for one in _chains(settings) if one.rpc_urls and (polls or one.ws_urls)]


def chain_listeners(
    settings: Settings, chains: Chains, heard: Callable[[HeardChange], None]
) -> list[ChainListener]:
    """A listener for each of them, not started yet; *heard* gets what they hear."""
    return [
        ChainListener(
            one.kind,
            list(_sources(settings, chains, one)),
            node_of=changed_node,
            heard=_teller(one.kind, heard),
        )
        for one in listened_chains(settings)
    ]


class ListenersOfWorkers:
    """The listeners of a service of several processes, in its supervisor; *heard* is told to all of
    its workers, and *lately* has what those missed that began since."""

    def __init__(self, heard: Callable[[HeardChange], None]) -> None:
        self.listeners: Sequence[ChainListener] = ()
        self.lately: deque[HeardChange] = deque(maxlen=_LATELY)  # the oldest first
        self._heard = heard
        self._stack = AsyncExitStack()

    async def listen(self, settings: Settings) -> None:
        """Listen from now on as the *settings* say, and not as others said before.

        What was heard before is heard again: there are workers that have not heard it."""
        await self.close()
        if not listened_chains(settings):
            return
        outbound = await self._stack.enter_async_context(HttpClient(kind="chain"))
        self.listeners = chain_listeners(settings, Chains(settings, outbound), self._hear)
        for listener in self.listeners:
            self._stack.push_async_callback(listener.close)
            listener.start()

    async def close(self) -> None:
        """Listen no more."""
        self.listeners = ()
        await self._stack.aclose()

    def _hear(self, change: HeardChange) -> None:
        self.lately.append(change)
        self._heard(change)


def _chains(settings: Settings) -> Iterator[ListenedChain]:
    ens, basenames, gnosis = settings.ens, settings.basenames, settings.gnosis
    yield ListenedChain(ENS, ens.rpc_urls, ens.ws_urls, ENS_EVENTS)
    yield ListenedChain(BASENAMES, basenames.rpc_urls, basenames.ws_urls, ENS_EVENTS)
    yield ListenedChain(GNOSIS, gnosis.rpc_urls, gnosis.ws_urls, ENS_EVENTS)
    theirs = settings.unstoppable
    for name in ("polygon", "base", "sonic", "ethereum"):
        yield ListenedChain(
            f"unstoppable-{name}",
            getattr(theirs, f"{name}_rpc_urls"),
            getattr(theirs, f"{name}_ws_urls"),
            UNSTOPPABLE_EVENTS,
        )


def _sources(settings: Settings, chains: Chains, one: ListenedChain) -> Iterator[BlockSource]:
    for url in one.ws_urls:
        yield Subscription(url, topics=one.events, seconds=settings.ens.timeout)
    if settings.names.poll_interval > 0:
        yield Polling(
            chains.through(one.rpc_urls, one.kind).endpoints,
            topics=one.events,
            interval=settings.names.poll_interval,
            spell=_POLLING_SPELL if one.ws_urls else float("inf"),
        )


def _teller(kind: str, heard: Callable[[HeardChange], None]) -> Callable[[int, list[bytes]], None]:
    return lambda block, nodes: heard(HeardChange(kind, block, nodes))
