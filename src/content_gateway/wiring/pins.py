"""The part of the composition root that keeps pins: ledger, reconciler and resync over a backend.

Opens and closes on the stack of wiring/, and decides nothing that a part could. Which backend there
is, and how it is best worked with, is left to backends.py."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.denylist.denylist import Denylist
from content_gateway.model.cid import Cid
from content_gateway.model.multiaddr import Multiaddr
from content_gateway.net.connection_slots import PoolLimits
from content_gateway.net.http_client import HttpClient
from content_gateway.pins.delegates import Delegates
from content_gateway.pins.origins import OriginRules
from content_gateway.pins.pinning import Pinning
from content_gateway.pins.reconciler import Reconciler
from content_gateway.pins.resync import Resync, ResyncSchedule
from content_gateway.settings.model import Settings
from content_gateway.telemetry.numbers import Outcomes
from content_gateway.telemetry.tracing import Tracer
from content_gateway.wiring.backends import open_backend
from content_gateway.wiring.ledgers import Health, Ledger, ObservableWorkQueue, Resyncs

Port = TypeVar("Port")

# Of its own: names never wait behind pins. A pin has time, and does not fail for want of a turn.
CONNECTIONS: Final = PoolLimits(in_all=256, per_server=64, waiting=4096, seconds=60.0)


@dataclass(frozen=True, slots=True)
class WiredPins:
    """The open parts that keep pins; *store* and its *blocks* where the backend is embedded."""

    pinning: Pinning
    contents: ObservableWorkQueue
    resyncs: Resyncs
    health: Health
    reconciler: Reconciler
    resync: Resync
    store: EmbeddedStore | None
    blocks: Blockstore | None
    delegates: Delegates
    origins: OriginRules


class Around(Protocol):
    """What is put around each port before it is handed on."""

    def __call__(self, port: Port, /) -> Port:
        """*port*, or what passes its calls on to it."""


def _as_it_is(port: Port, /) -> Port:
    return port


async def wire_pins(
    stack: AsyncExitStack,
    settings: Settings,
    ledger: Ledger,
    denylist: Denylist,
    *,
    upstreams: Outcomes | None = None,
    tracer: Tracer | None = None,
    pins_of: Callable[[str], int] = lambda _: 0,
    around: Around = _as_it_is,
) -> WiredPins:
    """The promise and its keepers, closed with *stack*; requests are counted in *upstreams*, and
    told to *tracer*.
    *pins_of* a requestor is how many it may have, 0: as many as it likes.

    Fault tests wrap *around* the ports, and stop the process before and after their calls."""
    outbound = HttpClient(
        limits=CONNECTIONS, kind=settings.pins.backend, outcomes=upstreams, tracer=tracer
    )
    client = await stack.enter_async_context(outbound)
    opened = await open_backend(stack, settings, client, denylist)
    backend = around(opened.backend)
    origins = OriginRules(settings.pins.private_origins)
    kept, contents, resyncs = around(ledger.pins), around(ledger.work), around(ledger.resyncs)

    async def origins_of(cid: Cid) -> Sequence[Multiaddr]:
        return origins.usable(await kept.origins(cid))

    reconciler = Reconciler(
        contents,
        backend,
        policy=opened.policy,
        health=ledger.health,
        queue=opened.queue,
        origins=origins_of,
        returned=lambda: resync.trigger(),  # noqa: PLW0108 - each of the two wakes the other
    )
    stack.push_async_callback(reconciler.close)
    schedule = ResyncSchedule.every(settings.pins.resync_interval)
    resync = Resync(resyncs, backend, wake=reconciler.wake, schedule=schedule)
    stack.push_async_callback(resync.close)
    chosen, private = settings.pins.delegates, settings.pins.private_origins
    delegates = Delegates(backend, chosen, private=private)
    stack.push_async_callback(delegates.close)
    pinning = Pinning(
        kept, denylist=denylist, wake=reconciler.wake, refusal=opened.refusal, limit_of=pins_of
    )
    return WiredPins(
        pinning,
        contents,
        resyncs,
        ledger.health,
        reconciler,
        resync,
        opened.store,
        opened.blocks,
        delegates,
        origins,
    )
