"""Chromium, and a service with a zone of its own before a miniature cluster."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

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


@asynccontextmanager
async def with_zone(cluster: MiniCluster, folder: Path, **chosen: Any) -> AsyncIterator[Service]:
    """A service before *cluster* that answers for ZONE, with settings as *chosen*."""
    zone = folder / "zone.toml"
    zone.write_text(ZONE)
    async with before(cluster, folder / "gateway", names__zone_file=zone, **chosen) as service:
        yield service


@pytest.fixture
async def service(tmp_path: Path, cluster: MiniCluster) -> AsyncIterator[Service]:
    async with with_zone(cluster, tmp_path) as service:
        yield service


@pytest.fixture
async def there(browser: Browser, service: Service) -> Window:
    """A wide, light window of the service."""
    return await window(browser, service.url)
