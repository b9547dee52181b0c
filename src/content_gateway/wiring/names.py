"""The part of the composition root that answers names: name services, IPNS and what was last known.

Opens and closes on the stack of app.py, and decides nothing that a part could."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from content_gateway.denylist.denylist import Blocklist
from content_gateway.ethereum.ccip import CcipRead
from content_gateway.ethereum.gateways import Gateways
from content_gateway.ethereum.quorum import EthereumQuorum
from content_gateway.ethereum.rpc import EthereumRpc
from content_gateway.ipns.cache_entry import Policy as IpnsPolicy
from content_gateway.ipns.link_cache import Links, LinkStore, RecordSource
from content_gateway.ipns.resolver import IpnsResolver
from content_gateway.ipns.sources.dnslink import DnsLinks
from content_gateway.ipns.sources.gateway import IpnsGateway
from content_gateway.ipns.sources.kubo import KuboRecords
from content_gateway.ipns.sources.router import DelegatedRouter
from content_gateway.ledger.last_known import SqliteLastKnown
from content_gateway.names.basenames import Basenames
from content_gateway.names.cache import Ages, Cache
from content_gateway.names.directory import Directory, NameService, Policy
from content_gateway.names.ens import EnsNames, EthereumCalls
from content_gateway.names.universal_resolver import UniversalResolverCheck
from content_gateway.names.unstoppable import Chain, UnstoppableNames
from content_gateway.names.zone import ZoneFile
from content_gateway.net.connection_slots import PoolLimits
from content_gateway.net.http_client import Outbound
from content_gateway.net.ssrf_guard import Guard
from content_gateway.settings.model import Settings
from content_gateway.sqlite.database import Database

_SERVERS: Final = 4  # that all look-ups may ask at the same time


@dataclass(frozen=True, slots=True)
class Names:
    """The open parts that answer names."""

    directory: Directory
    ipns: IpnsResolver
    universal_resolver: UniversalResolverCheck


async def answered_names(
    stack: AsyncExitStack,
    settings: Settings,
    database: Database,
    blocking: Blocklist,
    *,
    zones: Sequence[ZoneFile],
) -> Names:
    """Every name service and IPNS, closed with *stack*; *zones* stand behind the operator's own."""
    last_known = await stack.enter_async_context(SqliteLastKnown(database))
    limits = settings.limits
    # A pool for each purpose: nobody waits behind requests of another kind.
    of_ipns = await stack.enter_async_context(Outbound(limits=connections(limits.ipns_lookups)))
    of_chains = await stack.enter_async_context(Outbound(limits=connections(limits.lookups)))
    ipns = ipns_resolver(settings, of_ipns, last_known, blocking)
    stack.push_async_callback(ipns.close)
    guard = Guard(local_gateways=settings.ens.local_gateways)
    gateways = Gateways(await stack.enter_async_context(Outbound(guard)))
    own_zones = [ZoneFile(path) for path in [settings.names.zone_file] if path]
    for zone in own_zones:
        stack.callback(zone.close)
    address = settings.ens.universal_resolver
    check = UniversalResolverCheck(chain(settings, of_chains, settings.ens.rpc_urls), address)
    stack.push_async_callback(check.close)
    directory = Directory(
        local=[*own_zones, *zones],
        services=name_services(settings, of_chains, gateways, check),
        ipns=ipns,
        blocking=blocking,
        cache=Cache(last_known, ages=ages(settings)),
        policy=Policy(lookup=settings.names.deadline, max_flights=limits.lookups),
    )
    stack.push_async_callback(directory.close)
    return Names(directory, ipns, check)


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


def ages(settings: Settings) -> Ages:
    """How long answers serve."""
    chosen = settings.names
    return Ages(
        fresh=chosen.fresh,
        while_revalidating=min(2 * chosen.fresh, chosen.stale_limit),
        if_error=chosen.stale_limit,
        absent=chosen.absent,
        max_entries=chosen.cache_entries,
    )


def name_services(
    settings: Settings,
    outbound: Outbound,
    gateways: Gateways,
    check: UniversalResolverCheck | None = None,
) -> list[NameService]:
    """The configured name services, in the order they are asked."""
    theirs, chains = settings.unstoppable, unstoppable_chains(settings, outbound)
    services: list[NameService] = [UnstoppableNames(chains, theirs.tlds)]
    if settings.ens.rpc_urls:
        services.append(ens_names(settings, outbound, gateways, check))
    if chains:
        services.append(UnstoppableNames(chains, theirs.shared_tlds))
    return services


def ens_names(
    settings: Settings,
    outbound: Outbound,
    gateways: Gateways,
    check: UniversalResolverCheck | None,
) -> NameService:
    """ENS with its off-chain gateways, and with what Base knows if that may be asked."""
    chosen, basenames = settings.ens, settings.basenames
    ens = EnsNames(
        CcipRead(chain(settings, outbound, chosen.rpc_urls), gateways),
        universal_resolver=chosen.universal_resolver,
        registry=chosen.registry,
        name_wrapper=chosen.name_wrapper,
        require=check.require if check else lambda: None,
    )
    base = chain(settings, outbound, basenames.rpc_urls) if basenames.rpc_urls else None
    return Basenames(ens, base, registry=basenames.registry)


def unstoppable_chains(settings: Settings, outbound: Outbound) -> list[Chain]:
    """The chains of Unstoppable Domains that may be asked, the one that wins first."""
    chosen = settings.unstoppable
    chains = {
        "polygon": (chosen.polygon_rpc_urls, chosen.polygon_proxy_reader),
        "base": (chosen.base_rpc_urls, chosen.base_proxy_reader),
        "sonic": (chosen.sonic_rpc_urls, chosen.sonic_proxy_reader),
        "ethereum": (chosen.ethereum_rpc_urls, chosen.ethereum_proxy_reader),
    }
    return [
        Chain(name, chain(settings, outbound, urls), proxy_reader)
        for name, (urls, proxy_reader) in chains.items()
        if urls
    ]


def chain(settings: Settings, outbound: Outbound, urls: Sequence[str]) -> EthereumCalls:
    """One chain through *urls*: the first that answers, or as many as must agree."""
    seconds, quorum = settings.ens.timeout, settings.ens.quorum
    if quorum > 1:
        return EthereumQuorum(outbound, urls, seconds=seconds, quorum=quorum)
    return EthereumRpc(outbound, urls, seconds=seconds)


def ipns_resolver(
    settings: Settings, outbound: Outbound, store: LinkStore, blocking: Blocklist
) -> IpnsResolver:
    """IPNS with every configured source."""
    chosen = settings.ipns
    sources: list[RecordSource] = [
        *(DelegatedRouter(outbound, url, seconds=chosen.timeout) for url in chosen.routers),
        *(IpnsGateway(outbound, url, seconds=chosen.timeout) for url in chosen.gateways),
    ]
    if chosen.kubo_url:
        sources.append(KuboRecords(outbound, chosen.kubo_url, seconds=chosen.timeout))
    domains = DnsLinks(chosen.dns_servers, seconds=chosen.timeout)
    policy = IpnsPolicy(source_limit=chosen.timeout + 1, max_flights=settings.limits.ipns_lookups)
    return IpnsResolver(Links(sources, domains, store, policy=policy), blocking)
