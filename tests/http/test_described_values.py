"""What the service takes is valid by its description: clients that validate refuse nothing good."""

from typing import Any

import pytest
from openapi_schema_validator import OAS30WriteValidator, oas30_format_checker

from content_gateway.codecs.multiformats import MULTIBASES
from content_gateway.http.query import timestamp
from content_gateway.model.cid import CODECS, Cid
from content_gateway.model.domain import DomainName
from content_gateway.model.ipns_name import IpnsName
from content_gateway.model.multiaddr import Multiaddr
from tests.contract import contract
from tests.model.test_multiaddr import GOOD as MULTIADDRS
from tests.samples import CID_TEXT, KEY_TEXT

IDENTITY_CIDS = [bytes(Cid(0x55, 0, bytes(n))) for n in (0, 1, 128)]
CIDS = [
    *(prefix + base.encode(bytes(Cid.parse(CID_TEXT))) for prefix, base in MULTIBASES.items()),
    *(str(Cid(codec, 0x12, bytes(32))) for codec in CODECS),
    *(prefix + MULTIBASES[prefix].encode(data) for data in IDENTITY_CIDS for prefix in "bzm"),
    "QmbWqxBEKC3P8tqsKc98xmWNzrzDtRLMiMPL8wBuTGsMnR",
]
DOMAINS = [
    *(
        "a.b",
        "vitalik.eth",
        "café.eth",
        "bücher.example",
        "👩🏽‍🚀.eth",
        "名前.eth",
        "_dnslink.a.eth",
    ),
    *(".".join(["a" * 255] * 3 + ["b" * 250]), ".".join("a" * 128), "UPPER.Eth"),
]
IPNS_NAMES = [
    *(KEY_TEXT, f"/ipns/{KEY_TEXT}", f"ipns://{KEY_TEXT}", "docs.ipfs.tech", "a.b"),
    "12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN",
    "QmbWqxBEKC3P8tqsKc98xmWNzrzDtRLMiMPL8wBuTGsMnR",
]
MOMENTS = [
    *(f"2026-01-{day:02}T23:59:59Z" for day in range(1, 32)),
    *("2028-02-29T00:00:00.123456789Z", "1970-01-01T00:00:00.5+14:00", "2026-11-23T10:00:00-01:30"),
]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        *(("CidText", text) for text in CIDS),
        *(("DomainText", text) for text in DOMAINS),
        *(("IpnsNameText", text) for text in IPNS_NAMES),
        *(("TimestampText", text) for text in MOMENTS),
        *(("MultiaddrText", text) for text in MULTIADDRS),
    ],
)
def test_what_is_taken_is_described(schema: str, text: str) -> None:
    """Each text is read by the service, and valid by the schema of its kind."""
    read: dict[str, Any] = {
        "CidText": Cid.parse,
        "DomainText": DomainName.parse,
        "IpnsNameText": IpnsName.parse,
        "TimestampText": lambda text: timestamp("before", text, up=True),
        "MultiaddrText": Multiaddr.parse,
    }
    read[schema](text)
    described = contract().tree["components"]["schemas"][schema]
    OAS30WriteValidator(described, format_checker=oas30_format_checker).validate(text)
