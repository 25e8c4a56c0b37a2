"""Under a prefix every link, form and stream of the console keeps to it."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from tests.harness.console_site import Company, ConsoleSite


def test_the_console_works_under_a_prefix(company: Company, tmp_path: Path, page: Page) -> None:
    site = ConsoleSite(company, tmp_path, arguments=["--root-path", "/gate"]).start()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    try:
        page.goto(f"{site.url}/gate/")
        page.get_by_label("API key").fill(site.ann)
        page.get_by_role("button", name="Sign in", exact=True).click()
        expect(page).to_have_url(f"{site.url}/gate/console/inbox")
        expect(page.locator("html[data-leads]")).to_have_count(1)
        site.submit()
        page.get_by_role("link", name="Pays 250.00 EUR").click()
        expect(page.get_by_text("ann opened it")).to_be_visible()
        page.get_by_role("button", name="Approve", exact=True).click()
        expect(page.get_by_role("status")).to_contain_text("You approved it")
        for name in ("Jobs", "Policy", "People"):
            page.get_by_role("navigation").get_by_role("link", name=name).click()
            expect(page.get_by_role("heading", level=1)).to_have_text(name)
    finally:
        page.goto("about:blank")
        site.close()
    assert [url for url in asked if url.startswith(site.url) and not url.startswith(f"{site.url}/gate")] == []
