"""A request in the browser: what it shows, and that a decision is made on exactly what was shown."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Page, expect

from tests.harness.browser import audit_accessibility, click_together
from tests.harness.console_site import POLICY, ConsoleSite

REGIONS = ("Request", "What approve will do", "Votes", "Evidence", "Target", "Timeline")
TWO = POLICY.replace("quorum: 1, groups: [finance]", "quorum: 2, groups: [finance], grace: 2m")


def opened(console: ConsoleSite, page: Page, key: str, job_id: str) -> None:
    console.sign_in(page, key)
    page.goto(f"{console.url}/console/approvals/{job_id}")


def test_a_request_shows_everything_a_reviewer_needs(console: ConsoleSite, page_in_each_scheme: Page) -> None:
    page = page_in_each_scheme
    evidence = [{"title": "Invoice", "kind": "text", "content": "Invoice 17"}]
    job = console.submit(25_000, target={"key": "invoice:17", "version": "3"}, evidence=evidence)
    opened(console, page, console.ann, job.id)
    for name in REGIONS:
        expect(page.get_by_role("region", name=name, exact=True)).to_be_visible()
    for name in ("Approve", "Reject", "Edit", "Refresh"):
        expect(page.get_by_role("button", name=name, exact=True)).to_be_visible()
    promise = page.get_by_role("region", name="What approve will do")
    expect(promise).to_contain_text("Pays 250.00 EUR to Acme in production.")
    expect(page.get_by_role("region", name="Target")).to_contain_text("invoice:17")
    expect(page.get_by_role("region", name="Timeline")).to_contain_text("billing-bot submitted it")
    expect(page.frame_locator("iframe").get_by_text("Invoice 17")).to_be_visible()
    audit_accessibility(page)


def test_approve_is_counted_with_its_hash_and_where_it_was_said(console: ConsoleSite, page: Page) -> None:
    job = console.submit()
    opened(console, page, console.ann, job.id)
    page.get_by_label("Reason").fill("the invoice is right")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("You approved it")
    approved = console.client(console.ann).get_approval(job.id)
    assert approved.job.state == "PENDING"
    vote = approved.votes[0]
    assert (vote.principal, vote.via, vote.reason) == ("ann", "console", "the invoice is right")


def test_keys_alone_decide(console: ConsoleSite, page: Page) -> None:
    first, second = console.submit(), console.submit(30_000)
    console.sign_in(page, console.ann)
    expect(page.get_by_role("heading", name="Inbox", exact=True)).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="What approve will do")).to_be_visible()
    page.keyboard.press("a")
    expect(page.get_by_role("status")).to_contain_text("You approved it")
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile(second.id))
    page.keyboard.press("r")
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("not ours")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("You rejected it")
    states = [console.client(console.ann).get_job(each.id).state for each in (first, second)]
    assert states == ["PENDING", "DENIED"]


def test_approve_on_a_phone(console: ConsoleSite, phone_page: Page) -> None:
    job = console.submit()
    opened(console, phone_page, console.ann, job.id)
    button = phone_page.get_by_role("button", name="Approve", exact=True)
    expect(button).to_be_in_viewport()
    assert phone_page.evaluate("document.documentElement.scrollWidth") <= 360
    button.click()
    expect(phone_page.get_by_role("status")).to_contain_text("You approved it")


def test_approve_reject_and_comment_without_javascript(console: ConsoleSite, plain_page: Page) -> None:
    page, job, other = plain_page, console.submit(), console.submit(30_000)
    opened(console, page, console.ann, job.id)
    page.get_by_label("Comment or question").fill("looks right")
    page.get_by_role("button", name="Comment", exact=True).click()
    expect(page.get_by_text("looks right")).to_be_visible()
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("You approved it")
    page.goto(f"{console.url}/console/approvals/{other.id}")
    page.get_by_role("button", name="Reject", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("needs a reason")
    page.get_by_label("Reason").fill("too much")
    page.get_by_role("button", name="Reject", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("You rejected it")


def test_two_people_decide_at_one_moment_and_both_see_who(
    console: ConsoleSite, two_pages: tuple[Page, Page]
) -> None:
    job = console.submit()
    for page, key in zip(two_pages, (console.ann, console.bob), strict=True):
        opened(console, page, key, job.id)
        page.get_by_label("Reason").fill("mine")
    ann, bob = two_pages
    click_together(
        ann.get_by_role("button", name="Approve", exact=True),
        bob.get_by_role("button", name="Reject", exact=True),
    )
    state = {"PENDING": ("Approved", "ann"), "DENIED": ("Rejected", "bob")}
    for page in two_pages:
        expect(page.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
    decided, who = state[console.client(console.ann).get_job(job.id).state]
    for page in two_pages:
        expect(page.get_by_text(f"{decided} by {who}").first).to_be_visible()


CHANGES = ("cli", "edit", "policy", "touch")


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_under_an_open_page_is_shown_without_reloading(
    console: ConsoleSite, page: Page, change: str
) -> None:
    job = console.submit(target={"key": "invoice:17", "version": "1"})
    opened(console, page, console.ann, job.id)
    page.evaluate("window.stayed = true")
    expect(page.locator("html[data-leads]")).to_have_count(1)
    bob, ann = console.client(console.bob), console.client(console.ann)
    if change == "cli":
        bob.reject(job.id, reason="no")
        expect(page.get_by_text("Rejected by bob").first).to_be_visible()
    elif change == "edit":
        ann.edit(job.id, {"amount_cents": 30_000, "currency": "EUR", "to": "Acme"}, reason="typo")
        expect(page.get_by_role("heading", level=1)).to_contain_text("300.00 EUR")
    elif change == "policy":
        ann.apply_policy(POLICY + "  - {id: more, when: {topic: x}, decision: deny}\n")
        expect(page.get_by_role("alert").get_by_text("The policy changed")).to_be_visible()
    else:
        console.client(console.payouts).touch("invoice:17", "2", summary="paid elsewhere")
        expect(page.get_by_role("alert")).to_contain_text("The target moved")
        expect(page.get_by_role("alert")).to_contain_text("Open conflict")
        expect(page.get_by_role("button", name="Refresh", exact=True)).to_have_count(1)
    assert page.evaluate("window.stayed") is True


def test_what_was_edited_since_it_was_shown_is_not_approved(console: ConsoleSite, plain_page: Page) -> None:
    page, job = plain_page, console.submit()
    opened(console, page, console.bob, job.id)
    changed = {"amount_cents": 9_000_000, "currency": "EUR", "to": "Mallory"}
    console.client(console.ann).edit(job.id, changed, reason="sneaky")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Mallory")
    assert console.client(console.ann).get_job(job.id).state == "APPROVAL"
    expect(page.locator("table.diff")).to_contain_text("Mallory")


def test_a_yes_is_undone_within_the_grace(console: ConsoleSite, page: Page) -> None:
    console.client(console.ann).apply_policy(TWO)
    job = console.submit()
    console.client(console.bob).approve(job.id)
    opened(console, page, console.ann, job.id)
    expect(page.get_by_role("region", name="What approve will do")).to_contain_text("2 min later")
    page.keyboard.press("a")
    expect(page.get_by_text("Approved by ann").first).to_be_visible()
    page.keyboard.press("u")
    expect(page.get_by_role("status")).to_contain_text("You withdrew your yes")
    assert console.client(console.ann).get_job(job.id).state == "APPROVAL"


def test_an_edit_is_previewed_and_then_kept(console: ConsoleSite, page: Page) -> None:
    job = console.submit()
    opened(console, page, console.ann, job.id)
    page.keyboard.press("e")
    field = page.get_by_label("Payload (JSON)")
    field.fill('{"amount_cents": 5000, "currency": "EUR", "to": "Acme"}')
    page.get_by_label("Reason").fill("only half of it")
    page.get_by_role("button", name="Preview").click()
    foreseen = page.get_by_role("region", name="What the policy will say")
    expect(foreseen).to_contain_text("small-payments-run")
    field.fill('{"amount_cents": 20000, "currency": "EUR", "to": "Acme"')
    page.get_by_role("button", name="Save the change").click()
    expect(page.get_by_role("alert")).to_contain_text("not JSON")
    field.fill('{"amount_cents": 20000, "currency": "EUR", "to": "Acme"}')
    page.get_by_role("button", name="Save the change").click()
    expect(page.get_by_role("status")).to_contain_text("The request was changed")
    expect(page.get_by_role("region", name="What approve will do")).to_contain_text("200.00 EUR")


def test_people_see_who_else_has_the_page_open(console: ConsoleSite, two_pages: tuple[Page, Page]) -> None:
    job = console.submit()
    ann, bob = two_pages
    opened(console, ann, console.ann, job.id)
    expect(ann.get_by_role("region", name="Timeline")).to_contain_text("ann opened it")
    opened(console, bob, console.bob, job.id)
    expect(bob.get_by_text("ann has this page open")).to_be_visible()


def test_own_requests_offer_no_decision_and_say_why(console: ConsoleSite, page: Page) -> None:
    job = console.submit()
    opened(console, page, console.mia, job.id)
    expect(page.get_by_role("region", name="What approve will do")).to_contain_text("You cannot decide it")
    expect(page.get_by_role("button", name="Approve", exact=True)).to_have_count(0)


def test_an_expired_request_says_so_under_an_open_page(console: ConsoleSite, page: Page) -> None:
    console.client(console.ann).apply_policy(POLICY.replace("quorum: 1,", "quorum: 1, expires_in: 2s,"))
    job = console.submit()
    opened(console, page, console.ann, job.id)
    deadline = time.monotonic() + 20
    while console.client(console.ann).get_job(job.id).state == "APPROVAL" and time.monotonic() < deadline:
        time.sleep(0.2)
    expect(page.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
    expect(page.get_by_text(re.compile("Expired|expired")).first).to_be_visible()


def test_an_address_cannot_claim_a_decision_that_was_not_made(console: ConsoleSite, page: Page) -> None:
    job = console.submit()
    opened(console, page, console.ann, job.id)
    for outcome in ("approved", "already_approved", "vote_recorded", "rejected", "already_rejected"):
        page.evaluate("to => location.assign(to)", f"/console/approvals/{job.id}?outcome={outcome}")
        page.wait_for_url(f"**outcome={outcome}")
        expect(page.get_by_role("status").first).to_be_empty()
    page.goto(f"{console.url}/console/people/bob?outcome=revoked")
    expect(page.get_by_role("status").first).to_be_empty()


def test_a_request_that_drifted_has_one_button_to_refresh_it(console: ConsoleSite, page: Page) -> None:
    job = console.submit(target={"key": "invoice:18", "version": "1"})
    opened(console, page, console.ann, job.id)
    expect(page.get_by_role("button", name="Refresh")).to_have_count(1)
    console.client(console.payouts).touch("invoice:18", "2")
    expect(page.get_by_role("alert").filter(has_text="The target moved")).to_be_visible()
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_role("status")).to_contain_text("under the current policy now")
    console.client(console.bob).comment(job.id, "I look at it, too")
    expect(page.get_by_text("I look at it, too")).to_be_visible()
    expect(page.get_by_role("status")).to_contain_text("under the current policy now")
