"""A request in the browser: what it shows, and that a decision is made on exactly what was shown."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from interlock import Job
from tests.harness.browser import audit_accessibility, click_together
from tests.harness.console_site import POLICY, ConsoleSite
from tests.harness.server import clean_env

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
    expect(page.get_by_role("region", name="Timeline")).to_contain_text("Interlock notified finance")
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


def test_a_reason_is_finished_although_the_page_changes_meanwhile(console: ConsoleSite, page: Page) -> None:
    job = console.submit()
    opened(console, page, console.ann, job.id)
    expect(page.locator("html[data-leads]")).to_have_count(1)
    page.keyboard.press("r")
    page.keyboard.type("not ")
    console.client(console.bob).comment(job.id, "I look at it, too")
    expect(page.get_by_text("I look at it, too")).to_be_visible()
    page.keyboard.type("ours")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("not ours")
    assert console.client(console.ann).get_approval(job.id).approval.reason == "not ours"


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


# What others do is on an open page within this time. A busy machine gets a few tries: one quick one is proof enough.
SOON_SECONDS = 2.0
TRIES = 4


def soon(trial: Callable[[], float]) -> None:
    """Check that a trial, which returns how many seconds it took to be seen, is quick at least once."""
    took: list[float] = []
    while len(took) < TRIES:
        took.append(trial())
        if took[-1] <= SOON_SECONDS:
            return
    raise AssertionError(f"seen only after {took} seconds")


def test_two_people_decide_at_one_moment_and_both_see_who(
    console: ConsoleSite, two_pages: tuple[Page, Page]
) -> None:
    ann, bob = two_pages
    console.sign_in(ann, console.ann)
    console.sign_in(bob, console.bob)
    state = {"PENDING": ("Approved", "ann"), "DENIED": ("Rejected", "bob")}

    def decided_together() -> float:
        job = console.submit()
        for page in two_pages:
            page.goto(f"{console.url}/console/approvals/{job.id}")
            page.get_by_label("Reason").fill("mine")
        moment = click_together(
            ann.get_by_role("button", name="Approve", exact=True),
            bob.get_by_role("button", name="Reject", exact=True),
        )
        for page in two_pages:
            expect(
                page.get_by_role("status").get_by_text(re.compile("(Approved|Rejected) by"))
            ).to_be_visible()
        took = time.time() - moment / 1000
        decided, who = state[console.client(console.ann).get_job(job.id).state]
        for page in two_pages:
            expect(page.get_by_role("status")).to_contain_text(f"{decided} by {who}")
            expect(page.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
        return took

    soon(decided_together)


CHANGES = ("another browser", "cli", "edit", "policy", "touch", "expiry")


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_under_an_open_page_is_shown_soon_without_reloading(
    console: ConsoleSite, two_pages: tuple[Page, Page], change: str
) -> None:
    page, other = two_pages
    if change == "expiry":
        console.client(console.ann).apply_policy(POLICY.replace("quorum: 1,", "quorum: 1, expires_in: 3s,"))
    console.sign_in(page, console.ann)
    if change == "another browser":
        console.sign_in(other, console.bob)

    def changed() -> float:
        job = console.submit(target={"key": f"invoice:{time.monotonic_ns()}", "version": "1"})
        page.goto(f"{console.url}/console/approvals/{job.id}")
        page.evaluate("window.stayed = true")
        expect(page.locator("html[data-leads]")).to_have_count(1)
        begun, seen = _change(console, other, change, job)
        expect(seen(page).first).to_be_visible()
        took = time.time() - begun
        assert page.evaluate("window.stayed") is True
        return took

    soon(changed)


def _change(
    console: ConsoleSite, other: Page, change: str, job: Job
) -> tuple[float, Callable[[Page], Locator]]:
    """Make it; when, and where it is seen on a page."""
    begun = time.time()
    if change == "another browser":
        other.goto(f"{console.url}/console/approvals/{job.id}")
        begun = time.time()
        other.get_by_role("button", name="Approve", exact=True).click()
        return begun, lambda page: page.get_by_text("Approved by bob")
    if change == "cli":
        command = [sys.executable, "-m", "interlock", "reject", job.id, "--reason", "no"]
        env = clean_env({"INTERLOCK_URL": console.url, "INTERLOCK_KEY": console.bob})
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return time.time(), lambda page: page.get_by_text("Rejected by bob")
    if change == "edit":
        payload = {"amount_cents": 30_000, "currency": "EUR", "to": "Acme"}
        console.client(console.ann).edit(job.id, payload, reason="typo")
        return begun, lambda page: page.get_by_role("heading", level=1, name="300.00 EUR")
    if change == "policy":
        rule = f"  - {{id: r{time.monotonic_ns()}, when: {{topic: x}}, decision: deny}}\n"
        console.client(console.ann).apply_policy(POLICY + rule)
        return begun, lambda page: page.get_by_role("alert").get_by_text("The policy changed")
    if change == "expiry":
        assert job.approval is not None
        assert job.approval.expires_at is not None
        return job.approval.expires_at.timestamp(), lambda page: page.get_by_role("status").get_by_text(
            "Expired"
        )
    assert job.target is not None
    console.client(console.payouts).touch(job.target.key, "2", summary="paid elsewhere")
    return begun, lambda page: page.get_by_role("alert").get_by_text("The target moved")


def test_a_page_that_was_refused_a_decision_stays_live_and_says_why(console: ConsoleSite, page: Page) -> None:
    """It is still where the form was sent, which is not an address to read from."""
    job = console.submit(target={"key": "invoice:17", "version": "1"})
    opened(console, page, console.ann, job.id)
    expect(page.locator("html[data-leads]")).to_have_count(1)
    page.evaluate("document.querySelector('#decide [name=job_hash]').value = 'sha256:0'")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("hash_mismatch")
    assert page.url.endswith("/approve")
    console.client(console.payouts).touch("invoice:17", "2", summary="paid elsewhere")
    expect(page.get_by_role("alert")).to_contain_text("The target moved")
    expect(page.get_by_role("alert")).to_contain_text("hash_mismatch")
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    page.goto(page.url)
    expect(page.get_by_role("heading", level=1)).to_contain_text("Pays 250.00 EUR")


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
    expect(page.get_by_role("region", name="What approve will do")).to_contain_text(
        "Until 2 min after the last approval"
    )
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
    expect(foreseen).to_contain_text("nobody is asked any more")
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


def test_an_escalation_is_counted_down_to_and_then_told(console: ConsoleSite, page: Page) -> None:
    escalating = POLICY.replace("quorum: 1,", "quorum: 1, escalate: [{after: 6s, groups: [leads]}],")
    console.client(console.ann).apply_policy(escalating)
    job = console.submit()
    opened(console, page, console.ann, job.id)
    promise = page.get_by_role("region", name="What approve will do")
    expect(promise).to_contain_text(re.compile(r"Expires\s*in 23 h 59 min"))
    expect(promise).to_contain_text(re.compile(r"Escalates\s*in [1-6] s to leads"))
    timeline = page.get_by_role("region", name="Timeline")
    expect(timeline).to_contain_text("Interlock notified leads too")
    expect(timeline.get_by_text(re.compile("notified finance$"))).to_have_count(1)
    expect(timeline.get_by_role("listitem")).to_have_count(4)
    expect(promise).not_to_contain_text("Escalates")


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
