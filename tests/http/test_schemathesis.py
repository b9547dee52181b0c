"""Schemathesis, all phases, against the running service: what it finds is a defect."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from content_gateway.settings.model import PACKAGED_SPEC
from tests.fakes.ethereum import Name, running_ethereum
from tests.fakes.origin import running_origin
from tests.http.schemathesis_hooks import TYPES, in_a_query, question
from tests.process import running

pytestmark = pytest.mark.deep

EXAMPLES = os.environ.get("SCHEMATHESIS_EXAMPLES", "50")
# A ledger elsewhere than in a file; `make faults` names one.
DATABASE = os.environ.get("SCHEMATHESIS_DATABASE", "")
SHARED = {
    "CONTENT_GATEWAY_DATABASE__URL": DATABASE,
    "CONTENT_GATEWAY_PINS__BACKEND": "ipfs-cluster",
    "CONTENT_GATEWAY_IPFS_CLUSTER__URLS": '["http://127.0.0.1:9"]',
}
SERVING = {"CONTENT_GATEWAY_EMBEDDED__SERVE": "true"}
HOOKS = {
    "SCHEMATHESIS_HOOKS": "tests.http.schemathesis_hooks",
    "PYTHONPATH": str(Path(__file__).parents[2]),
}
# That too long a path was refused is no defect, though it was refused for another reason. And a
# requestor has one pin of a CID: where two POSTs of it have told the same request id, the second
# DELETE rightly finds nothing. Links are those of the description: by itself Schemathesis takes the
# name that an IPNS resolution tells for an address. Most texts are some DNS name.
CONFIG = """
[phases.stateful.inference]
algorithms = ["location-headers"]
[checks]
ensure_resource_availability.enabled = false
negative_data_rejection.expected-statuses = [
    400, 401, 403, 404, 405, 406, 409, 414, 415, 422, 428, 429, 431, "5xx"
]
[[operations]]
include-name = "GET /dns-query"
checks.negative_data_rejection.enabled = false
"""
# What is drawn of each kind of text: the usual spellings, most of which the service takes. The
# description itself is as wide as the service.
SHAPES = {
    "DomainText": {
        "maxLength": 1022,
        "pattern": r"^([A-Za-z0-9]{1,255}|[A-Za-z0-9]{1,15}(-[A-Za-z0-9]{1,15}){1,15})"
        r"(\.([A-Za-z0-9]{1,255}|[A-Za-z0-9]{1,15}(-[A-Za-z0-9]{1,15}){1,15})){1,9}$",
    },
    "IpnsNameText": {
        "maxLength": 253,
        "pattern": r"^(k51qzi5uqu5d[h-l][0-9a-z]{49}"
        r"|[a-z0-9]{1,30}(-[a-z0-9]{1,30})?(\.[a-z0-9]{1,30}){1,3})$",
    },
    "IpnsKeyText": {"maxLength": 62, "pattern": r"^k51qzi5uqu5d[h-l][0-9a-z]{49}$"},
    "CidText": {
        "minLength": 46,
        "maxLength": 73,
        "pattern": r"^(b(afkrei|afybei|afyrei)[a-h][a-z2-7]{50}[aeimquy4]"
        r"|f01(55|70|71)1220[0-9a-f]{64}|Qm[P-Za-e][1-9A-HJ-NP-Za-km-z]{43})$",
    },
    # What is of another chain, or has a wrong checksum, is refused.
    "AddressText": {"minLength": 42, "maxLength": 42, "pattern": "^0x[0-9a-f]{40}$"},
    "RecordKey": {"pattern": r"^(text\.[a-z.]{1,20}|addr\.[1-9][0-9]{0,8})$"},
    "TimestampText": {
        "pattern": r"^2\d{3}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d"
        r"(\.\d{1,9})?Z$"
    },
    "MetaText": {"enum": ["{}", '{"app":"demo"}', '{"a":"b","commit":"3f2a9c1"}']},
    "MultiaddrText": {
        "pattern": r"^/(dns|dns4|dns6)/[a-z]{1,20}\.example\.com/tcp/[1-9][0-9]{0,3}(/https?"
        r"|/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN)?$"
    },
}
DNS_PATHS = ("/dns-query", "/dns-query/{key}")
DNS_NAME = {
    "type": "string",
    "maxLength": 250,
    "pattern": r"^[a-z0-9]{1,63}(\.[a-z0-9]{1,63}){0,2}$",
}
BYTES = r"^([0-9]{1,3}:(\*|[1-9][0-9]{3,6}|-[1-9][0-9]{0,5})|-[1-9][0-9]{0,5}:\*)$"
WALLET = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"


async def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    """Issued keys, a node and a router that answer, the embedded store or, where machines share the
    ledger, a cluster that is unreachable: no failure in any phase."""
    async with running_ethereum() as ethereum, running_origin() as router:
        ethereum.names["site.demo"] = Name(address=WALLET)
        settings = {
            "CONTENT_GATEWAY_ENS__RPC_URLS": f'["{ethereum.url}"]',
            "CONTENT_GATEWAY_IPNS__ROUTERS": f'["{router.url}"]',
            "CONTENT_GATEWAY_GATEWAY__HOSTS": '["*.example.limo"]',
            "CONTENT_GATEWAY_GATEWAY__LOOKUPS_PER_MINUTE": "0",
            # Names of a service that is not configured are 503, and `.x` is not seldom drawn.
            "CONTENT_GATEWAY_UNSTOPPABLE__TLDS": "[]",
        } | (SHARED if DATABASE else SERVING)
        async with running("serve", tmp_path / "data", settings) as service:
            key = await _key(tmp_path / "data")
            (tmp_path / "schemathesis.toml").write_text(CONFIG)
            (tmp_path / "spec.yaml").write_text(yaml.safe_dump(_description(key)))
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "schemathesis.cli", "run", "spec.yaml"),
                *("--url", service.url),
                *("--header", f"x-api-key: {key}", "--header", f"Authorization: Bearer {key}"),
                *("--max-examples", EXAMPLES),
                *("--phases", "examples,coverage,fuzzing,stateful", "--seed", "1"),
                *("--no-color", "--continue-on-failure", "--suppress-health-check", "all"),
                cwd=tmp_path,
                env=os.environ | HOOKS,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            report, _ = await child.communicate()
    text = report.decode()
    assert child.returncode == 0, text[-8000:]
    assert "Tested: 36" in " ".join(text.split()), text[-2000:]


def _description(key: str) -> dict[str, Any]:
    """What the service says of itself, of which SHAPES is drawn, and what no schema can say."""
    described: dict[str, Any] = yaml.safe_load(PACKAGED_SPEC.read_text())
    for name, shape in SHAPES.items():
        described["components"]["schemas"][name] |= shape
    paths, parameters = described["paths"], described["components"]["parameters"]
    # An address is one of its chain: only EVM chains are drawn.
    of_address = paths["/address/resolve/{address}"]["get"]["parameters"]
    of_address[1]["schema"] = {"type": "integer", "minimum": 1 << 31, "maximum": 2**32 - 1}
    # A question has a name or is a message: one of the two paths is asked in each form.
    named, whole = (paths[path]["get"]["parameters"] for path in DNS_PATHS)
    named[:] = [each for each in named if not each["$ref"].endswith("/DnsMessage")]
    whole[:] = [each for each in whole if each["$ref"].endswith(("/KeyPath", "/DnsMessage"))]
    parameters["DnsName"] |= {"required": True, "schema": DNS_NAME}
    parameters["DnsType"]["schema"] = {"type": "string", "enum": list(TYPES)}
    messages = [in_a_query(question(f"{kind}.eth", kind, 0, -1)) for kind in TYPES]
    parameters["DnsMessage"] |= {"required": True, "schema": {"enum": messages}}
    # Of two numbers the second is not before the first.
    parameters["EntityBytes"]["schema"] = {"type": "string", "pattern": BYTES}
    parameters["KeyPath"] |= {"schema": {"enum": [key]}, "example": key}
    return described


async def _key(data: Path) -> str:
    """An issued key of the ledger below *data*, by the operator's own command."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "content_gateway", "keys", "create", "--name", "fuzzer"),
        env=os.environ | {"CONTENT_GATEWAY_DATA_DIR": str(data)} | (SHARED if DATABASE else {}),
        stdout=asyncio.subprocess.PIPE,
    )
    key, _ = await child.communicate()
    return key.decode().strip()
