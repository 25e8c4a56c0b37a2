"""Conflicts in the console: who collided, the safest next step as a button, and what each resolution would do."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.console.busy_company import FILE, Form, edited_while_leased, moved_under_a_draft, person
from tests.harness.console_site import ConsoleSite


def test_without_conflicts_the_page_says_when_there_would_be_one(console: ConsoleSite, page: Page) -> None:
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/conflicts")
    expect(page.get_by_text("Nothing collides.")).to_be_visible()
    page.get_by_role("link", name="Settled").click()
    expect(page.get_by_text("No conflict matches.")).to_be_visible()


def test_open_conflicts_and_their_pattern_are_listed_with_what_to_do(
    console: ConsoleSite, page: Page
) -> None:
    edited_while_leased(console)
    moved_under_a_draft(console)
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/conflicts")
    rows = page.get_by_role("region", name="Conflicts").get_by_role("listitem")
    expect(rows).to_have_count(2)
    expect(rows.last).to_contain_text(FILE)
    expect(rows.last).to_contain_text("billing-bot and ann")
    expect(rows.last).to_contain_text("Safest now: keep the person's edit")
    patterns = page.get_by_role("region", name="What keeps colliding").get_by_role("listitem")
    expect(patterns.filter(has_text="repo:billing/")).to_contain_text(
        "Lease narrower targets for shorter times"
    )
    page.get_by_label("Kind").select_option(label="The target changed after the draft")
    page.get_by_role("button", name="Filter").click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("ledger:2026-11")


def test_the_safest_next_step_is_one_button_and_does_it(console: ConsoleSite, plain_page: Page) -> None:
    conflict_id, held = edited_while_leased(console)
    console.sign_in(plain_page, console.bob)
    plain_page.goto(f"{console.url}/console/conflicts/{conflict_id}")
    sides = plain_page.get_by_role("region", name="Competing versions").get_by_role("listitem")
    expect(sides.first).to_contain_text("billing-bot holds the lease")
    expect(sides.first).to_contain_text("v1")
    expect(sides.last).to_contain_text("ann changed it")
    expect(sides.last).to_contain_text("v2 the current one")
    affected = plain_page.get_by_role("region", name="What it affects").get_by_role("link")
    expect(affected).to_have_attribute("href", f"/console/board/{held['lease_id']}")

    step = plain_page.get_by_role("region", name="Safest next step")
    expect(step).to_contain_text("The lease goes on.")
    step.get_by_label("Note").fill("talked to the agent's owner")
    step.get_by_role("button", name="Keep the second").click()
    expect(plain_page.get_by_role("status")).to_contain_text("You settled it.")
    expect(plain_page.get_by_text("talked to the agent's owner")).to_be_visible()
    conflict = console.client(console.ann).get_conflict(conflict_id)
    assert (conflict.state, conflict.resolution, conflict.resolved_by) == ("resolved", "keep_second", "bob")
    assert conflict.carried_out == ("settle_lease",)


def test_another_resolution_says_what_it_would_do_and_does_it(console: ConsoleSite, page: Page) -> None:
    conflict_id, job_id = moved_under_a_draft(console)
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/conflicts/{conflict_id}")
    step = page.get_by_role("region", name="Safest next step")
    expect(step.get_by_role("link", name="Draft it again")).to_have_attribute(
        "href", f"/console/approvals/{job_id}/edit"
    )
    discard = step.get_by_role("listitem").filter(has_text="Discard")
    expect(discard).to_contain_text("Cancels the job.")
    step.get_by_label("Note").fill("not needed any more")
    discard.get_by_role("button").click()
    expect(page.get_by_role("status").filter(has_text="You settled it.")).to_be_visible()
    expect(page.get_by_role("region", name="What it affects")).to_contain_text("CANCELLED")
    assert console.client(console.ann).get_job(job_id).state == "CANCELLED"


def test_a_conflict_that_somebody_else_settled_changes_under_the_page_and_is_not_settled_twice(
    console: ConsoleSite, two_pages: tuple[Page, Page]
) -> None:
    conflict_id, _ = edited_while_leased(console)
    open_page, late_page = two_pages
    for page, key in ((open_page, console.ann), (late_page, console.bob)):
        console.sign_in(page, key)
        page.goto(f"{console.url}/console/conflicts/{conflict_id}")
    late_page.get_by_role("button", name="live").click()
    late_page.get_by_label("Note").fill("too late")
    console.client(console.mia).resolve_conflict(conflict_id, "discard", note="ended it")
    expect(open_page.get_by_text("mia settled it")).to_be_visible()
    late_page.get_by_role("button", name="Keep the second").click()
    expect(late_page.get_by_role("alert").filter(has_text="mia")).to_be_visible()
    assert console.client(console.ann).get_conflict(conflict_id).resolution == "discard"


def test_settling_needs_a_note_and_a_role(console: ConsoleSite, page: Page) -> None:
    conflict_id, _ = edited_while_leased(console)
    address = f"{console.url}/console/conflicts/{conflict_id}"
    ours = {"sec-fetch-site": "same-origin"}
    console.sign_in(page, console.ann)
    answer = page.context.request.post(f"{address}/resolve", form={"resolution": "merge"}, headers=ours)
    assert answer.status == 400
    assert "Say in the note" in answer.text()

    page.context.clear_cookies()
    console.sign_in(page, person(console, "eve", "audit"))
    page.goto(address)
    expect(page.get_by_role("region", name="Competing versions")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Keep|Merge|Discard"))).to_have_count(0)
    form: Form = {"resolution": "merge", "note": "because"}
    answer = page.context.request.post(f"{address}/resolve", form=form, headers=ours)
    assert answer.status == 403
    assert console.client(console.ann).get_conflict(conflict_id).state == "open"
