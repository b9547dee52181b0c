"""Chromium as a person uses it: windows of a size and a colour scheme, and what went wrong in them.

Knows Playwright, and axe-core, which tells what of a page people with disabilities cannot use. What
the pages should do is for the tests."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from tests.world.peers import require_peer

# The machine may be busy with other tests; a page that is right is seen as soon as it is.
_PATIENCE = 60_000
_ROOT = Path(__file__).parents[2]
SCREENSHOTS = Path(os.environ.get("SCREENSHOTS_DIR") or _ROOT / ".screenshots")
_AXE_IMPACTS = ("serious", "critical")
# Nothing but the service is to be reached, and a container has little shared memory.
_SWITCHES = (
    *("--no-sandbox", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-dev-shm-usage"),
)

Scheme = Literal["light", "dark"]
# A telephone and a wide screen, by day and by night: width in CSS pixels, and colours.
WINDOWS = [
    (1440, "light"),
    (375, "dark"),
    pytest.param(1440, "dark", marks=pytest.mark.deep),
    pytest.param(375, "light", marks=pytest.mark.deep),
]

expect.set_options(timeout=_PATIENCE)


class Window:
    """One window with one page of the service at *url*; what its console says is kept."""

    def __init__(self, context: BrowserContext, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.errors: list[str] = []
        self._context = context
        page.set_default_timeout(_PATIENCE)
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self.errors.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self._note_request(request.url))

    async def open(self, path: str) -> None:
        """Go to *path*, and wait until it is loaded."""
        await self.page.goto(self.url + path)

    async def check(self, name: str) -> None:
        """Keep a screenshot as *name*; fails unless the page is clean, and usable by everybody.

        Clean: no console error, no request to another origin, nothing that stands out sideways."""
        SCREENSHOTS.mkdir(exist_ok=True)
        await self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)
        assert self.errors == []
        widths = await self.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths[0] <= widths[1], f"{name} is {widths[0]} wide in a window of {widths[1]}"
        barriers = await self.barriers()
        assert not barriers, barriers

    async def barriers(self) -> list[Any]:
        """What axe-core finds that is serious or worse: [rule, elements]."""
        source = (require_peer("axe-core") / "axe.min.js").read_text()
        # Through the debugger: the page's policy, rightly, runs no script of ours.
        debugger = await self._context.new_cdp_session(self.page)
        await debugger.send("Runtime.evaluate", {"expression": source})
        found: list[dict[str, Any]] = await self.page.evaluate(
            "axe.run().then(report => report.violations)"
        )
        return [
            [rule["id"], [node["html"] for node in rule["nodes"]]]
            for rule in found
            if rule["impact"] in _AXE_IMPACTS
        ]

    def _note_message(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"console: {message.text}")

    def _note_request(self, url: str) -> None:
        if not url.startswith((self.url + "/", "data:")):
            self.errors.append(f"request: {url}")


@asynccontextmanager
async def running_browser(*switches: str) -> AsyncIterator[Browser]:
    """Chromium, without a window on the screen, and with *switches* beside the usual ones."""
    program = require_peer("chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program, args=[*_SWITCHES, *switches], timeout=_PATIENCE
        )
        try:
            yield browser
        finally:
            await browser.close()


async def window(
    browser: Browser, url: str, *, width: int = 1440, scheme: Scheme = "light"
) -> Window:
    """A new window, *width* CSS pixels wide, that shares nothing with any other."""
    context = await browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, locale="en-GB"
    )
    return Window(context, await context.new_page(), url)
