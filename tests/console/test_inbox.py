"""The inbox: what waits for me, live, for all tabs of a browser through one stream."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.harness.browser import OpenPage, audit_accessibility
from tests.harness.console_site import POLICY, TOPIC, ConsoleSite


def test_each_request_that_waits_for_me_is_one_link(console: ConsoleSite, page_in_each_scheme: Page) -> None:
    page = page_in_each_scheme
    for cents in (25_000, 990_000):
        console.submit(cents)
    console.sign_in(page, console.ann)
    expect(page.get_by_role("heading", name="Inbox", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="Pays 250.00 EUR to Acme in production")).to_be_visible()
    expect(page.get_by_role("link", name="Pays 9,900.00 EUR to Acme in production")).to_be_visible()
    expect(page).to_have_title(re.compile(r"^\(2\) Inbox"))
    audit_accessibility(page)


def test_an_empty_inbox_says_what_comes_here(console: ConsoleSite, page: Page) -> None:
    console.sign_in(page, console.ann)
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    audit_accessibility(page)


def test_what_is_not_mine_is_shown_with_why_when_asked_for(console: ConsoleSite, page: Page) -> None:
    console.submit()
    console.sign_in(page, console.mia)
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    page.get_by_role("link", name="1 waiting in all").click()
    expect(page.get_by_text("not your groups")).to_be_visible()
    expect(page.get_by_role("checkbox")).to_have_count(0)


@pytest.mark.parametrize("javascript", [True, False])
def test_a_selection_is_decided_with_an_answer_for_each(
    console: ConsoleSite, page: Page, plain_page: Page, javascript: bool
) -> None:
    page = page if javascript else plain_page
    jobs = [console.submit(cents) for cents in (25_000, 30_000, 40_000)]
    console.sign_in(page, console.ann)
    for box in page.get_by_role("checkbox").all()[:2]:
        box.check()
    console.client(console.bob).reject(jobs[1].id, reason="first")
    page.get_by_label("Reason").fill("all good")
    page.get_by_role("button", name="Approve selected").click()
    answers = page.get_by_role("status").get_by_role("listitem")
    expect(answers).to_have_count(2)
    expect(answers.nth(0)).to_contain_text("approved")
    expect(answers.nth(1)).to_contain_text("not done")
    states = [console.client(console.ann).get_job(each.id).state for each in jobs]
    assert states == ["PENDING", "DENIED", "APPROVAL"]


def test_a_filter_is_in_the_address(console: ConsoleSite, page: Page) -> None:
    console.submit(25_000, to="Acme")
    console.submit(26_000, to="Globex")
    console.sign_in(page, console.ann)
    page.get_by_text("Filter and order").click()
    page.get_by_role("main").get_by_label("Search").fill("Globex")
    page.get_by_role("button", name="Filter", exact=True).click()
    expect(page).to_have_url(re.compile("q=Globex"))
    expect(page.get_by_role("link", name="Pays")).to_have_count(1)


@pytest.mark.parametrize("javascript", [True, False])
def test_a_view_is_saved_by_a_name_and_opened_after_signing_in_again(
    console: ConsoleSite, page: Page, plain_page: Page, javascript: bool
) -> None:
    page = page if javascript else plain_page
    console.submit(25_000, to="Acme")
    console.submit(26_000, to="Globex")
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/inbox?q=Globex&order=newest")
    page.get_by_label("Name of this view").fill("<b>Globex\u202e")
    page.get_by_role("button", name="Save this view").click()
    page.get_by_text("ann", exact=True).click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()
    console.sign_in(page, console.bob)
    expect(page.get_by_role("link", name="Pays")).to_have_count(2)
    expect(page.get_by_role("navigation", name="Saved views")).to_have_count(0)
    page.context.clear_cookies(name="interlock")
    console.sign_in(page, console.ann)
    views = page.get_by_role("navigation", name="Saved views")
    views.get_by_role("link", name="<b>Globex\\u202e").click()
    expect(page).to_have_url(re.compile(r"q=Globex&order=newest$"))
    expect(page.get_by_role("link", name="Pays")).to_have_count(1)
    if javascript:
        audit_accessibility(page)
    page.get_by_role("button", name="Forget this view").click()
    expect(views).to_have_count(0)
    expect(page.get_by_role("link", name="Pays")).to_have_count(1)


def test_what_comes_and_goes_is_shown_without_reloading(console: ConsoleSite, page: Page) -> None:
    console.sign_in(page, console.ann)
    expect(page.locator("html[data-leads]")).to_have_count(1)
    page.evaluate("window.stayed = true")
    job = console.submit()
    expect(page.get_by_role("link", name="Pays 250.00 EUR")).to_be_visible()
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    console.client(console.bob).approve(job.id)
    expect(page.locator("[data-row][data-over]")).to_have_count(1)
    expect(page.get_by_role("button", name="1 no longer waiting")).to_be_visible()
    page.get_by_role("button", name="1 no longer waiting").click()
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    assert page.evaluate("window.stayed") is True


@pytest.mark.parametrize("path", ["settings", "people", "policy", "traffic", "jobs"])
def test_every_page_counts_what_waits_in_its_menu_title_and_icon(
    console: ConsoleSite, page: Page, path: str
) -> None:
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/{path}")
    expect(page.locator("html[data-leads]")).to_have_count(1)
    icon = page.locator("link[rel=icon]")
    expect(icon).to_have_attribute("href", re.compile("icon.svg"))
    console.submit()
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    menu = page.get_by_role("navigation", name="Pages", exact=True)
    expect(menu.get_by_role("link", name="Inbox")).to_have_text("Inbox 1")
    expect(icon).to_have_attribute("href", re.compile("^data:image/png"))
    console.client(console.bob).approve(console.submit().id)
    expect(page).to_have_title(re.compile(r"^\(1\) "))


# Notes what the browser is asked to show; the page believes that nobody looks at it.
NOTIFIED = """
    window.told = [];
    Object.defineProperty(document, "hidden", { get: () => true });
    window.Notification = class extends Notification {
        constructor(title, options) { super(title, options); window.told.push(options.body); }
    };
"""


def test_a_person_who_allows_it_is_notified_of_what_they_may_decide_alone(
    console: ConsoleSite, open_page: OpenPage
) -> None:
    page = open_page(permissions=["notifications"])
    page.add_init_script(NOTIFIED)
    console.sign_in(page, console.ann)
    expect(page.locator("html[data-leads]")).to_have_count(1)
    page.get_by_text("ann", exact=True).click()
    page.get_by_role("button", name="Notify me in this browser").click()
    expect(page.get_by_role("button", name="Stop notifying me in this browser")).to_be_visible()
    console.submit(5_000)  # runs without anybody
    console.submit()
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    assert page.evaluate("window.told") == [f"{TOPIC} waits for your decision"]
    page.get_by_role("button", name="Stop notifying me in this browser").click()
    console.submit()
    expect(page).to_have_title(re.compile(r"^\(2\) "))
    assert len(page.evaluate("window.told")) == 1


def test_nobody_is_notified_of_what_waits_for_others(console: ConsoleSite, open_page: OpenPage) -> None:
    page = open_page(permissions=["notifications"])
    page.add_init_script(NOTIFIED)
    console.sign_in(page, console.mia)
    page.evaluate("localStorage.setItem('interlock-notify', 'yes')")
    expect(page.locator("html[data-leads]")).to_have_count(1)
    console.submit()
    expect(page.get_by_role("link", name="1 waiting in all")).to_be_visible()
    assert page.evaluate("window.told") == []


def test_a_paused_page_stands_still_and_catches_up(console: ConsoleSite, page: Page) -> None:
    console.sign_in(page, console.ann)
    expect(page.locator("html[data-leads]")).to_have_count(1)
    page.get_by_role("button", name="live").click()
    console.submit()
    page.wait_for_timeout(1_000)
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
    page.get_by_role("button", name="paused").click()
    expect(page.get_by_role("link", name="Pays 250.00 EUR")).to_be_visible()


def test_twenty_tabs_share_one_stream_and_each_is_current(console: ConsoleSite, page: Page) -> None:
    streams: list[str] = []
    page.context.on("request", lambda asked: streams.extend([asked.url] * ("/console/events" in asked.url)))
    console.sign_in(page, console.ann)
    tabs = [page, *(page.context.new_page() for _ in range(19))]
    for tab in tabs[1:]:
        tab.goto(f"{console.url}/console/inbox")
        expect(tab.get_by_role("heading", name="Inbox", exact=True)).to_be_visible()
    console.submit()
    for tab in tabs:
        expect(tab.get_by_role("link", name="Pays 250.00 EUR")).to_be_visible()
    assert sum(tab.locator("html[data-leads]").count() for tab in tabs) == 1
    assert len(streams) == 1
    leader = next(tab for tab in tabs if tab.locator("html[data-leads]").count())
    leader.close()
    rest = [tab for tab in tabs if tab is not leader]
    console.submit(77_700)
    for tab in rest:
        expect(tab.get_by_role("link", name="Pays 777.00 EUR")).to_be_visible()
    assert len(streams) == 2


def test_pages_catch_up_after_the_server_was_restarted(console: ConsoleSite, page: Page) -> None:
    job = console.submit()
    console.sign_in(page, console.ann)
    expect(page.locator("html[data-leads]")).to_have_count(1)
    request = page.context.new_page()
    request.goto(f"{console.url}/console/approvals/{job.id}")
    console.server.kill()
    expect(page.get_by_role("alert").filter(has_text="Since")).to_be_visible()
    expect(page.get_by_role("link", name="Pays 250.00 EUR")).to_be_visible()
    console.server.start()
    expect(page.get_by_role("alert").filter(has_text="Since")).to_have_count(0, timeout=30_000)
    console.client(console.bob).approve(job.id)
    expect(page.locator("[data-row][data-over]")).to_have_count(1, timeout=30_000)
    expect(request.get_by_role("status")).to_contain_text("Approved by bob", timeout=30_000)


HOSTILE: dict[str, Any] = {
    "markup": "<script>document.title='owned'</script><img src=x onerror=alert(1)>",
    "long": "long text " * 20_000,
    "override": "invoice_\u202egpj.exe\u202c and \u200b zero \u2066x\u2069",
    "ansi": "\x1b[31mred\x1b[0m",
    "link": "javascript:alert(1)",
    "web": "https://example.com/<b>",
    "fields": {f"field_{n}": n for n in range(5_000)},
    "__proto__": {"a": 1},
    "to": "<b>Acme</b>",
    "deep": {"list": [{"a": 1, "b": [{"c": {"d": {"e": ["<i>", None, True, 1.5]}}}]}]},
    "amount_cents": 25_000,
    "currency": "EUR",
}


@pytest.mark.parametrize("javascript", [True, False], ids=["scripts", "plain"])
def test_a_hostile_payload_harms_nothing_and_hides_nothing(
    console: ConsoleSite, page: Page, plain_page: Page, javascript: bool
) -> None:
    page = page if javascript else plain_page
    job = console.submit(payload=HOSTILE)
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/approvals/{job.id}")
    request = page.get_by_role("region", name="Request", exact=True)
    expect(request).to_contain_text("<script>document.title='owned'</script>")
    expect(request).to_contain_text("invoice_\\u202egpj.exe\\u202c")
    expect(request).to_contain_text("\\u001b[31mred")
    named = set(request.locator("th[scope=row]").all_inner_texts())
    assert named >= {*HOSTILE, *HOSTILE["fields"]}
    request.get_by_text("Raw JSON").click()
    assert json.loads(request.locator("details.raw pre").inner_text()) == HOSTILE
    assert page.locator("a[href^='javascript']").count() == 0
    assert "owned" not in page.title()
    text = request.inner_text()
    assert text.count("long text") >= 20_000
    console.client(console.ann).apply_policy(POLICY.replace("quorum: 1,", "quorum: 2,"))
    if not javascript:
        page.reload()
    expect(page.get_by_role("alert").filter(has_text="The policy changed")).to_be_visible()
