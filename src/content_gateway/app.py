"""The composition root: which parts there are and how they fit, as ordinary code.

Opens from top to bottom and closes from bottom to top. Knows every part and decides nothing
that a part could; commands and tests get the same objects from here."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import structlog

from content_gateway.api.auth import Keys
from content_gateway.api.contract import Contract, Operation
from content_gateway.api.routes import Api, Handlers
from content_gateway.errors import ContractBroken, WrongSettings
from content_gateway.ethereum.rpc import EthereumRpc
from content_gateway.ipfs.delegated_router import DelegatedRouter
from content_gateway.ipfs.embedded.blockstore import Blockstore
from content_gateway.ipfs.embedded.retrieval import Retrieval
from content_gateway.ipfs.embedded.store import EmbeddedStore
from content_gateway.ipfs.ipfs_cluster import IpfsCluster
from content_gateway.ipfs.kubo import Kubo
from content_gateway.ipns.resolver import IpnsResolver
from content_gateway.ipns.resolver import Policy as IpnsPolicy
from content_gateway.keys import IssuedKeys, OpenKeys
from content_gateway.names.directory import Directory, NameService
from content_gateway.names.directory import Policy as DirectoryPolicy
from content_gateway.names.ens import EnsNames
from content_gateway.names.zone import ZoneFile
from content_gateway.outbound import Outbound
from content_gateway.pins.pinning import Pinning
from content_gateway.pins.reconciler import PinBackend, Reconciler
from content_gateway.settings.model import PACKAGED_SPEC, Settings
from content_gateway.storage.api_keys import SqliteKeys
from content_gateway.storage.ledger import SqliteLedger
from content_gateway.storage.sqlite import Database

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Gateway:
    """The open parts that commands and the server work with."""

    api: Api
    directory: Directory
    pinning: Pinning
    keys: Keys
    issued_keys: IssuedKeys
    reconciler: Reconciler


@asynccontextmanager
async def opened(settings: Settings, zones: Sequence[ZoneFile] = ()) -> AsyncIterator[Gateway]:
    """Every part, wired by *settings*; *zones* are asked behind the operator's own.

    The reconciler is ready but not started: only a server starts it. Raises WrongSettings."""
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(Database(settings.ledger_path))
        outbound = await stack.enter_async_context(Outbound())

        ledger = SqliteLedger(database)
        reconciler = Reconciler(ledger, pin_backend(settings, outbound))
        stack.push_async_callback(reconciler.close)
        pinning = Pinning(ledger, wake=reconciler.wake)

        ipns = IpnsResolver(
            [
                DelegatedRouter(outbound, url, seconds=settings.ipns.timeout)
                for url in settings.ipns.routers
            ],
            policy=IpnsPolicy(source_limit=settings.ipns.timeout + 1),
        )
        stack.push_async_callback(ipns.close)
        zone_file, ens = settings.names.zone_file, settings.ens
        directory = Directory(
            local=[*([ZoneFile(zone_file)] if zone_file else []), *zones],
            services=name_services(settings, outbound),
            ipns=ipns,
            policy=DirectoryPolicy(lookup=ens.timeout * (len(ens.rpc_urls) + 1)),
        )
        stack.push_async_callback(directory.close)

        issued_keys = IssuedKeys(SqliteKeys(database))
        keys: Keys = OpenKeys() if settings.keys.mode == "open" else issued_keys
        contract = Contract(settings.spec_file)
        handlers = Handlers(contract, directory, pinning)
        api = Api(operations_of(contract), handlers.by_id, keys)
        yield Gateway(api, directory, pinning, keys, issued_keys, reconciler)


def name_services(settings: Settings, outbound: Outbound) -> list[NameService]:
    """The configured name services, in the order they are asked."""
    ens = settings.ens
    if not ens.rpc_urls:
        return []
    ethereum = EthereumRpc(outbound, ens.rpc_urls, seconds=ens.timeout)
    return [EnsNames(ethereum, universal_resolver=ens.universal_resolver, registry=ens.registry)]


def pin_backend(settings: Settings, outbound: Outbound) -> PinBackend:
    """The configured pin backend; raises WrongSettings when its folder cannot be made."""
    if settings.pins.backend == "ipfs-cluster":
        cluster = settings.ipfs_cluster
        return IpfsCluster(
            outbound, cluster.url, username=cluster.username, password=cluster.password
        )
    if settings.pins.backend == "kubo":
        return Kubo(outbound, settings.kubo.url)
    blocks = Blockstore(settings.data_dir)
    try:
        blocks.open()
    except OSError as wrong:
        raise WrongSettings(f"data_dir: {settings.data_dir} cannot be used: {wrong}") from wrong
    embedded = settings.embedded
    retrieval = Retrieval(outbound, embedded.gateways, seconds=embedded.timeout)
    return EmbeddedStore(blocks, retrieval.fetch)


def operations_of(contract: Contract) -> Sequence[Operation]:
    """The operations to serve.

    A description that is missing or broken when the service starts takes only /version and
    /spec away: the routes then come from the one that this program was shipped with."""
    try:
        return contract.read().operations
    except ContractBroken as broken:
        log.error("spec_file cannot be served", reason=broken.detail, cause=repr(broken.__cause__))
        return Contract(PACKAGED_SPEC).read().operations
