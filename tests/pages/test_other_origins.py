"""Pages of other origins in Chromium: what they may do, and what no page may do to ours."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from playwright.async_api import Browser, Error, expect

from tests.fakes.cluster import MiniCluster
from tests.http.held import V1
from tests.pages.conftest import WALLET, with_zone
from tests.service import Service
from tests.world.browser import window

EXAMPLE = Path(__file__).parents[2] / "examples" / "browser"
CALL = """async ([url, method, path]) => {
    const headers = {"x-api-key": "me", "cache-control": "no-cache"};
    const answer = await fetch(url + path, {method, headers});
    return [answer.status, await answer.json(), answer.headers.get("x-request-id")];
}"""


@asynccontextmanager
async def running_page(html: str, script: str = "") -> AsyncIterator[str]:
    """The address of a page on an origin of its own, with a *script* beside it."""

    async def page(request: web.BaseRequest) -> web.Response:
        if request.path.endswith(".js"):
            return web.Response(text=script, content_type="text/javascript")
        return web.Response(text=html, content_type="text/html")

    runner = web.ServerRunner(web.Server(page))
    await runner.setup()
    site = web.TCPSite(runner, "localhost", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        yield f"http://localhost:{port}"
    finally:
        await runner.cleanup()


async def test_a_page_of_another_origin_resolves_pins_and_lists(
    browser: Browser, cluster: MiniCluster, tmp_path: Path
) -> None:
    """Where its origin is listed; it reads refusals too, and the fields of ours."""
    async with (
        running_page("<title>app</title>") as origin,
        with_zone(cluster, tmp_path, cors__origins=[origin]) as service,
    ):
        page = (await window(browser, origin)).page
        await page.goto(origin)

        async def call(method: str, path: str) -> Any:
            status, body, request_id = await page.evaluate(CALL, [service.url, method, path])
            assert request_id
            return status, body

        status, body = await call("GET", "/domain/resolve/site.test")
        assert (status, body["walletAddress"]["addr"]) == (200, WALLET)
        status, body = await call("POST", f"/ipfs/pin/add/{body['content']['cid']}?name=site")
        assert (status, body["message"]) == (200, "Pin added")
        status, body = await call("GET", "/ipfs/pin/ls")
        assert [(pin["cid"], pin["name"]) for pin in body["results"]] == [(V1, "site")]
        status, body = await call("DELETE", f"/ipfs/pin/rm/{V1}")
        assert (status, body["message"]) == (200, "Pin removed")
        status, body = await call("GET", "/nowhere")
        assert (status, body["code"]) == (404, "not-found")


async def test_the_example_for_browsers_works(
    browser: Browser, cluster: MiniCluster, tmp_path: Path
) -> None:
    """As it stands in examples/browser; a refusal is shown in words."""
    html, script = [(EXAMPLE / name).read_text() for name in ("index.html", "client.js")]
    async with (
        running_page(html, script) as origin,
        with_zone(cluster, tmp_path, cors__origins=[origin]) as service,
    ):
        page = (await window(browser, origin)).page
        await page.goto(origin)
        await page.locator("#gateway").fill(service.url)
        await page.locator("#key").fill("me")
        await page.locator("#domain").fill("nothing")
        await page.get_by_role("button").click()
        await expect(page.locator("#said")).to_contain_text("Invalid domain")
        await page.locator("#domain").fill("site.test")
        await page.get_by_role("button").click()
        await expect(page.locator("#said")).to_have_text("site.test is pinned")
        await expect(page.locator("#pins li")).to_have_text(f"{V1} site.test")


async def test_a_page_that_is_not_listed_reads_nothing(browser: Browser, service: Service) -> None:
    """Without `cors.origins` no other origin may call."""
    async with running_page("<title>app</title>") as origin:
        page = (await window(browser, origin)).page
        await page.goto(origin)
        with pytest.raises(Error, match="Failed to fetch"):
            await page.evaluate(CALL, [service.url, "GET", "/version"])


async def test_no_site_frames_the_console(browser: Browser, service: Service) -> None:
    """Whoever could would have its visitors click there without knowing."""
    html = f"<title>trap</title><iframe src={service.url}/console></iframe>"
    async with running_page(html) as origin:
        trap = await window(browser, origin)
        await trap.page.goto(origin)
        frame = trap.page.frames[1]
        assert await frame.locator("#key").count() == 0
        assert any("frame-ancestors" in error for error in trap.errors)
