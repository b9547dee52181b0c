"""Ten calls by the client that OpenAPI Generator generates: asked is URL, KEY and CID."""

import json
import sys
from collections.abc import Callable

from openapi_client import ApiClient, Configuration, DomainsApi, InformationApi, PinsApi, PinState
from openapi_client.exceptions import NotFoundException, UnauthorizedException
from openapi_client.models import IpfsContent, Problem

url, key, cid = sys.argv[1:]
client = ApiClient(Configuration(host=url, api_key={"apiKey": key}))
stranger = ApiClient(Configuration(host=url, api_key={"apiKey": "nobody"}))
domains, information, pins = DomainsApi(client), InformationApi(client), PinsApi(client)


def refusal(kind: type, call: Callable, *arguments: str) -> list:
    """The problem document that *call* is refused with."""
    try:
        call(*arguments)
    except kind as error:
        if not isinstance(error.data, Problem):
            raise
        return [error.data.status, error.data.code.value]
    raise AssertionError("it was not refused")


site = domains.resolve_domain("site.test")
assert isinstance(site.content.actual_instance, IpfsContent)
added = pins.add_pin(cid, name="site", meta='{"commit":"3f2a9c1"}')
status = pins.get_pin_status(cid).result
listed = pins.list_pins(status=[*PinState]).results[0]

print(
    json.dumps(
        {
            "version": information.get_version().version,
            "scopes": [scope.value for scope in information.get_key().result.scopes],
            "site": [site.content.actual_instance.cid, site.wallet_address.addr],
            "coin": domains.resolve_domain("site.test", coin_type=0).wallet_address.addr,
            "cafe": domains.resolve_domain("café.test").wallet_address.addr,
            "missing": refusal(NotFoundException, domains.resolve_domain, "nobody.eth"),
            "refused": refusal(UnauthorizedException, InformationApi(stranger).get_key),
            "added": [added.message, added.result.cid],
            "status": [status.cid, status.name, status.replicas.pinned >= 0],
            "listed": [listed.name, listed.meta, listed.status in PinState],
            "removed": pins.remove_pin(cid).result.content,
        }
    )
)
