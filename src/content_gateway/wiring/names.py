"""The part of the composition root that answers names: name services, IPNS and what was last known.

Opens and closes on the stack of wiring/, and decides nothing that a part could."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from content_gateway.denylist.denylist import Denylist
from content_gateway.ethereum.ccip import CcipRead
from content_gateway.ethereum.gateways import OffchainGateways
from content_gateway.ethereum.quorum import EthereumQuorum
from content_gateway.ethereum.rpc import EthereumRpc
from content_gateway.ipns.cache_entry import IpnsPolicy
from content_gateway.ipns.link_cache import IpnsStore, LinkCache, RecordSource
from content_gateway.ipns.resolver import IpnsResolver
from content_gateway.ipns.sources.dnslink import DnsLinks
from content_gateway.ipns.sources.http import HttpSource
from content_gateway.ipns.sources.kubo import KuboSource
from content_gateway.ledger.database import LedgerDatabase
from content_gateway.ledger.last_known import SqliteLastKnown
from content_gateway.names.basenames import Basenames
from content_gateway.names.cache import Cache, CachePolicy
from content_gateway.names.directory import Directory, DirectoryPolicy, NameService
from content_gateway.names.ens import EnsNames, EthereumCalls
from content_gateway.names.universal_resolver import UniversalResolverCheck
from content_gateway.names.unstoppable import Chain, UnstoppableNames
from content_gateway.names.zone import ZoneFile
from content_gateway.net.connection_slots import PoolLimits
from content_gateway.net.dns import Dns
from content_gateway.net.http_client import HttpClient
from content_gateway.net.ssrf_guard import Guard
from content_gateway.settings.model import Settings

_SERVERS: Final = 4  # that all look-ups may ask at the same time


@dataclass(frozen=True, slots=True)
class WiredNames:
    """The open parts that answer names."""

    directory: Directory
    ipns: IpnsResolver
    universal_resolver: UniversalResolverCheck


async def wire_names(
    stack: AsyncExitStack,
    settings: Settings,
    database: LedgerDatabase,
    denylist: Denylist,
    *,
    zones: Sequence[ZoneFile],
) -> WiredNames:
    """Every name service and IPNS, closed with *stack*; *zones* stand behind the operator's own."""
    last_known = await stack.enter_async_context(SqliteLastKnown(database))
    limits = settings.limits
    # A pool for each purpose: nobody waits behind requests of another kind.
    of_ipns = await stack.enter_async_context(HttpClient(limits=connections(limits.ipns_lookups)))
    of_chains = await stack.enter_async_context(HttpClient(limits=connections(limits.lookups)))
    ipns = ipns_resolver(settings, of_ipns, last_known, denylist)
    stack.push_async_callback(ipns.close)
    guard = Guard(local_gateways=settings.ens.local_gateways)
    gateways = OffchainGateways(await stack.enter_async_context(HttpClient(guard)))
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
        denylist=denylist,
        cache=Cache(last_known, ages=ages(settings)),
        policy=DirectoryPolicy(lookup=settings.names.deadline, max_in_flight=limits.lookups),
    )
    stack.push_async_callback(directory.close)
    return WiredNames(directory, ipns, check)


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
    outbound: HttpClient,
    gateways: OffchainGateways,
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
    outbound: HttpClient,
    gateways: OffchainGateways,
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


def unstoppable_chains(settings: Settings, outbound: HttpClient) -> list[Chain]:
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


def chain(settings: Settings, outbound: HttpClient, urls: Sequence[str]) -> EthereumCalls:
    """One chain through *urls*: the first that answers, or as many as must agree."""
    seconds, quorum = settings.ens.timeout, settings.ens.quorum
    if quorum > 1:
        return EthereumQuorum(outbound, urls, seconds=seconds, quorum=quorum)
    return EthereumRpc(outbound, urls, seconds=seconds)


def ipns_resolver(
    settings: Settings, outbound: HttpClient, store: IpnsStore, denylist: Denylist
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
    policy = IpnsPolicy(source_limit=chosen.timeout + 1, max_in_flight=settings.limits.ipns_lookups)
    return IpnsResolver(LinkCache(sources, domains, store, policy=policy), denylist)
