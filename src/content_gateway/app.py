"""The composition root: which parts there are and how they fit, as ordinary code.

Opens from top to bottom and closes from bottom to top. Knows every part and decides nothing
that a part could; commands and tests get the same objects from here."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import structlog

from content_gateway.api.auth import Keys
from content_gateway.api.contract import Contract, Operation
from content_gateway.api.handlers import NameHandlers
from content_gateway.api.pins import PinHandlers
from content_gateway.api.psa import PsaHandlers
from content_gateway.api.routes import Api
from content_gateway.api.trustless import TrustlessHandlers
from content_gateway.app_pins import kept_pins
from content_gateway.blocking.blocklist import Blocklist
from content_gateway.dnslink import DnsLinks
from content_gateway.errors import ContractBroken
from content_gateway.ethereum.ccip import CcipRead
from content_gateway.ethereum.gateways import Gateways
from content_gateway.ethereum.quorum import EthereumQuorum
from content_gateway.ethereum.rpc import EthereumRpc
from content_gateway.guard import Guard
from content_gateway.ipfs.delegated_router import DelegatedRouter
from content_gateway.ipfs.ipns_gateway import IpnsGateway
from content_gateway.ipfs.kubo_records import KuboRecords
from content_gateway.ipns.link import Policy as IpnsPolicy
from content_gateway.ipns.links import Links, LinkStore, RecordSource
from content_gateway.ipns.resolver import IpnsResolver
from content_gateway.keys import IssuedKeys, OpenKeys
from content_gateway.names.basenames import Basenames
from content_gateway.names.cache import Ages, Cache
from content_gateway.names.directory import Directory, NameService
from content_gateway.names.directory import Policy as DirectoryPolicy
from content_gateway.names.ens import EnsNames, EthereumCalls
from content_gateway.names.unstoppable import Chain, UnstoppableNames
from content_gateway.names.zone import ZoneFile
from content_gateway.outbound import Outbound
from content_gateway.pins.pinning import Pinning
from content_gateway.pins.reconciler import Reconciler
from content_gateway.pins.sweep import Sweeper
from content_gateway.settings.model import PACKAGED_SPEC, Settings
from content_gateway.storage.api_keys import SqliteKeys
from content_gateway.storage.contents import SqliteContents
from content_gateway.storage.last_known import SqliteLastKnown
from content_gateway.storage.sqlite import Database
from content_gateway.storage.sweeps import SqliteSweeps

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Gateway:
    """The open parts that commands and the server work with."""

    api: Api
    directory: Directory
    ipns: IpnsResolver
    pinning: Pinning
    contents: SqliteContents
    sweeps: SqliteSweeps
    keys: Keys
    issued_keys: IssuedKeys
    reconciler: Reconciler
    sweeper: Sweeper

    def start(self) -> None:
        """Begin to keep what was promised; for whoever stays."""
        self.reconciler.start()
        self.sweeper.start()


@asynccontextmanager
async def opened(settings: Settings, zones: Sequence[ZoneFile] = ()) -> AsyncIterator[Gateway]:
    """Every part, wired by *settings*; *zones* are asked behind the operator's own.

    Reconciler and sweeper are ready but not started. Raises WrongSettings."""
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(Database(settings.ledger_path))
        outbound = await stack.enter_async_context(Outbound())

        last_known = await stack.enter_async_context(SqliteLastKnown(database))
        blocking = Blocklist(settings.blocking.denylist_file, settings.blocking.names_file)
        stack.callback(blocking.close)

        pins = await kept_pins(stack, settings, database, outbound, blocking)
        ipns = ipns_resolver(settings, outbound, last_known, blocking)
        stack.push_async_callback(ipns.close)
        guard = Guard(local_gateways=settings.ens.local_gateways)
        gateways = Gateways(await stack.enter_async_context(Outbound(guard)))
        own_zones = [ZoneFile(path) for path in [settings.names.zone_file] if path]
        for zone in own_zones:
            stack.callback(zone.close)
        directory = Directory(
            local=[*own_zones, *zones],
            services=name_services(settings, outbound, gateways),
            ipns=ipns,
            blocking=blocking,
            cache=Cache(last_known, ages=ages(settings)),
            policy=DirectoryPolicy(lookup=settings.names.deadline),
        )
        stack.push_async_callback(directory.close)

        issued_keys = IssuedKeys(SqliteKeys(database))
        keys: Keys = OpenKeys() if settings.keys.mode == "open" else issued_keys
        contract = Contract(settings.spec_file)
        delegates, first_outcome = settings.pins.delegates, pins.reconciler.first_outcome
        served = pins.store if settings.embedded.serve else None
        handlers = {
            **NameHandlers(contract=contract, directory=directory, ipns=ipns).by_id,
            **PinHandlers(pins.pinning).by_id,
            **PsaHandlers(pins.pinning, delegates=delegates, first_outcome=first_outcome).by_id,
            **TrustlessHandlers(served, blocking).by_id,
        }
        api = Api(operations_of(contract), handlers, keys)
        yield Gateway(
            api=api,
            directory=directory,
            ipns=ipns,
            pinning=pins.pinning,
            contents=pins.contents,
            sweeps=pins.sweeps,
            keys=keys,
            issued_keys=issued_keys,
            reconciler=pins.reconciler,
            sweeper=pins.sweeper,
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


def name_services(settings: Settings, outbound: Outbound, gateways: Gateways) -> list[NameService]:
    """The configured name services, in the order they are asked."""
    theirs, chains = settings.unstoppable, unstoppable_chains(settings, outbound)
    services: list[NameService] = [UnstoppableNames(chains, theirs.tlds)]
    if settings.ens.rpc_urls:
        services.append(ens_names(settings, outbound, gateways))
    if chains:
        services.append(UnstoppableNames(chains, theirs.shared_tlds))
    return services


def ens_names(settings: Settings, outbound: Outbound, gateways: Gateways) -> NameService:
    """ENS with its off-chain gateways, and with what Base knows if that may be asked."""
    chosen, basenames = settings.ens, settings.basenames
    ens = EnsNames(
        CcipRead(chain(settings, outbound, chosen.rpc_urls), gateways),
        universal_resolver=chosen.universal_resolver,
        registry=chosen.registry,
        name_wrapper=chosen.name_wrapper,
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
    policy = IpnsPolicy(source_limit=chosen.timeout + 1)
    return IpnsResolver(Links(sources, domains, store, policy=policy), blocking)


def operations_of(contract: Contract) -> Sequence[Operation]:
    """The operations to serve.

    A description that is missing or broken when the service starts takes only /version and
    /spec away: the routes then come from the one that this program was shipped with."""
    try:
        return contract.read().operations
    except ContractBroken as broken:
        log.error("spec_file cannot be served", reason=broken.detail, cause=repr(broken.__cause__))
        return Contract(PACKAGED_SPEC).read().operations
