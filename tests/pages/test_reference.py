"""The front door, the API reference and the page of errors in Chromium."""

import pytest
from playwright.async_api import Browser, expect

from content_gateway.http.kinds import KINDS
from tests.pages.conftest import WALLET
from tests.service import Service
from tests.world.browser import WINDOWS, Scheme, Window, window


@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
async def test_the_front_door_leads_everywhere(
    browser: Browser, service: Service, width: int, scheme: Scheme
) -> None:
    """Its commands name the address that it was opened at."""
    there = await window(browser, service.url, width=width, scheme=scheme)
    await there.open("/")
    await expect(there.page.locator("pre")).to_contain_text(f"GATEWAY={service.url}")
    await there.check(f"front-door-{width}-{scheme}")
    for link, title in (
        ("Console", "Console"),
        ("API reference", "API reference"),
        ("Errors", "Errors"),
    ):
        await there.open("/")
        await there.page.get_by_role("navigation").get_by_role("link", name=link).click()
        await expect(there.page).to_have_title(f"{title} · Content Gateway")
    assert there.errors == []


@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
async def test_an_operation_is_called_from_the_reference(
    browser: Browser, service: Service, width: int, scheme: Scheme
) -> None:
    """With a key, for real; every operation of the description is there."""
    there = await window(browser, service.url, width=width, scheme=scheme)
    page = there.page
    await there.open("/docs")
    described = [
        operation["operationId"]
        for item in service.contract.tree["paths"].values()
        for operation in item.values()
        if isinstance(operation, dict)
    ]
    await expect(page.locator(".opblock")).to_have_count(len(described))
    await there.check(f"reference-{width}-{scheme}")
    await page.get_by_role("button", name="Authorize").click()
    await (
        page.get_by_label("auth-apikey-value").or_(page.locator("#api_key_value")).first.fill("me")
    )
    await page.locator(".auth-btn-wrapper .authorize").first.click()
    await page.get_by_role("button", name="Close").last.click()
    operation = page.locator("#operations-Domains-resolveDomain")
    await operation.locator(".opblock-summary-control").click()
    await operation.get_by_placeholder("domain").fill("site.test")
    coin = operation.get_by_placeholder("coinType")
    await coin.fill("")
    await operation.get_by_placeholder("Cache-Control").fill("")
    await operation.get_by_role("button", name="Execute").click()
    await expect(operation.locator(".live-responses-table")).to_contain_text(WALLET)
    await there.check(f"reference-called-{width}-{scheme}")


async def test_the_reference_opens_by_keyboard(there: Window) -> None:
    """Tab reaches an operation, and Enter opens it."""
    await there.open("/docs")
    first = there.page.locator(".opblock-summary-control").first
    await expect(first).to_be_visible()
    for _ in range(30):
        await there.page.keyboard.press("Tab")
        if await first.evaluate("one => one === document.activeElement"):
            break
    await there.page.keyboard.press("Enter")
    await expect(first).to_have_attribute("aria-expanded", "true")


@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
async def test_every_error_can_be_read(
    browser: Browser, service: Service, width: int, scheme: Scheme
) -> None:
    """A heading for each code."""
    there = await window(browser, service.url, width=width, scheme=scheme)
    await there.open("/docs/errors")
    codes = {kind.code for kind in KINDS}
    assert set(await there.page.locator("h2").all_text_contents()) == codes
    await there.check(f"errors-{width}-{scheme}")
