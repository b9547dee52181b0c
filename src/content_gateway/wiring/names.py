"""The part of the composition root that answers names: name services, IPNS and what was last known.

Opens and closes on the stack of wiring/, and decides nothing that a part could."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from content_gateway.denylist.denylist import Denylist
from content_gateway.ethereum.ccip import CcipRead
from content_gateway.ethereum.gateways import OffchainGateways
from content_gateway.ipns.cache_entry import IpnsPolicy
from content_gateway.ipns.link_cache import IpnsStore, LinkCache, RecordSource
from content_gateway.ipns.resolver import IpnsResolver
from content_gateway.ipns.sources.dnslink import DnsLinks
from content_gateway.ipns.sources.http import HttpSource
from content_gateway.ipns.sources.kubo import KuboSource
from content_gateway.names.basenames import Basenames
from content_gateway.names.cache import Cache, CachePolicy
from content_gateway.names.cached_services import LookupPolicy, NameService, PrimaryNames
from content_gateway.names.changes import Changes
from content_gateway.names.directory import Directory
from content_gateway.names.ens import EnsNames
from content_gateway.names.primary import EnsPrimaryNames
from content_gateway.names.registry import Registry
from content_gateway.names.space_id import SpaceIdNames
from content_gateway.names.universal_resolver import UniversalResolverCheck
from content_gateway.names.unstoppable import Chain, UnstoppableNames
from content_gateway.names.zone import ZoneFile
from content_gateway.net.connection_slots import PoolLimits
from content_gateway.net.dns import Dns
from content_gateway.net.http_client import HttpClient
from content_gateway.net.ssrf_guard import Guard
from content_gateway.settings.groups import BasenamesSettings, GnosisSettings
from content_gateway.settings.model import Settings
from content_gateway.telemetry.numbers import Outcomes
from content_gateway.telemetry.tracing import Tracer
from content_gateway.wiring.chain_listeners import (
    BASENAMES,
    ENS,
    GNOSIS,
    HeardChange,
    listened_chains,
)
from content_gateway.wiring.chains import Chains
from content_gateway.wiring.ledgers import Ledger

# Bytes: one of the largest keys in use (RSA, 4,096 bits) has half as many. The names that are
# cached (IpnsPolicy.max_names) hold 80 MB at most.
_KEPT_RECORD: Final = 4096
_SERVERS: Final = 4  # that all look-ups may ask at the same time


@dataclass(frozen=True, slots=True)
class WiredNames:
    """The open parts that answer names."""

    directory: Directory
    ipns: IpnsResolver
    universal_resolver: UniversalResolverCheck
    chains: Chains
    changes: Changes | None

    def hear(self, change: HeardChange) -> None:
        """Take what a listener has heard."""
        if self.changes is not None:
            self.chains.require(change.kind, change.block)
            self.changes.hear(change.nodes)


async def wire_names(
    stack: AsyncExitStack,
    settings: Settings,
    ledger: Ledger,
    denylist: Denylist,
    *,
    zones: Sequence[ZoneFile],
    upstreams: Outcomes,
    tracer: Tracer | None,
    lookups_of: Callable[[str], int],
) -> WiredNames:
    """Every name service and IPNS, closed with *stack*; *zones* stand behind the operator's own.

    Requests to servers are counted in *upstreams*, and told to *tracer*; *lookups_of* a requestor
    is how many of its look-ups run at once, 0: its share."""
    last_known = await stack.enter_async_context(ledger.last_known())
    capacity = settings.capacity
    # A pool for each purpose: nobody waits behind requests of another kind.
    of_ipns = await stack.enter_async_context(
        HttpClient(
            limits=connections(capacity.ipns_lookups),
            kind="ipns",
            outcomes=upstreams,
            tracer=tracer,
        )
    )
    of_chains = await stack.enter_async_context(
        HttpClient(
            limits=connections(capacity.lookups), kind="chain", outcomes=upstreams, tracer=tracer
        )
    )
    chains = Chains(settings, of_chains)
    ipns = ipns_resolver(settings, of_ipns, last_known, denylist, lookups_of=lookups_of)
    stack.push_async_callback(ipns.close)
    guard = Guard(local_gateways=settings.ens.local_gateways)
    offchain = HttpClient(guard, kind="offchain", outcomes=upstreams, tracer=tracer)
    gateways = OffchainGateways(await stack.enter_async_context(offchain))
    own_zones = [ZoneFile(path) for path in [settings.names.zone_file] if path]
    for zone in own_zones:
        stack.callback(zone.close)
    address = settings.ens.universal_resolver
    check = UniversalResolverCheck(chains.through(settings.ens.rpc_urls, ENS), address)
    stack.push_async_callback(check.close)
    changes = Changes(is_behind=chains.were_behind) if listened_chains(settings) else None
    directory = Directory(
        local=[*own_zones, *zones],
        services=name_services(settings, chains, gateways, check),
        primary=primary_names(settings, chains, gateways, check),
        ipns=ipns,
        denylist=denylist,
        cache=Cache(last_known, ages=ages(settings), changes=changes),
        policy=LookupPolicy(lookup=settings.names.deadline, max_in_flight=capacity.lookups),
        limit_of=lookups_of,
    )
    stack.push_async_callback(directory.close)
    return WiredNames(directory, ipns, check, chains, changes)


def connections(lookups: int) -> PoolLimits:
    """A pool in which so many *lookups* have a connection to the same server, each of its own.

    Were there fewer, one requestor's look-ups that hang would hold them all. Whoever waits for an
    answer waits at most as long for a connection as for a node."""
    return PoolLimits(
        in_all=_SERVERS * lookups,
        per_server=lookups,
        waiting=1024,
        seconds=2.5,
        large_bytes=64 * 1024 * 1024,
    )


def ages(settings: Settings) -> CachePolicy:
    """How long answers serve."""
    chosen = settings.names
    return CachePolicy(
        fresh=chosen.fresh,
        while_revalidating=min(2 * chosen.fresh, chosen.stale_limit),
        if_error=chosen.stale_limit,
        absent=chosen.absent,
        max_entries=chosen.cache_entries,
    )


def name_services(
    settings: Settings,
    chains: Chains,
    gateways: OffchainGateways,
    check: UniversalResolverCheck | None = None,
) -> list[NameService]:
    """The configured name services, in the order they are asked."""
    theirs, of_theirs = settings.unstoppable, unstoppable_chains(settings, chains)
    services: list[NameService] = [
        UnstoppableNames(of_theirs, theirs.tlds),
        SpaceIdNames(registry(chains, settings.gnosis, GNOSIS, title=".gno")),
    ]
    if settings.ens.rpc_urls:
        services.append(ens_names(settings, chains, gateways, check))
    if of_theirs:
        services.append(UnstoppableNames(of_theirs, theirs.shared_tlds))
    return services


def ens_names(
    settings: Settings,
    chains: Chains,
    gateways: OffchainGateways,
    check: UniversalResolverCheck | None,
) -> NameService:
    """ENS with its off-chain gateways, and with what Base knows if that may be asked."""
    chosen = settings.ens
    ens = EnsNames(
        CcipRead(chains.through(chosen.rpc_urls, ENS), gateways),
        universal_resolver=chosen.universal_resolver,
        registry=chosen.registry,
        name_wrapper=chosen.name_wrapper,
        require=check.require if check else lambda: None,
    )
    return Basenames(ens, registry(chains, settings.basenames, BASENAMES, title="Basenames"))


def registry(
    chains: Chains, chosen: BasenamesSettings | GnosisSettings, kind: str, *, title: str
) -> Registry | None:
    """The registry that is *chosen* on the chain *kind*; None where that may not be asked."""
    if not chosen.rpc_urls:
        return None
    return Registry(chains.through(chosen.rpc_urls, kind), chosen.registry, title=title)


def primary_names(
    settings: Settings,
    chains: Chains,
    gateways: OffchainGateways,
    check: UniversalResolverCheck,
) -> PrimaryNames | None:
    """Who knows the names of addresses: ENS, if that may be asked."""
    chosen = settings.ens
    if not chosen.rpc_urls:
        return None
    return EnsPrimaryNames(
        CcipRead(chains.through(chosen.rpc_urls, ENS), gateways),
        universal_resolver=chosen.universal_resolver,
        require=check.require,
    )


def unstoppable_chains(settings: Settings, chains: Chains) -> list[Chain]:
    """The chains of Unstoppable Domains that may be asked, the one that wins first."""
    chosen = settings.unstoppable
    theirs = {
        "polygon": (chosen.polygon_rpc_urls, chosen.polygon_proxy_reader),
        "base": (chosen.base_rpc_urls, chosen.base_proxy_reader),
        "sonic": (chosen.sonic_rpc_urls, chosen.sonic_proxy_reader),
        "ethereum": (chosen.ethereum_rpc_urls, chosen.ethereum_proxy_reader),
    }
    return [
        Chain(name, chains.through(urls, f"unstoppable-{name}"), proxy_reader)
        for name, (urls, proxy_reader) in theirs.items()
        if urls
    ]


def ipns_resolver(
    settings: Settings,
    outbound: HttpClient,
    store: IpnsStore,
    denylist: Denylist,
    *,
    lookups_of: Callable[[str], int] | None = None,
) -> IpnsResolver:
    """IPNS with every configured source."""
    chosen = settings.ipns
    sources: list[RecordSource] = [
        *(HttpSource.router(outbound, url, seconds=chosen.timeout) for url in chosen.routers),
        *(HttpSource.gateway(outbound, url, seconds=chosen.timeout) for url in chosen.gateways),
    ]
    if chosen.kubo_url:
        sources.append(KuboSource(outbound, chosen.kubo_url, seconds=chosen.timeout))
    domains = DnsLinks(Dns(chosen.dns_servers, seconds=chosen.timeout))
    policy = IpnsPolicy(
        source_limit=chosen.timeout + 1,
        max_in_flight=settings.capacity.ipns_lookups,
        kept_record=_KEPT_RECORD if settings.embedded.serve else 0,
    )
    cache = LinkCache(sources, domains, store, policy=policy, limit_of=lookups_of)
    return IpnsResolver(cache, denylist)
