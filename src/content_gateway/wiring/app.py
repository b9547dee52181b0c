"""The composition root: which parts there are and how they fit, as ordinary code.

Opens from top to bottom and closes from bottom to top. Knows every part and decides nothing
that a part could; commands and tests get the same objects from here."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from content_gateway.api_keys import IssuedKeys
from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.concurrency.loop_lag import LoopLag
from content_gateway.denylist.denylist import Denylist
from content_gateway.ethereum.chain_listener import ChainListener
from content_gateway.http.asgi import Api
from content_gateway.http.auth import KeyVerifier
from content_gateway.http.gateway_hosts import GatewayHosts
from content_gateway.http.key_limits import KeyLimits
from content_gateway.http.traffic import Traffic
from content_gateway.ipns.resolver import IpnsResolver
from content_gateway.names.directory import Directory
from content_gateway.names.universal_resolver import UniversalResolverCheck
from content_gateway.names.zone import ZoneFile
from content_gateway.pins.delegates import Delegates
from content_gateway.pins.pinning import Pinning
from content_gateway.pins.reconciler import Reconciler
from content_gateway.pins.resync import Resync
from content_gateway.settings.model import Settings
from content_gateway.telemetry.numbers import Outcomes
from content_gateway.wiring.api import wire_api
from content_gateway.wiring.chain_listeners import HeardChange, chain_listeners
from content_gateway.wiring.chains import Chains
from content_gateway.wiring.ledgers import (
    Activity,
    Health,
    Ledger,
    ObservableWorkQueue,
    Resyncs,
    ledger_of,
)
from content_gateway.wiring.names import wire_names
from content_gateway.wiring.pins import wire_pins
from content_gateway.wiring.traces import open_tracer


@dataclass(frozen=True, slots=True)
class Application:
    """The open parts that commands and the server work with."""

    api: Api
    hosts: GatewayHosts
    ledger: Ledger
    directory: Directory
    ipns: IpnsResolver
    universal_resolver: UniversalResolverCheck
    pinning: Pinning
    contents: ObservableWorkQueue
    resyncs: Resyncs
    health: Health
    keys: KeyVerifier
    issued_keys: IssuedKeys
    limits: KeyLimits
    activity: Activity
    reconciler: Reconciler
    resync: Resync
    store: EmbeddedStore | None
    blocks: Blockstore | None
    delegates: Delegates
    traffic: Traffic
    lag: LoopLag
    upstreams: Outcomes
    chains: Chains
    hear: Callable[[HeardChange], None]
    listeners: Sequence[ChainListener]

    def start(self, *, resyncs_now: bool = True, listens: bool = True) -> None:
        """Begin to keep what was promised; for whoever stays.

        It *listens* to chains itself, or what was heard is brought to `hear`."""
        self.lag.start()
        for listener in self.listeners if listens else ():
            listener.start()
        self.ledger.listen(self.reconciler.wake)
        self.reconcile()
        self.resync.start(now=resyncs_now)
        self.delegates.start()

    def reconcile(self) -> None:
        """Begin to reconcile contents. Until then nothing is sent, and no garbage collected."""
        if self.blocks is not None:
            self.blocks.collect()
        self.reconciler.start()


@asynccontextmanager
async def opened(settings: Settings, zones: Sequence[ZoneFile] = ()) -> AsyncIterator[Application]:
    """Every part, wired by *settings*; *zones* are asked behind the operator's own.

    Reconciler and resync are ready but not started. Raises WrongSettings."""
    async with AsyncExitStack() as stack:
        # First, to be closed last: what must not be lost does not wait for a collector.
        tracer = await open_tracer(stack, settings.traces)
        ledger = await stack.enter_async_context(ledger_of(settings))
        denylist = Denylist(settings.denylist.content_file, settings.denylist.domains_file)
        stack.callback(denylist.close)

        upstreams, limits = Outcomes(), KeyLimits(streams=settings.limits.streams)
        pins = await wire_pins(
            stack,
            settings,
            ledger,
            denylist,
            upstreams=upstreams,
            tracer=tracer,
            pins_of=lambda requestor: limits.allowance_of(requestor).pins,
        )
        names = await wire_names(
            stack,
            settings,
            ledger,
            denylist,
            zones=zones,
            upstreams=upstreams,
            tracer=tracer,
            lookups_of=lambda requestor: limits.allowance_of(requestor).lookups,
        )
        listeners = chain_listeners(settings, names.chains, names.hear)
        for listener in listeners:
            stack.push_async_callback(listener.close)
        api = await wire_api(
            stack,
            settings,
            ledger,
            denylist,
            names=names,
            pins=pins,
            limits=limits,
            upstreams=upstreams,
            tracer=tracer,
        )
        yield Application(
            api=api.api,
            hosts=api.hosts,
            ledger=ledger,
            directory=names.directory,
            ipns=names.ipns,
            universal_resolver=names.universal_resolver,
            pinning=pins.pinning,
            contents=pins.contents,
            resyncs=pins.resyncs,
            health=pins.health,
            keys=api.keys,
            issued_keys=api.issued_keys,
            limits=limits,
            activity=api.activity,
            reconciler=pins.reconciler,
            resync=pins.resync,
            store=pins.store,
            blocks=pins.blocks,
            delegates=pins.delegates,
            traffic=api.traffic,
            lag=api.lag,
            upstreams=upstreams,
            chains=names.chains,
            hear=names.hear,
            listeners=listeners,
        )
