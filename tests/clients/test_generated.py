"""Clients that generators make of /spec: compiled, and ten calls of each answered."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from content_gateway.api_keys import SCOPES
from tests.clients.generators import GENERATORS, run
from tests.fakes.cluster import MiniCluster
from tests.fakes.ethereum import Ethereum
from tests.http.held import V1, before, running_cluster

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
"""


@pytest.fixture
async def cluster() -> AsyncIterator[MiniCluster]:
    async with running_cluster() as cluster:
        yield cluster


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", GENERATORS)
async def test_a_generated_client_reads_every_answer(
    name: str, tmp_path: Path, cluster: MiniCluster, ethereum: Ethereum
) -> None:
    """Typed values, refusals too; the driver says what it was told."""
    zone = tmp_path / "zone.toml"
    zone.write_text(ZONE)
    chosen = {"names__zone_file": zone, "ens__rpc_urls": [ethereum.url], "keys__mode": "issued"}
    async with before(cluster, tmp_path / "gateway", **chosen) as service:
        made = await service.gateway.issued_keys.create("driver", SCOPES, None)
        assert made is not None
        folder = tmp_path / "client"
        folder.mkdir()
        spec = await service.ask("GET", "/spec", key=None)
        (folder / "spec.json").write_bytes(spec.body)
        driver = await GENERATORS[name](folder)
        said = await run(folder, *driver, service.url, made[0], V1)
    assert msgspec.json.decode(said) == {
        "version": spec.json["info"]["version"],
        "scopes": list(SCOPES),
        "site": [V1, WALLET],
        "coin": BITCOIN,
        "cafe": WALLET,
        "missing": [404, "domain-not-found"],
        "refused": [401, "unauthorized"],
        "added": ["Pin added", V1],
        "status": [V1, "site", True],
        "listed": ["site", {"commit": "3f2a9c1"}, True],
        "removed": "released",
    }
