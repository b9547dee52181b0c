"""Clients that generators make of /spec: compiled, and sixteen calls of each answered."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from content_gateway.api_keys import SCOPES
from tests.clients.generators import GENERATORS, run
from tests.fakes.cluster import MiniCluster
from tests.fakes.ethereum import Ethereum
from tests.http.held import V1, becomes, before, cid_of, running_cluster
from tests.samples import KEY_TEXT
from tests.service import Service

pytestmark = pytest.mark.deep

WALLET = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
BITCOIN = "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"
ZONE = f"""
[names."site.test"]
address = "{WALLET}"
addresses.0 = "{BITCOIN}"
content = "ipfs://{V1}"
[names."café.test"]
address = "{WALLET}"
[names."blog.test"]
content = "ipns://{KEY_TEXT}"
"""
KEPT = cid_of("pinned before any driver comes")


@pytest.fixture
async def cluster() -> AsyncIterator[MiniCluster]:
    async with running_cluster() as cluster:
        yield cluster


@asynccontextmanager
async def served(
    folder: Path, cluster: MiniCluster, ethereum: Ethereum
) -> AsyncIterator[tuple[Service, str, Any]]:
    """A service with the zone above, a key of it, and the pin that the key holds already."""
    zone = folder / "zone.toml"
    zone.write_text(ZONE)
    chosen = {"names__zone_file": zone, "ens__rpc_urls": [ethereum.url], "keys__mode": "issued"}
    async with before(cluster, folder / "gateway", **chosen) as service:
        made = await service.gateway.issued_keys.create("driver", SCOPES, None)
        assert made is not None
        key = made[0]
        pinned = await service.pin(
            f"{KEPT}?name=kept&meta=%7B%22commit%22:%223f2a9c1%22%7D", key=key
        )
        assert pinned.status == 200, pinned.body
        yield service, key, await becomes(service, KEPT, "pinned", key=key)


async def drive(name: str, folder: Path, spec: bytes, service: Service, key: str) -> Any:
    """What the driver says of the calls it made with the client that *name* makes of *spec*."""
    folder.mkdir()
    (folder / "spec.json").write_bytes(spec)
    driver = await GENERATORS[name](folder)
    return msgspec.json.decode(await run(folder, *driver, service.url, key, V1))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", GENERATORS)
async def test_a_generated_client_reads_every_answer(
    name: str, tmp_path: Path, cluster: MiniCluster, ethereum: Ethereum
) -> None:
    """Typed values, refusals too; the driver says what it was told."""
    async with served(tmp_path, cluster, ethereum) as (service, key, kept):
        spec = await service.ask("GET", "/spec", key=None)
        said = await drive(name, tmp_path / "client", spec.body, service, key)
    assert said == {
        "version": spec.json["info"]["version"],
        "scopes": list(SCOPES),
        "site": [V1, WALLET],
        "coin": BITCOIN,
        "cafe": WALLET,
        "blog": [KEY_TEXT, KEY_TEXT],
        "missing": [404, "domain-not-found", True],
        "invalid": [400, "invalid-domain", True],
        "refused": [401, "unauthorized", True],
        "kept": [KEPT, "kept", {"commit": "3f2a9c1"}, "pinned"],
        "at": round(datetime.fromisoformat(kept["timestamp"]).timestamp() * 1000),
        "others": [0, 0],
        "found": ["kept"],
        "added": ["Pin added", V1],
        "status": [V1, "site", {"app": "demo"}],
        "removed": [V1, "released"],
    }


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["hey-api", "openapi-generator"])
async def test_a_client_that_validates_refuses_other_answers(
    name: str, tmp_path: Path, cluster: MiniCluster, ethereum: Ethereum
) -> None:
    """Were something else described, zod and pydantic would say so: they do read the answers."""
    async with served(tmp_path, cluster, ethereum) as (service, key, _):
        spec = (await service.ask("GET", "/spec", key=None)).json
        version = spec["components"]["schemas"]["Version"]["properties"]["version"]
        version["pattern"] = "^another version$"
        with pytest.raises(AssertionError, match="another version"):
            await drive(name, tmp_path / "client", msgspec.json.encode(spec), service, key)
