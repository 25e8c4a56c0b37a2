"""Pages of jobs, leases, conflicts and effects with much on them: read by everybody, on every screen."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.console.busy_company import busy_day
from tests.harness.browser import audit_accessibility
from tests.harness.console_site import ConsoleSite

_OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_axe_finds_nothing_serious(console: ConsoleSite, page_in_each_scheme: Page) -> None:
    pages = busy_day(console)
    console.sign_in(page_in_each_scheme, console.ann)
    for address in pages:
        page_in_each_scheme.goto(console.url + address)
        for folded in page_in_each_scheme.locator("main details").all():
            folded.evaluate("details => { details.open = true }")
        audit_accessibility(page_in_each_scheme)


def test_nothing_is_wider_than_a_phone(console: ConsoleSite, phone_page: Page) -> None:
    pages = busy_day(console)
    console.sign_in(phone_page, console.ann)
    for address in pages:
        phone_page.goto(console.url + address)
        expect(phone_page.get_by_role("heading", level=1)).to_be_visible()
        assert phone_page.evaluate(_OVERFLOW) == 0, address


def test_rows_are_walked_and_opened_with_keys(console: ConsoleSite, page: Page) -> None:
    busy_day(console)
    console.sign_in(page, console.ann)
    for name in ("jobs", "board", "conflicts", "effects"):
        page.goto(f"{console.url}/console/{name}")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(page.get_by_role("navigation", name="Pages").get_by_role("link", name=name)).to_have_attribute(
            "aria-current", "page"
        )
        expect(page).not_to_have_url(f"{console.url}/console/{name}")
