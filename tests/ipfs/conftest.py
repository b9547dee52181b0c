"""Parts that the tests of the embedded store share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from content_gateway.ipfs.embedded.blockstore import Blockstore
from content_gateway.ipfs.embedded.retrieval import Retrieval
from content_gateway.ipfs.embedded.store import EmbeddedStore
from content_gateway.outbound import Outbound
from tests.fakes.origin import Origin, running_origin


@pytest.fixture
async def other() -> AsyncIterator[Origin]:
    """A second gateway, asked behind the first."""
    async with running_origin() as other:
        yield other


@pytest.fixture
def blocks(tmp_path: Path) -> Blockstore:
    blocks = Blockstore(tmp_path)
    blocks.open()
    return blocks


@pytest.fixture
def retrieval(outbound: Outbound, origin: Origin, other: Origin) -> Retrieval:
    return Retrieval(outbound, [origin.url, other.url + "/"], seconds=0.3)


@pytest.fixture
def store(blocks: Blockstore, retrieval: Retrieval) -> EmbeddedStore:
    return EmbeddedStore(blocks, retrieval.fetch)
