"""The part of the composition root that serves the content of names: blocks to files to answers.

Opens and closes on the stack of wiring/, and decides nothing that a part could."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from content_gateway.backends.embedded.gateway_blocks import GatewayBlocks
from content_gateway.backends.embedded.gateways import TrustlessGateways
from content_gateway.backends.embedded.store import EmbeddedStore
from content_gateway.concurrency.fair_semaphore import FairSemaphore
from content_gateway.denylist.denylist import Denylist
from content_gateway.http.address_limits import AddressLimits
from content_gateway.http.gateway_hosts import GatewayHosts
from content_gateway.http.messages import Handlers
from content_gateway.http.operations.certificates import AskPolicy, CertificateHandlers
from content_gateway.http.operations.domain_content import ContentHandlers
from content_gateway.http.site_route import SiteRoute
from content_gateway.names.content import ContentNames
from content_gateway.net.connection_slots import PoolLimits
from content_gateway.net.http_client import HttpClient
from content_gateway.settings.model import Settings
from content_gateway.telemetry.numbers import Outcomes
from content_gateway.telemetry.tracing import Tracer
from content_gateway.unixfs.block_reader import BlockReader, ReadPolicy
from content_gateway.unixfs.reader import UnixFs
from content_gateway.wiring.names import WiredNames

# Somebody waits for the page: another gateway is asked sooner than for a pin.
_HEDGE_SECONDS: Final = 0.5
_SERVERS: Final = 4  # that are asked for blocks at the same time


@dataclass(frozen=True, slots=True)
class WiredContent:
    """What serves content: operations of the API, and the *hosts* of sites with their *sites*."""

    handlers: Handlers
    hosts: GatewayHosts
    sites: SiteRoute | None


async def wire_content(
    stack: AsyncExitStack,
    settings: Settings,
    names: WiredNames,
    store: EmbeddedStore | None,
    denylist: Denylist,
    *,
    answers: FairSemaphore,
    visitors: AddressLimits,
    upstreams: Outcomes,
    tracer: Tracer | None,
) -> WiredContent:
    """What serves the content of *names*, from *store* and gateways, closed with *stack*."""
    chosen = settings.content
    limits = PoolLimits(
        in_all=_SERVERS * chosen.parallel,
        per_server=chosen.parallel,
        waiting=1024,
        seconds=chosen.timeout,
    )
    client = await stack.enter_async_context(
        HttpClient(limits=limits, kind="content", outcomes=upstreams, tracer=tracer)
    )
    gateways = TrustlessGateways(
        client, chosen.gateways, seconds=chosen.timeout, hedge_seconds=_HEDGE_SECONDS
    )
    blocks = BlockReader(
        store,
        GatewayBlocks(gateways) if chosen.gateways else None,
        checker=denylist.checker,
        policy=ReadPolicy(
            at_once=chosen.parallel,
            patience=chosen.timeout,
            seconds=chosen.timeout,
            kept=chosen.memory,
        ),
    )
    stack.push_async_callback(blocks.close)
    shown = ContentNames(names.directory, names.ipns)
    content = ContentHandlers(
        shown,
        UnixFs(blocks, check_path=denylist.check_path),
        answers,
        mode=chosen.mode,
        redirect_to=chosen.redirect_to,
        seconds=chosen.deadline,
        check_path=denylist.check_path,
        visitors=visitors,
    )
    hosts = GatewayHosts(settings.gateway.hosts)
    certificates = CertificateHandlers(
        hosts, shown, policy=AskPolicy(per_minute=settings.gateway.certificates_per_minute)
    )
    return WiredContent(
        {**content.by_id, **certificates.by_id},
        hosts,
        SiteRoute(hosts, content) if hosts else None,
    )
