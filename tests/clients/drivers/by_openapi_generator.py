"""Sixteen calls by the client that OpenAPI Generator generates: asked is URL, KEY and CID."""

import json
import sys
from collections.abc import Callable
from datetime import timedelta

from openapi_client import (
    ApiClient,
    Configuration,
    DomainsApi,
    InformationApi,
    IPNSApi,
    PinningServiceAPIApi,
    PinsApi,
    PinState,
    PsaStatus,
)
from openapi_client.exceptions import (
    BadRequestException,
    NotFoundException,
    UnauthorizedException,
)
from openapi_client.models import IpfsContent, IpnsContent, Problem

url, key, cid = sys.argv[1:]
settings = Configuration(host=url, api_key={"apiKey": key}, access_token=key)
# Its own writes the offset without a colon, which RFC 3339 does not know (its issue 20961).
settings.datetime_format = "%Y-%m-%dT%H:%M:%S.%fZ"
client = ApiClient(settings)
stranger = InformationApi(ApiClient(Configuration(host=url, api_key={"apiKey": "nobody"})))
information, pins = InformationApi(client), PinsApi(client)
resolve = DomainsApi(client).resolve_domain


def refusal(kind: type, call: Callable, *arguments: str) -> list:
    """What the problem says of itself that *call* is refused with."""
    try:
        call(*arguments)
    except kind as error:
        problem = error.data
        assert isinstance(problem, Problem), problem
        return [problem.status, problem.code.value, problem.detail == problem.message]
    raise AssertionError("it was not refused")


site, blog = resolve("site.test"), resolve("blog.test").content.actual_instance
content = site.content.actual_instance
assert isinstance(content, IpfsContent)
assert isinstance(blog, IpnsContent)
started = IPNSApi(client).start_ipns_resolution("ipns://" + blog.name).result

held = pins.list_pins(status=[PinState.PINNED, PinState.FAILED])
(kept,) = held.results
others = pins.list_pins(status=[PinState.PINNING, PinState.UNPINNED])
minute = timedelta(minutes=1)
found = PinningServiceAPIApi(client).psa_list_pins(
    after=kept.timestamp - minute,
    before=kept.timestamp + minute,
    status=[PsaStatus.PINNED, PsaStatus.FAILED],
    meta='{"commit":"3f2a9c1"}',
)

added = pins.add_pin(cid, name="site", meta='{"app":"demo"}')
status = pins.get_pin_status(cid).result
removed = pins.remove_pin(cid).result

answers = {
    "version": information.get_version().version,
    "scopes": [scope.value for scope in information.get_key().result.scopes],
    "site": [content.cid, site.wallet_address.addr],
    "coin": resolve("site.test", coin_type=0).wallet_address.addr,
    "cafe": resolve("café.test").wallet_address.addr,
    "blog": [blog.name, started.name],
    "missing": refusal(NotFoundException, resolve, "nobody.eth"),
    "invalid": refusal(BadRequestException, resolve, "café_.test"),
    "refused": refusal(UnauthorizedException, stranger.get_key),
    "kept": [kept.cid, kept.name, kept.meta, kept.status.value],
    "at": round(kept.timestamp.timestamp() * 1000),
    "others": [others.count, len(others.results)],
    "found": [pin.pin.name for pin in found.results],
    "added": [added.message, added.result.cid],
    "status": [status.cid, status.name, status.meta],
    "removed": [removed.cid, removed.content],
}
print(json.dumps(answers))
