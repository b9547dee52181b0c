"""Parts that the tests of the embedded store share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from content_gateway.ipfs.embedded.blockstore import Blockstore
from content_gateway.ipfs.embedded.gateways import Gateways
from content_gateway.ipfs.embedded.store import EmbeddedStore
from content_gateway.outbound import Outbound
from tests.fakes.origin import Origin, running_origin


@pytest.fixture
async def other() -> AsyncIterator[Origin]:
    """A second gateway."""
    async with running_origin() as other:
        yield other


@pytest.fixture
async def blocks(tmp_path: Path) -> AsyncIterator[Blockstore]:
    async with Blockstore(tmp_path / "blocks.sqlite") as blocks:
        yield blocks


@pytest.fixture
def gateways(outbound: Outbound, origin: Origin, other: Origin) -> Gateways:
    return Gateways(outbound, [origin.url, other.url + "/"], seconds=5)


@pytest.fixture
def store(blocks: Blockstore, gateways: Gateways) -> EmbeddedStore:
    return EmbeddedStore(blocks, gateways)
