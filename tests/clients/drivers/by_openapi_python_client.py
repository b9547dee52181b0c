"""Ten calls by the client that openapi-python-client generates: asked is URL, KEY and CID."""

import json
import sys

from content_gateway_client import AuthenticatedClient
from content_gateway_client.api.domains import resolve_domain
from content_gateway_client.api.information import get_key, get_version
from content_gateway_client.api.pins import add_pin, get_pin_status, list_pins, remove_pin
from content_gateway_client.models import IpfsContent, PinState, Problem

url, key, cid = sys.argv[1:]
client = AuthenticatedClient(url, key, auth_header_name="x-api-key", prefix="")
stranger = AuthenticatedClient(url, "nobody", auth_header_name="x-api-key", prefix="")

site = resolve_domain.sync("site.test", client=client)
assert isinstance(site.content, IpfsContent)
missing = resolve_domain.sync("nobody.eth", client=client)
refused = get_key.sync(client=stranger)
assert isinstance(missing, Problem)
assert isinstance(refused, Problem)
added = add_pin.sync(cid, client=client, name="site", meta='{"commit":"3f2a9c1"}')
status = get_pin_status.sync(cid, client=client).result
listed = list_pins.sync(client=client, status=[*PinState]).results[0]

print(
    json.dumps(
        {
            "version": get_version.sync(client=client).version,
            "scopes": [str(scope) for scope in get_key.sync(client=client).result.scopes],
            "site": [site.content.cid, site.wallet_address.addr],
            "coin": resolve_domain.sync(
                "site.test", client=client, coin_type=0
            ).wallet_address.addr,
            "cafe": resolve_domain.sync("café.test", client=client).wallet_address.addr,
            "missing": [missing.status, str(missing.code)],
            "refused": [refused.status, str(refused.code)],
            "added": [added.message, added.result.cid],
            "status": [status.cid, status.name, status.replicas.pinned >= 0],
            "listed": [listed.name, listed.meta.additional_properties, listed.status in PinState],
            "removed": str(remove_pin.sync(cid, client=client).result.content),
        }
    )
)
