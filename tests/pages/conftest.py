"""Chromium, and a service with a zone of its own before a miniature cluster."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser

from tests.fakes.cluster import MiniCluster
from tests.http.held import V1, before, running_cluster
from tests.service import Service
from tests.world.browser import Window, running_browser, window

WALLET = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
ZONE = f"""
[names."site.test"]
address = "{WALLET}"
content = "ipfs://{V1}"
"""


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with running_browser() as browser:
        yield browser


@pytest.fixture
async def cluster() -> AsyncIterator[MiniCluster]:
    async with running_cluster() as cluster:
        yield cluster


@pytest.fixture
async def service(tmp_path: Path, cluster: MiniCluster) -> AsyncIterator[Service]:
    zone = tmp_path / "zone.toml"
    zone.write_text(ZONE)
    async with before(cluster, tmp_path / "gateway", names__zone_file=zone) as service:
        yield service


@pytest.fixture
async def there(browser: Browser, service: Service) -> Window:
    """A wide, light window of the service."""
    return await window(browser, service.url)
