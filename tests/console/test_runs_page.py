"""Runs, workflows and limits in the browser."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from interlock.wire.admission import Run
from tests.harness.browser import audit_accessibility
from tests.harness.console_site import TOPIC, ConsoleSite

STEPS = (
    {"id": "agree", "kind": "approval", "groups": ["finance"]},
    {"id": "send", "topic": TOPIC, "depends_on": ["agree"]},
)


def started(console: ConsoleSite, key: str | None = None) -> Run:
    """A run of two steps: people are asked, then a worker sends."""
    console.client(console.ann).define_workflow("report", STEPS)
    return console.client(key or console.payouts).start_run("report", input={"month": "2030-01"})


def opened(console: ConsoleSite, page: Page, key: str, path: str) -> None:
    console.sign_in(page, key)
    page.goto(f"{console.url}/console{path}")


def asked(page: Page) -> None:
    """Wait until the run's first step has asked people; a server starts steps a moment after the run."""
    expect(page.get_by_role("region", name="Step agree waits for people")).to_be_visible()


def test_lists_without_anything_say_what_to_do(console: ConsoleSite, plain_page: Page) -> None:
    opened(console, plain_page, console.bob, "/runs")
    expect(plain_page.get_by_text("No run has been started yet.")).to_be_visible()
    expect(plain_page.get_by_text("interlock run start")).to_be_visible()
    plain_page.goto(f"{console.url}/console/workflows")
    expect(plain_page.get_by_text("No workflow is defined.")).to_be_visible()
    plain_page.goto(f"{console.url}/console/workflows?tab=limits")
    expect(plain_page.get_by_role("region", name="Limits", exact=True)).to_contain_text("0 of 10")
    expect(plain_page.get_by_role("button", name="Set", exact=True)).to_have_count(0)


def test_a_step_that_waits_is_approved_with_the_hash_that_was_shown(
    console: ConsoleSite, page_in_each_scheme: Page
) -> None:
    page, run = page_in_each_scheme, started(console)
    opened(console, page, console.bob, "/runs")
    page.get_by_role("link", name="report").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Run of report")
    asked(page)
    expect(page.get_by_role("region", name="Slot")).to_contain_text("payouts")
    audit_accessibility(page)
    page.get_by_label("Reason").fill("the numbers are right")
    page.get_by_role("button", name="Approve step").click()
    expect(page.get_by_role("status").first).to_contain_text("You approved the step.")
    steps = page.get_by_role("region", name="Steps", exact=True)
    expect(steps.get_by_role("row", name=re.compile("agree asks people"))).to_contain_text("succeeded")
    expect(steps.get_by_role("row", name=re.compile("send worker"))).to_contain_text("running")
    expect(page.get_by_role("region", name="Timeline")).to_contain_text("agree: bob approved it")
    (agree, _) = console.client(console.ann).call("GET", "workflow-runs", run.run_id)["steps"]
    vote = console.client(console.ann).get_approval(agree["job_id"]).votes[0]
    assert (vote.principal, vote.via, vote.reason) == ("bob", "console", "the numbers are right")


def test_a_step_is_offered_to_those_who_may_decide_it_alone(console: ConsoleSite, page: Page) -> None:
    run = started(console)
    opened(console, page, console.mia, f"/runs/{run.run_id}")  # a reviewer, but not of finance
    asked(page)
    expect(page.get_by_role("button", name="Approve step")).to_have_count(0)
    expect(page.get_by_role("link", name="Open the request")).to_be_visible()
    answer = page.context.request.post(
        f"{console.url}/console/runs/{run.run_id}/steps/agree/approve",
        form={"reason": "mine"},
        headers={"origin": console.url},
    )
    assert answer.status == 403
    assert "not_eligible" in answer.text()


def test_whoever_started_a_run_cancels_and_reruns_it(console: ConsoleSite, plain_page: Page) -> None:
    page = plain_page
    run = started(console, console.ann)
    opened(console, page, console.ann, f"/runs/{run.run_id}")
    expect(page.get_by_role("button", name="Cancel the run")).to_be_hidden()
    page.get_by_text("Stop this run").click()
    page.get_by_role("region", name="Cancel").get_by_label("Reason").fill("wrong month")
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.get_by_role("status").first).to_contain_text("The run is cancelled and its slot is free.")
    expect(page.get_by_text("Cancelled: wrong month")).to_be_visible()
    page.get_by_label("From step").select_option("agree")
    page.get_by_role("button", name="Rerun").click()
    expect(page.get_by_role("status").first).to_contain_text("This is the new run")
    again = page.url.split("?")[0].rsplit("/", 1)[1]
    assert again != run.run_id
    assert console.client(console.ann).get_run(again).state == "running"


def test_a_rerun_that_is_sent_twice_starts_one_run(console: ConsoleSite, page: Page) -> None:
    ann = console.client(console.ann)
    run = started(console, console.ann)
    ann.cancel_run(run.run_id, fence=run.fence)
    opened(console, page, console.ann, f"/runs/{run.run_id}")
    key = page.locator("#rerun-card input[name=key]").input_value()
    answers = [
        page.context.request.post(
            f"{console.url}/console/runs/{run.run_id}/rerun",
            form={"key": key, "from_step": "agree"},
            headers={"origin": console.url},
            max_redirects=0,
        )
        for _ in range(2)
    ]
    assert [answer.status for answer in answers] == [303, 303]
    assert len({answer.headers["location"] for answer in answers}) == 1
    assert len(ann.runs().items) == 2


def test_a_run_of_somebody_else_is_cancelled_by_operators_alone(console: ConsoleSite, page: Page) -> None:
    run = console.client(console.payouts).start_run("nightly", ttl_seconds=600)
    opened(console, page, console.ann, f"/runs/{run.run_id}")  # an admin, but not an operator
    expect(page.get_by_text("It has none: the run is only a slot")).to_be_visible()
    expect(page.get_by_text("Stop this run")).to_have_count(0)
    page.context.clear_cookies()
    opened(console, page, console.hire("olga", "operate"), f"/runs/{run.run_id}")
    expect(page.locator("html[data-leads]")).to_have_count(1)
    page.get_by_text("Stop this run").click()
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.get_by_role("status").first).to_contain_text("The run is cancelled")
    expect(page.get_by_role("region", name="Timeline")).to_contain_text("olga cancelled the run")


def test_a_run_that_ends_under_an_open_page_is_shown_and_no_longer_cancelled(
    console: ConsoleSite, page: Page
) -> None:
    worker = console.client(console.payouts)
    run = worker.start_run("nightly", ttl_seconds=600)
    opened(console, page, console.hire("olga", "operate"), "/runs")
    slots = page.get_by_role("region", name="Slots")
    expect(slots).to_contain_text("1 of 10 slots taken")
    page.get_by_role("link", name="nightly").click()
    expect(page.locator("html[data-leads]")).to_have_count(1)
    worker.fail_run(run.run_id, run.fence, error="the disk is full")
    expect(page.get_by_text("Why it ended: the disk is full")).to_be_visible()
    expect(page.get_by_text("Stop this run")).to_have_count(0)
    answer = page.context.request.post(
        f"{console.url}/console/runs/{run.run_id}/cancel", form={}, headers={"origin": console.url}
    )
    assert answer.status == 409
    page.goto(f"{console.url}/console/runs?state=running")
    expect(page.get_by_text("No run matches these filters.")).to_be_visible()
    page.goto(f"{console.url}/console/runs?state=failed&workflow=nightly")
    expect(page.get_by_role("link", name="nightly")).to_be_visible()


def test_workflows_show_their_steps_and_limits_are_set_and_taken_away(
    console: ConsoleSite, page_in_each_scheme: Page
) -> None:
    page = page_in_each_scheme
    started(console)
    opened(console, page, console.ann, "/workflows")
    steps = page.get_by_role("region", name="Steps of report")
    expect(steps).to_contain_text("asks 1 person of finance")
    expect(steps).to_contain_text(f"a job on {TOPIC}")
    audit_accessibility(page)
    page.get_by_role("link", name="set a limit").click()
    expect(page.get_by_label("Scope")).to_have_value("report")
    page.get_by_label("Runs at once").fill("1")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_role("status").first).to_contain_text("The limit is set")
    row = page.get_by_role("row", name=re.compile("report"))
    expect(row).to_contain_text("1 of 1")
    expect(row).to_contain_text("full")
    audit_accessibility(page)
    row.get_by_text("Remove…").click()
    page.get_by_role("button", name="Remove the limit").click()
    expect(page.get_by_role("status").first).to_contain_text("The limit was removed")
    page.get_by_label("Scope").fill("no such name!")
    page.get_by_label("Runs at once").fill("3")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("letters, digits")
    expect(page.get_by_label("Scope")).to_have_value("no such name!")


def test_a_run_fits_a_phone(console: ConsoleSite, phone_page: Page) -> None:
    run = started(console)
    console.sign_in(phone_page, console.bob)
    for path in ("/runs", f"/runs/{run.run_id}", "/workflows", "/workflows?tab=limits"):
        phone_page.goto(f"{console.url}/console{path}")
        assert phone_page.evaluate("document.documentElement.scrollWidth") <= 360, path


def test_what_came_from_outside_is_text_and_hides_nothing(console: ConsoleSite, page: Page) -> None:
    worker = console.client(console.payouts)
    trick = "<img src=x onerror=alert(1)> \u202egnp.exe \u200b \x1b[31m"
    run = worker.start_run("nightly", input={"note": trick, "link": "javascript:alert(1)"})
    worker.fail_run(run.run_id, run.fence, error="<b>over</b> \u202e")
    console.client(console.ann).issue_grant(
        "deploy", pins={"note": trick}, reason="<script>alert(1)</script>"
    )
    console.sign_in(page, console.ann)
    for path in ("/runs", f"/runs/{run.run_id}", "/grants"):
        page.goto(f"{console.url}/console{path}")
        shown = page.locator("main")
        expect(shown.locator(".unseen").first).to_be_visible()
        assert shown.locator("img, script, b, a[href^=javascript]").count() == 0, path
        assert "\u202e" not in shown.inner_text(), path
