"""The console in Chromium: every story by mouse and by keyboard, and what must never happen."""

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from content_gateway.api_keys import SCOPES, OpenKeys
from content_gateway.ledger.sqlite.database import LedgerDatabase
from content_gateway.ledger.sqlite.pins import SqlitePins
from content_gateway.model.pins import Label
from tests.fakes.cluster import MiniCluster
from tests.http.held import V1, cid_of
from tests.ledgers import cid
from tests.pages.conftest import WALLET
from tests.revoked import revoke
from tests.service import Service, running_service
from tests.world.browser import WINDOWS, Scheme, Window, window

MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>"


async def come_in(there: Window, key: str = "me") -> None:
    await there.open("/console")
    await there.page.get_by_role("textbox", name="Key", exact=True).fill(key)
    await there.page.get_by_role("button", name="Use this key").click()


@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
async def test_a_name_is_resolved_pinned_watched_listed_and_removed(
    browser: Browser, service: Service, width: int, scheme: Scheme
) -> None:
    """With a key, on one page, on a telephone and on a wide screen."""
    there = await window(browser, service.url, width=width, scheme=scheme)
    page = there.page
    await come_in(there)
    await expect(page.locator("#key-facts")).to_contain_text("resolve, pin")
    await page.get_by_role("textbox", name="Domain", exact=True).fill("site.test")
    await page.get_by_role("button", name="Resolve").click()
    await expect(page.locator("#resolve-said")).to_contain_text(WALLET)
    await page.get_by_role("button", name="Pin this content").click()
    await expect(page.locator("#watch-state")).to_have_text("pinned The content is pinned")
    await expect(page.locator("#watch-facts")).to_contain_text("3 of 3")
    await expect(page.locator("#key-facts")).to_contain_text("1 pin")
    await expect(page.get_by_role("cell", name="site.test", exact=True)).to_be_visible()
    await expect(page.get_by_role("row").nth(1)).to_contain_text("pinned")
    await there.check(f"console-{width}-{scheme}")

    await page.get_by_role("combobox", name="Status").select_option("failed")
    await expect(page.locator("#list-said")).to_have_text("0 pins")
    await page.get_by_role("combobox", name="Status").select_option("pinned")
    await expect(page.locator("#list-said")).to_have_text("1 pin, page 1")
    await page.get_by_role("button", name="Remove site.test").click()
    await expect(page.get_by_role("dialog")).to_contain_text(V1)
    await there.check(f"console-removal-{width}-{scheme}")
    await page.get_by_role("button", name="Keep it").click()
    assert (await service.ask("GET", f"/ipfs/pin/status/{V1}")).status == 200
    await page.get_by_role("button", name="Remove site.test").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(page.locator("#list-said")).to_have_text("0 pins")
    assert (await service.ask("GET", f"/ipfs/pin/status/{V1}")).status == 404
    assert there.errors == []


async def test_the_keyboard_is_enough(there: Window, service: Service) -> None:
    """Tab, Enter and Escape reach everything, in the order in which it stands."""
    page, press = there.page, there.page.keyboard.press

    async def tab_to(name: str) -> None:
        for _ in range(40):
            await press("Tab")
            focused = await page.evaluate(
                "(one => one.ariaLabel || one.labels?.[0]?.textContent || one.textContent)"
                "(document.activeElement)"
            )
            if focused == name:
                return
        raise AssertionError(f"Tab never came to {name}")

    await there.open("/console")
    await tab_to("Key")
    await page.keyboard.type("me")
    await press("Enter")
    await expect(page.locator("#list-said")).to_have_text("0 pins")
    await tab_to("CID")
    await page.keyboard.type(V1)
    await tab_to("Name, if it has one")
    await page.keyboard.type("by hand")
    await press("Enter")
    await expect(page.locator("#watch-state")).to_contain_text("pinned The")
    await tab_to("Remove by hand")
    await press("Enter")
    await expect(page.get_by_role("button", name="Keep it")).to_be_focused()
    await press("Escape")
    assert (await service.ask("GET", f"/ipfs/pin/status/{V1}")).status == 200
    await expect(page.get_by_role("button", name="Remove by hand")).to_be_focused()
    await press("Enter")
    await press("Tab")
    await press("Enter")
    await expect(page.locator("#list-said")).to_have_text("0 pins")


async def test_a_key_that_is_not_good_is_told_so(browser: Browser, tmp_path: Path) -> None:
    """Wrong and revoked ones get the same words; one that may only resolve is shown no pins."""
    async with running_service(tmp_path, keys__mode="issued") as service:
        keys = service.gateway.issued_keys
        revoked, resolving = [
            await keys.create(name, scopes, None)
            for name, scopes in (("old", SCOPES), ("reader", ("resolve",)))
        ]
        assert revoked is not None
        assert resolving is not None
        await revoke(keys, "old")
        there = await window(browser, service.url)
        said = there.page.locator("#key-said")
        for key in ("nobody", revoked[0]):
            await come_in(there, key)
            await expect(said).to_contain_text("Unauthorized: A valid API key is required")
            await expect(there.page.locator("#list-section")).to_be_hidden()
        await expect(said.get_by_role("link")).to_have_attribute(
            "href", "/docs/errors#unauthorized"
        )
        refused = [error for error in there.errors if "401" in error]
        assert there.errors == refused  # the browser itself writes them
        await come_in(there, "ключ")
        await expect(said).to_contain_text("Not a key")
        await come_in(there, resolving[0])
        await expect(there.page.locator("#key-facts")).to_contain_text("reader")
        await expect(there.page.locator("#resolve-section")).to_be_visible()
        await expect(there.page.locator("#pin-section")).to_be_hidden()
        await expect(there.page.locator("#list-section")).to_be_hidden()


async def test_the_key_stays_in_its_tab(there: Window, service: Service, browser: Browser) -> None:
    """It outlives a reload, no other tab has it, and it can be forgotten."""
    await come_in(there, "a secret of mine")
    facts = there.page.locator("#key-facts")
    await expect(facts).to_contain_text("resolve, pin")
    assert "secret" not in await there.page.content()
    assert await there.page.context.cookies() == []
    assert await there.page.evaluate("localStorage.length") == 0
    await there.page.reload()
    await expect(facts).to_contain_text("resolve, pin")
    other = await there.page.context.new_page()
    await other.goto(service.url + "/console")
    await expect(other.locator("#key-form")).to_be_visible()
    await expect(other.locator("#list-section")).to_be_hidden()
    await there.page.get_by_role("button", name="Forget the key").click()
    await expect(there.page.get_by_role("textbox", name="Key", exact=True)).to_be_visible()
    assert await there.page.evaluate("sessionStorage.length") == 0


async def test_ten_thousand_pins_are_turned_over_page_by_page(
    browser: Browser, tmp_path: Path
) -> None:
    """Fifty at a time, and back again; the page never holds more."""
    me = OpenKeys().remembered("me").id
    async with LedgerDatabase(tmp_path / "ledger.sqlite") as database:
        ledger = SqlitePins(database, grace=0.0)
        for start in range(0, 10_000, 500):
            part = [cid(number) for number in range(start, start + 500)]
            await asyncio.gather(*(ledger.add(me, one, str(one), Label()) for one in part))
    # A backend that cannot be reached keeps them waiting.
    unreachable = {"pins__backend": "ipfs-cluster", "ipfs_cluster__urls": ["http://127.0.0.1:9"]}
    async with running_service(tmp_path, **unreachable) as service:
        there = await window(browser, service.url)
        await come_in(there)
        page, rows = there.page, there.page.locator("tbody tr")
        said = page.locator("#list-said")
        await expect(said).to_have_text("10,000 pins, page 1")
        await expect(rows).to_have_count(50)
        first = await rows.first.text_content()
        await page.get_by_role("button", name="Older").click()
        await expect(said).to_have_text("10,000 pins, page 2")
        await expect(rows).to_have_count(50)
        assert await rows.first.text_content() != first
        await page.get_by_role("button", name="Newer").click()
        await expect(said).to_have_text("10,000 pins, page 1")
        await expect(page.get_by_role("button", name="Newer")).to_be_disabled()
        assert there.errors == []


async def test_impatience_breaks_nothing(there: Window, service: Service) -> None:
    """Whoever clicks again before the answer is there sees the last one."""
    await service.pin(f"{V1}?name=seen")
    await service.pin(cid_of("other") + "?name=other")
    await come_in(there)
    await there.page.get_by_role("button", name="View seen").click()
    await there.page.evaluate(
        "for (let n = 0; n < 20; n++) document.getElementById('filter-form').requestSubmit()"
    )
    await there.page.get_by_role("button", name="Remove other").click()
    await there.page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(there.page.locator("#list-said")).to_have_text("1 pin, page 1")
    await expect(there.page.locator("#watch-facts")).to_contain_text(V1)
    assert there.errors == []


async def test_markup_in_names_is_text(there: Window, service: Service) -> None:
    """Whoever named a pin has nothing run on the page."""
    query = "?name=" + MARKUP.replace(" ", "%20") + '&meta={"<b>":"<i>x</i>"}'
    await service.pin(cid_of("marked up") + query)
    await come_in(there)
    await expect(there.page.get_by_role("cell", name=MARKUP, exact=True)).to_be_visible()
    await there.page.get_by_role("button", name="View").click()
    await expect(there.page.locator("#watch-facts")).to_contain_text("<i>x</i>")
    await expect(there.page.locator("#watch-title")).to_be_focused()
    await there.page.get_by_role("button", name="Remove").click()
    assert await there.page.locator("main img, main i, main b, main script").count() == 0
    assert there.errors == []


async def test_a_failure_tells_its_reason_and_where_to_read_on(
    there: Window, service: Service, cluster: MiniCluster
) -> None:
    """A name that nobody has, a CID that is none, a pin that waits."""
    await come_in(there)
    page = there.page
    await page.get_by_role("textbox", name="CID", exact=True).fill("foo")
    await page.get_by_role("button", name="Pin", exact=True).click()
    said = page.locator("#pin-said")
    await expect(said).to_contain_text("Invalid CID: 'foo' is no CID")
    await said.get_by_role("link").click()
    await expect(page.locator("#invalid-cid")).to_be_in_viewport()
    await page.go_back()
    cluster.supply = MiniCluster().supply
    await page.get_by_role("textbox", name="CID", exact=True).fill(cid_of("nobody has this"))
    await page.get_by_role("button", name="Pin", exact=True).click()
    await expect(page.locator("#watch-state")).to_contain_text("pin")
    await expect(page.locator("#watch-facts")).to_contain_text("0 of")
    assert all("400" in error for error in there.errors)


async def test_watching_outlasts_an_outage(there: Window, cluster: MiniCluster) -> None:
    """What happened is told, and the pin is seen to arrive afterwards."""
    found, cluster.supply = cluster.supply, MiniCluster().supply
    await come_in(there)
    page, state = there.page, there.page.locator("#watch-state")
    await page.get_by_role("textbox", name="CID", exact=True).fill(V1)
    await page.get_by_role("button", name="Pin", exact=True).click()
    await expect(page.locator("#watch-facts")).to_contain_text("0 of 3")
    await page.route("**/ipfs/pin/**", lambda route: route.abort())
    await expect(state).to_contain_text("No answer came")
    await expect(page.locator("#list-said")).to_contain_text("No answer came")
    await page.unroute("**/ipfs/pin/**")
    cluster.supply = found
    await expect(state).to_have_text("pinned The content is pinned")
    await expect(page.locator("#list-said")).to_have_text("1 pin, page 1")


async def test_a_service_that_goes_away_is_told_and_the_page_lives_on(
    browser: Browser, tmp_path: Path
) -> None:
    """No answer is no empty list."""
    async with running_service(tmp_path) as service:
        there = await window(browser, service.url)
        await come_in(there)
        await expect(there.page.locator("#list-said")).to_have_text("0 pins")
    await there.page.get_by_role("textbox", name="Domain", exact=True).fill("site.test")
    await there.page.get_by_role("button", name="Resolve").click()
    await expect(there.page.locator("#resolve-said")).to_contain_text("No answer came")
    await there.page.get_by_role("button", name="Refresh").click()
    await expect(there.page.locator("#list-said")).to_contain_text("No answer came")
