"""Resolve a name, pin what it points at, and wait until it is pinned. Python 3.11, no packages."""

import json
import os
import sys
import time
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

URL = os.environ.get("GATEWAY", "http://127.0.0.1:8080")
KEY = os.environ.get("CONTENT_GATEWAY_KEY", "me")


def call(method: str, path: str, **query: str) -> Any:
    """What the service says; ends the program with the words of a refusal."""
    request = Request(f"{URL}{path}?{urlencode(query)}", method=method, headers={"x-api-key": KEY})
    try:
        with urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except HTTPError as refused:  # after 503, try again in Retry-After seconds
        problem = json.load(refused)  # RFC 9457
        sys.exit(f"{problem['title']}: {problem['detail']} ({URL}{problem['type']})")


domain = sys.argv[1]
content = call("GET", f"/domain/resolve/{quote(domain, safe='')}").get("content", {})
cid = content.get("cid") or content.get("ipnsCache") or sys.exit(f"{domain} has no content")
print(domain, "is", cid)
print(call("POST", f"/ipfs/pin/add/{cid}", name=domain)["message"])
deadline = time.monotonic() + 60
while (pin := call("GET", f"/ipfs/pin/status/{cid}")["result"])["status"] != "pinned":
    if time.monotonic() > deadline:
        sys.exit(f"still {pin['status']}: {pin.get('reason', 'it is being fetched')}")
    time.sleep(0.5)
for listed in call("GET", "/ipfs/pin/ls", status="pinned")["results"]:
    print("-", listed["cid"], listed.get("name", ""))
