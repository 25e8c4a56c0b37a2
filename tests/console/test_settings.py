"""The settings page: what the server runs with, without credentials, and whether its store takes writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.harness.browser import audit_accessibility
from tests.harness.console_site import Company, ConsoleSite

SECRET = "a-secret-of-this-server-that-is-long-enough"


def test_settings_say_what_runs_and_hide_credentials(
    company: Company, tmp_path: Path, page_in_each_scheme: Page
) -> None:
    page, site = page_in_each_scheme, ConsoleSite(company, tmp_path, env={"INTERLOCK_SECRET": SECRET})
    site.start()
    try:
        site.sign_in(page, site.ann)
        page.get_by_role("link", name="Settings").click()
        server = page.get_by_role("region", name="This server")
        expect(server).to_contain_text("sqlite")
        expect(server).to_contain_text("interlock.db")
        expect(page.get_by_role("row").filter(has_text="secret").first).to_contain_text("hidden")
        assert SECRET not in page.content()
        page.get_by_text("settings have their defaults").click()
        expect(page.get_by_role("rowheader", name="queue_max")).to_be_visible()
        audit_accessibility(page)
    finally:
        site.close()


def test_the_store_is_checked_on_demand_without_javascript(console: ConsoleSite, plain_page: Page) -> None:
    console.sign_in(plain_page, console.ann)
    plain_page.goto(f"{console.url}/console/settings")
    plain_page.get_by_role("button", name="Check the store").click()
    expect(plain_page.get_by_role("status")).to_contain_text("The store takes writes.")


@pytest.mark.parametrize("path", ["/console/settings", "/console/deliveries", "/console/people/ann"])
def test_what_a_reviewer_may_not_see_is_refused(console: ConsoleSite, page: Page, path: str) -> None:
    console.sign_in(page, console.bob)
    for name in ("Settings", "Deliveries"):
        expect(page.get_by_role("link", name=name)).to_have_count(0)
    answer = page.goto(console.url + path)
    assert answer is not None
    assert answer.status == 403
