"""The traffic page: 429 against 503 by workflow over time, as figures, a chart and a table."""

from __future__ import annotations

import httpx2
import pytest
from playwright.sync_api import Page, expect

from tests.harness.browser import audit_accessibility
from tests.harness.console_site import ConsoleSite


def start(console: ConsoleSite, workflow: str, times: int) -> None:
    """Ask for runs as a program does that does not ask again."""
    headers = {"authorization": f"Bearer {console.billing_bot}"}
    for _ in range(times):
        httpx2.post(f"{console.url}/api/v1/workflows/{workflow}/runs", json={}, headers=headers)


@pytest.fixture
def busy(console: ConsoleSite) -> ConsoleSite:
    """Two of five starts were admitted, of two workflows."""
    console.client(console.ann).call("PUT", "limits", "tenant", body={"max_concurrent_runs": 2})
    start(console, "nightly", 3)
    start(console, "import", 2)
    return console


def figure(page: Page, name: str) -> str:
    return page.locator(".figures div").filter(has_text=name).locator("dd").inner_text()


def test_traffic_is_shown_in_figures_as_a_chart_and_as_tables(
    busy: ConsoleSite, page_in_each_scheme: Page
) -> None:
    page = page_in_each_scheme
    busy.sign_in(page, busy.ann)
    page.get_by_role("link", name="Traffic").click()
    expect(page.get_by_role("heading", name="Tenant default, last hour")).to_be_visible()
    assert (figure(page, "Admitted"), figure(page, "Not evaluated")[0]) == ("2", "0")
    assert figure(page, "Full").startswith("3")
    by_workflow = page.get_by_role("table").last.get_by_role("row")
    expect(by_workflow.filter(has_text="nightly")).to_contain_text("33 %")
    expect(by_workflow.filter(has_text="import")).to_contain_text("100 %")
    expect(page.locator("#chart canvas")).to_be_visible()
    page.get_by_text("The same as a table").click()
    expect(page.get_by_role("region", name="Counts over time").get_by_role("rowheader").first).to_be_visible()
    audit_accessibility(page)


def test_one_workflow_and_another_window_work_without_javascript(busy: ConsoleSite, plain_page: Page) -> None:
    page = plain_page
    busy.sign_in(page, busy.ann)
    page.goto(f"{busy.url}/console/traffic")
    page.get_by_role("link", name="nightly").click()
    expect(page.get_by_role("heading", name="nightly, last hour")).to_be_visible()
    assert (figure(page, "Admitted"), figure(page, "Full")[0]) == ("2", "1")
    for window in ("6h", "24h", "7d", "30d"):
        page.get_by_label("Window").select_option(window)
        page.get_by_role("button", name="Show").click()
        assert (figure(page, "Admitted"), figure(page, "Full")[0]) == ("2", "1")
    page.get_by_label("By").select_option("topic")
    page.get_by_role("textbox", name="Workflow").fill("")
    page.get_by_role("button", name="Show").click()
    assert figure(page, "Throttled by the policy") == "0"
    page.get_by_role("textbox", name="Topic").fill("not a name")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("alert")).to_contain_text("not a name is not the name of a topic; all are shown")


def test_without_traffic_the_page_says_what_would_be_counted(console: ConsoleSite, phone_page: Page) -> None:
    console.sign_in(phone_page, console.bob)
    phone_page.goto(f"{console.url}/console/traffic")
    expect(phone_page.get_by_text("Nothing was counted in this window.")).to_be_visible()
    assert phone_page.evaluate("document.documentElement.scrollWidth") <= 360
    start(console, "nightly", 1)
    # A run that starts is an event: the page shows it without being asked.
    expect(phone_page.locator("#chart canvas")).to_be_visible()
