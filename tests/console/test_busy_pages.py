"""Pages of jobs, leases, conflicts and effects with much on them: read by everybody, on every screen."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.console.busy_company import busy_day, call, lease
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


def test_names_without_a_space_are_not_wider_than_a_phone(console: ConsoleSite, phone_page: Page) -> None:
    long, page = "W" * 180, phone_page
    target = {"key": f"t:{long}", "version": "v" * 100}
    evidence = [{"kind": "text", "title": long, "content": long, "url": f"https://example.com/{long}"}]
    payload = {"amount_cents": 25_000, "currency": "EUR", "to": long, long: {long: long}}
    job = console.submit(payload=payload, target=target, evidence=evidence)
    call(console, console.ann, "POST", "approvals", job.id, "comment", text=long)
    held = lease(console, console.payouts, f"r:{long}", purpose=long)
    hook = call(console, console.ann, "POST", "webhooks", url=f"https://example.com/{long}")
    call(console, console.ann, "POST", "principals", "n" * 100, "keys", kind="person", roles=["review"])
    console.sign_in(page, console.ann)
    one = f"approvals/{job.id}"
    pages = (one, f"{one}/edit", f"{one}/evidence/0", f"jobs/{job.id}", f"board/{held['lease_id']}", "audit")
    for address in (*pages, f"deliveries/{hook['id']}", f"people/{'n' * 100}"):
        page.goto(f"{console.url}/console/{address}")
        for folded in page.locator("main details").all():
            folded.evaluate("details => { details.open = true }")
        assert page.evaluate(_OVERFLOW) == 0, address


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
