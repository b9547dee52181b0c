"""Parts that the tests of DNSLink share."""

from collections.abc import AsyncIterator

import pytest

from content_gateway.ipns.sources.dnslink import DnsLinks
from content_gateway.net.dns import Dns
from tests.fakes.dns_resolver import DnsResolver, running_dns
from tests.ipns.dnslink.links import IPFS, NAME


@pytest.fixture
async def dns() -> AsyncIterator[DnsResolver]:
    """A resolver that knows the link of example.org."""
    async with running_dns() as dns:
        dns.txt(NAME, f"dnslink={IPFS}")
        yield dns


@pytest.fixture
def links(dns: DnsResolver) -> DnsLinks:
    return DnsLinks(Dns(["127.0.0.1"], seconds=5, port=dns.port))
