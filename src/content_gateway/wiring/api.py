"""The part of the composition root that answers requests: keys, operations and their handlers.

Opens and closes on the stack of wiring/, and decides nothing that a part could."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

import structlog

from content_gateway.api_keys import IssuedKeys, OpenKeys
from content_gateway.concurrency.loop_lag import LoopLag
from content_gateway.denylist.denylist import Denylist
from content_gateway.errors import ContractBroken
from content_gateway.http.address_limits import AddressLimits
from content_gateway.http.asgi import Api
from content_gateway.http.auth import KeyVerifier
from content_gateway.http.cors import Cors
from content_gateway.http.gateway_hosts import GatewayHosts
from content_gateway.http.key_limits import KeyLimits
from content_gateway.http.openapi import Contract, Operation
from content_gateway.http.operations.addresses import AddressHandlers
from content_gateway.http.operations.domains import NameHandlers
from content_gateway.http.operations.information import InformationHandlers
from content_gateway.http.operations.ipns_records import IpnsRecordHandlers
from content_gateway.http.operations.keys import KeyHandlers
from content_gateway.http.operations.many_names import ManyNamesHandlers
from content_gateway.http.operations.pages import PageHandlers
from content_gateway.http.operations.pinning_service import PsaHandlers
from content_gateway.http.operations.pins import PinHandlers
from content_gateway.http.operations.trustless_gateway import TrustlessHandlers
from content_gateway.http.request_turns import RequestTurns
from content_gateway.http.streams import large_answers
from content_gateway.http.traffic import Traffic, access_log
from content_gateway.http.trusted_proxies import TrustedProxies
from content_gateway.settings.model import PACKAGED_SPEC, Settings
from content_gateway.telemetry.numbers import Outcomes
from content_gateway.telemetry.tracing import Tracer
from content_gateway.wiring.content import wire_content
from content_gateway.wiring.dns import dns_handlers
from content_gateway.wiring.ledgers import Activity, Ledger
from content_gateway.wiring.limits import (
    allowances,
    check_operations,
    default_allowance,
    warn_of_unknown_types,
)
from content_gateway.wiring.names import WiredNames
from content_gateway.wiring.pins import WiredPins

_STDERR: Final = 2

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WiredApi:
    """What answers requests, those for *hosts* of sites too, and what it knows of them."""

    api: Api
    hosts: GatewayHosts
    keys: KeyVerifier
    issued_keys: IssuedKeys
    activity: Activity
    traffic: Traffic
    lag: LoopLag


async def wire_api(
    stack: AsyncExitStack,
    settings: Settings,
    ledger: Ledger,
    denylist: Denylist,
    *,
    names: WiredNames,
    pins: WiredPins,
    limits: KeyLimits,
    upstreams: Outcomes,
    tracer: Tracer | None,
) -> WiredApi:
    """All operations of the description, for those whose keys allow them. Raises WrongSettings."""
    activity = await stack.enter_async_context(ledger.key_activity())
    issued_keys = IssuedKeys(
        ledger.keys, allowance_of=allowances(settings.limits), activity=activity
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
    store = pins.store if settings.embedded.serve else None
    answers = large_answers(
        settings.capacity.large_answers, lambda one: limits.allowance_of(one).streams
    )
    visitors = AddressLimits(settings.gateway.lookups_per_minute)
    content = await wire_content(
        stack,
        settings,
        names,
        pins.store,
        denylist,
        answers=answers,
        visitors=visitors,
        upstreams=upstreams,
        tracer=tracer,
    )
    lag = LoopLag()
    stack.callback(lag.close)
    turns = RequestTurns(
        waiting=settings.capacity.waiting, is_late=lambda: lag.standing > settings.capacity.lag
    )
    many = ManyNamesHandlers(names.directory, limits, turns, refused=activity.refused)
    handlers = {
        **InformationHandlers(contract).by_id,
        **PageHandlers().by_id,
        **NameHandlers(directory=names.directory, ipns=names.ipns).by_id,
        **AddressHandlers(names.directory).by_id,
        **many.by_id,
        **dns_handlers(settings, names.directory, denylist).by_id,
        **KeyHandlers(keys, pins.pinning, limits).by_id,
        **PinHandlers(pins.pinning).by_id,
        **psa.by_id,
        **TrustlessHandlers(store, denylist, answers).by_id,
        **IpnsRecordHandlers(names.ipns if settings.embedded.serve else None, visitors).by_id,
        **content.handlers,
    }
    access = access_log(settings.log.access, settings.log.format, _STDERR)
    traffic = Traffic(access, tracer)
    stack.callback(traffic.close)
    api = Api(
        operations,
        handlers,
        keys,
        answers=answers,
        cors=Cors(settings.cors.origins),
        traffic=traffic,
        limits=limits,
        turns=turns,
        sites=content.sites,
        proxies=TrustedProxies(settings.trusted_proxies),
        refused=activity.refused,
    )
    return WiredApi(api, content.hosts, keys, issued_keys, activity, traffic, lag)


def operations_of(contract: Contract) -> Sequence[Operation]:
    """The operations to serve.

    A description that is missing or broken when the service starts takes only /version and
    /spec away: the routes then come from the one that this program was shipped with."""
    try:
        return contract.read().operations
    except ContractBroken as broken:
        log.error("spec_file cannot be served", reason=broken.detail)
        return Contract(PACKAGED_SPEC).read().operations
