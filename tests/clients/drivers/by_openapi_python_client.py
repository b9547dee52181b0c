"""Sixteen calls by the client that openapi-python-client generates: asked is URL, KEY and CID."""

import json
import sys
from datetime import timedelta

from content_gateway_client import AuthenticatedClient
from content_gateway_client.api.domains import resolve_domain
from content_gateway_client.api.information import get_key, get_version
from content_gateway_client.api.ipns import start_ipns_resolution
from content_gateway_client.api.pinning_service_api import psa_list_pins
from content_gateway_client.api.pins import add_pin, get_pin_status, list_pins, remove_pin
from content_gateway_client.models import (
    IpfsContent,
    IpnsContent,
    PinState,
    Problem,
    PsaStatus,
)

url, key, cid = sys.argv[1:]
client = AuthenticatedClient(url, key, auth_header_name="x-api-key", prefix="")
stranger = AuthenticatedClient(url, "nobody", auth_header_name="x-api-key", prefix="")
bearer = AuthenticatedClient(url, key)


def resolve(domain: str, **more: int) -> object:
    """What *domain* points at, or the problem."""
    return resolve_domain.sync(domain, client=client, **more)


def refusal(problem: object) -> list:
    """What the problem says of itself."""
    assert isinstance(problem, Problem), problem
    return [problem.status, problem.code.value, problem.detail == problem.message]


site, blog = resolve("site.test"), resolve("blog.test")
assert isinstance(site.content, IpfsContent)
assert isinstance(blog.content, IpnsContent)
started = start_ipns_resolution.sync("ipns://" + blog.content.name, client=client).result

# Lists go out as repeated parameters, whatever `explode` says (its issue 197); both are taken.
held = list_pins.sync(client=client, status=[PinState.PINNED, PinState.FAILED])
(kept,) = held.results
others = list_pins.sync(client=client, status=[PinState.PINNING, PinState.UNPINNED])
minute = timedelta(minutes=1)
found = psa_list_pins.sync(
    client=bearer,
    after=kept.timestamp - minute,
    before=kept.timestamp + minute,
    status=[PsaStatus.PINNED, PsaStatus.FAILED],
    meta='{"commit":"3f2a9c1"}',
)

added = add_pin.sync(cid, client=client, name="site", meta='{"app":"demo"}')
status = get_pin_status.sync(cid, client=client).result
removed = remove_pin.sync(cid, client=client).result

answers = {
    "version": get_version.sync(client=client).version,
    "scopes": [scope.value for scope in get_key.sync(client=client).result.scopes],
    "site": [site.content.cid, site.wallet_address.addr],
    "coin": resolve("site.test", coin_type=0).wallet_address.addr,
    "cafe": resolve("café.test").wallet_address.addr,
    "blog": [blog.content.name, started.name],
    "missing": refusal(resolve("nobody.eth")),
    "invalid": refusal(resolve("café_.test")),
    "refused": refusal(get_key.sync(client=stranger)),
    "kept": [kept.cid, kept.name, kept.meta.additional_properties, kept.status.value],
    "at": round(kept.timestamp.timestamp() * 1000),
    "others": [others.count, len(others.results)],
    "found": [pin.pin.name for pin in found.results],
    "added": [added.message, added.result.cid],
    "status": [status.cid, status.name, status.meta.additional_properties],
    "removed": [removed.cid, removed.content.value],
}
print(json.dumps(answers))
