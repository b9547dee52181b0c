"""The composition root: which parts there are and how they fit, as ordinary code.

Opens from top to bottom and closes from bottom to top. Knows every part and decides nothing
that a part could; commands and tests get the same objects from here."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from content_gateway.api_keys import IssuedKeys, OpenKeys
from content_gateway.backends.embedded.blockstore import Blockstore
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.concurrency.loop_lag import LoopLag
from content_gateway.denylist.denylist import Denylist
from content_gateway.errors import ContractBroken
from content_gateway.http.asgi import Api
from content_gateway.http.auth import KeyVerifier
from content_gateway.http.cors import Cors
from content_gateway.http.gateway_hosts import GatewayHosts
from content_gateway.http.key_limits import KeyLimits
from content_gateway.http.openapi import Contract, Operation
from content_gateway.http.operations.domains import NameHandlers
from content_gateway.http.operations.information import InformationHandlers
from content_gateway.http.operations.keys import KeyHandlers
from content_gateway.http.operations.pages import PageHandlers
from content_gateway.http.operations.pinning_service import PsaHandlers
from content_gateway.http.operations.pins import PinHandlers
from content_gateway.http.operations.trustless_gateway import TrustlessHandlers
from content_gateway.http.request_turns import RequestTurns
from content_gateway.http.streams import large_answers
from content_gateway.http.traffic import Traffic, access_log
from content_gateway.ipns.resolver import IpnsResolver
from content_gateway.names.directory import Directory
from content_gateway.names.universal_resolver import UniversalResolverCheck
from content_gateway.names.zone import ZoneFile
from content_gateway.pins.delegates import Delegates
from content_gateway.pins.pinning import Pinning
from content_gateway.pins.reconciler import Reconciler
from content_gateway.pins.resync import Resync
from content_gateway.settings.model import PACKAGED_SPEC, Settings
from content_gateway.telemetry.numbers import Outcomes
from content_gateway.wiring.content import wire_content
from content_gateway.wiring.ledgers import (
    Activity,
    Health,
    Ledger,
    ObservableWorkQueue,
    Resyncs,
    ledger_of,
)
from content_gateway.wiring.limits import (
    allowances,
    check_operations,
    default_allowance,
    warn_of_unknown_types,
)
from content_gateway.wiring.names import Chains, wire_names
from content_gateway.wiring.pins import wire_pins
from content_gateway.wiring.traces import open_tracer

_STDERR: Final = 2

log = structlog.get_logger(__name__)


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

    def start(self, *, resyncs_now: bool = True) -> None:
        """Begin to keep what was promised; for whoever stays."""
        self.lag.start()
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

        activity = await stack.enter_async_context(ledger.key_activity())
        issued_keys = IssuedKeys(
            ledger.keys,
            allowance_of=allowances(settings.limits),
            activity=activity,
        )
        keys: KeyVerifier = issued_keys
        if settings.keys.mode == "open":
            keys = OpenKeys(default_allowance(settings.limits))
        contract = Contract(settings.spec_file)
        stack.push_async_callback(contract.close)
        operations = operations_of(contract)
        check_operations(settings.limits, [operation.id for operation in operations])
        warn_of_unknown_types(settings.limits, await issued_keys.all())
        psa = PsaHandlers(
            pins.pinning, delegates=pins.delegates, origins=pins.origins, work=pins.reconciler
        )
        served = pins.store if settings.embedded.serve else None
        answers = large_answers(
            settings.capacity.large_answers, lambda one: limits.allowance_of(one).streams
        )
        content = await wire_content(
            stack,
            settings,
            names,
            pins.store,
            denylist,
            answers=answers,
            upstreams=upstreams,
            tracer=tracer,
        )
        handlers = {
            **InformationHandlers(contract).by_id,
            **PageHandlers().by_id,
            **NameHandlers(directory=names.directory, ipns=names.ipns).by_id,
            **KeyHandlers(keys, pins.pinning, limits).by_id,
            **PinHandlers(pins.pinning).by_id,
            **psa.by_id,
            **TrustlessHandlers(served, denylist, answers).by_id,
            **content.handlers,
        }
        cors = Cors(settings.cors.origins)
        access = access_log(settings.log.access, settings.log.format, _STDERR)
        traffic, lag = Traffic(access, tracer), LoopLag()
        stack.callback(traffic.close)
        stack.callback(lag.close)
        api = Api(
            operations,
            handlers,
            keys,
            answers=answers,
            cors=cors,
            traffic=traffic,
            limits=limits,
            turns=RequestTurns(
                waiting=settings.capacity.waiting,
                is_late=lambda: lag.standing > settings.capacity.lag,
            ),
            sites=content.sites,
            refused=activity.refused,
        )
        yield Application(
            api=api,
            hosts=content.hosts,
            ledger=ledger,
            directory=names.directory,
            ipns=names.ipns,
            universal_resolver=names.universal_resolver,
            pinning=pins.pinning,
            contents=pins.contents,
            resyncs=pins.resyncs,
            health=pins.health,
            keys=keys,
            issued_keys=issued_keys,
            limits=limits,
            activity=activity,
            reconciler=pins.reconciler,
            resync=pins.resync,
            store=pins.store,
            blocks=pins.blocks,
            delegates=pins.delegates,
            traffic=traffic,
            lag=lag,
            upstreams=upstreams,
            chains=names.chains,
        )


def operations_of(contract: Contract) -> Sequence[Operation]:
    """The operations to serve.

    A description that is missing or broken when the service starts takes only /version and
    /spec away: the routes then come from the one that this program was shipped with."""
    try:
        return contract.read().operations
    except ContractBroken as broken:
        log.error("spec_file cannot be served", reason=broken.detail)
        return Contract(PACKAGED_SPEC).read().operations
