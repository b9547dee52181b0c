"""The part of the composition root that answers DNS over HTTPS: settings to its handlers.

Knows which endings are ours to answer for; the parts do the rest."""

from typing import TYPE_CHECKING, Final

from content_gateway.denylist.denylist import Denylist
from content_gateway.http.address_limits import AddressLimits
from content_gateway.http.operations.dns_query import DnsHandlers
from content_gateway.names.directory import Directory
from content_gateway.names.nodes import GNO
from content_gateway.net.dns import Dns
from content_gateway.settings.model import Settings

if TYPE_CHECKING:
    from content_gateway.http.operations.dns_answers import DnsAnswers

_OF_ENS: Final = "eth"


def dns_handlers(settings: Settings, directory: Directory, denylist: Denylist) -> DnsHandlers:
    """The handlers of /dns-query."""
    chosen = settings.doh
    forwarder = None
    if chosen.forward:
        forwarder = Dns(settings.ipns.dns_servers, seconds=settings.ipns.timeout)

    def answers() -> "DnsAnswers":
        from content_gateway.http.operations.dns_answers import (  # noqa: PLC0415 - dnspython
            DnsAnswers,
        )

        return DnsAnswers(
            directory,
            denylist,
            endings=endings(settings),
            addresses=chosen.addresses,
            forwarder=forwarder,
        )

    limits = AddressLimits(chosen.requests_per_minute)
    return DnsHandlers(answers, limits, is_open=chosen.open)


def endings(settings: Settings) -> list[str]:
    """The endings that are in no DNS, and whose name service is on.

    Those that Unstoppable Domains share with DNS, and names of DNS that are in ENS too, belong to
    DNS: whoever asks it for their addresses must get those of DNS."""
    theirs = settings.unstoppable
    is_on = any(urls for name, urls in theirs if name.endswith("rpc_urls"))
    return [
        *([_OF_ENS] if settings.ens.rpc_urls else []),
        *([GNO] if settings.gnosis.rpc_urls else []),
        *(theirs.tlds if is_on else ()),
    ]
