"""The board: who holds what and why, who waits, what was handed over, and how many runs have a slot."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.console.busy_company import FILE, call, edited_while_leased, lease, stand_in_line
from tests.harness.console_site import ConsoleSite


def test_an_empty_board_says_how_a_resource_is_taken(console: ConsoleSite, page: Page) -> None:
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/board")
    expect(page.get_by_text("Nobody holds anything.")).to_be_visible()
    expect(page.get_by_text("interlock lease acquire")).to_be_visible()
    expect(page.get_by_text("No run has a slot now.")).to_be_visible()
    expect(page.get_by_role("row", name="the whole tenant")).to_contain_text("0 of 10")


def test_the_board_names_the_holder_the_line_and_how_far_the_work_came(
    console: ConsoleSite, page: Page
) -> None:
    held = lease(console, console.billing_bot, purpose="fix rounding")
    call(
        console, console.billing_bot, "POST", "leases", held["lease_id"], "checkpoint",
        fence=held["fence"], done=["read the tests"], open_questions=["half up or half even?"],
    )  # fmt: skip
    stand_in_line(console, console.payouts, FILE, "close the month")
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/board")
    place = page.get_by_role("region", name="Who holds what").get_by_role("listitem").filter(has_text=FILE)
    expect(place.first).to_contain_text("billing-bot fix rounding")
    line = page.get_by_role("listitem").filter(has_text="close the month").last
    expect(line).to_contain_text("payouts")
    assert str(held["fence"]) not in place.first.inner_text()
    page.get_by_text("Checkpoint 1").click()
    expect(place.first).to_contain_text("half up or half even?")

    page.get_by_role("link", name="billing-bot").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"billing-bot holds {FILE}")
    expect(page.get_by_role("region", name="Checkpoints")).to_contain_text("read the tests")
    expect(page.get_by_role("region", name="Waiting line")).to_contain_text("payouts")


def test_a_hand_off_shows_from_whom_and_what_was_left(console: ConsoleSite, plain_page: Page) -> None:
    first = lease(console, console.payouts, purpose="weekly report")
    call(
        console, console.payouts, "POST", "leases", first["lease_id"], "handoff",
        fence=first["fence"], to="billing-bot", checkpoint={"done": ["the totals"]},
    )  # fmt: skip
    console.sign_in(plain_page, console.ann)
    plain_page.goto(f"{console.url}/console/board")
    board = plain_page.get_by_role("region", name="Who holds what")
    expect(board).to_contain_text("Nobody holds it now.")
    expect(board).to_contain_text("kept: it was handed to them")

    lease(console, console.billing_bot, purpose="finish the charts")
    plain_page.reload()
    expect(board).to_contain_text("handed over by payouts")
    plain_page.get_by_role("link", name="billing-bot").click()
    before = plain_page.get_by_role("region", name="Before")
    expect(before).to_contain_text("payouts")
    expect(before).to_contain_text("the totals")
    before.get_by_role("link", name="Everybody who held it").click()
    expect(plain_page.get_by_role("region", name="Leases, also those that ended")).to_contain_text(
        "handed off"
    )


def test_slots_and_runs_are_counted_by_scope(console: ConsoleSite, page: Page) -> None:
    call(console, console.ann, "PUT", "limits", "nightly", max_concurrent_runs=1)
    run = call(console, console.billing_bot, "POST", "workflows", "nightly", "runs", ttl_seconds=600)
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/board")
    slots = page.get_by_role("region", name="Slots by scope")
    expect(slots.get_by_role("row", name="nightly")).to_contain_text("1 of 1")
    expect(slots.get_by_role("row", name="nightly")).to_contain_text("full")
    expect(slots.get_by_role("row", name="the whole tenant")).to_contain_text("1 of 10")
    runs = page.get_by_role("region", name="Runs that have a slot")
    expect(runs.get_by_role("row").nth(1)).to_contain_text("billing-bot")
    expect(runs.get_by_role("link")).to_have_attribute("href", f"/console/runs/{run['run_id']}")


def test_an_open_board_shows_what_is_taken_and_leads_to_what_collides(
    console: ConsoleSite, page: Page
) -> None:
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/board")
    expect(page.get_by_text("Nobody holds anything.")).to_be_visible()
    conflict_id, _ = edited_while_leased(console)
    link = page.get_by_role("link", name="conflict detected")
    expect(link).to_have_attribute("href", f"/console/conflicts/{conflict_id}")


def test_leases_are_filtered_by_resource_and_owner(console: ConsoleSite, page: Page) -> None:
    lease(console, console.billing_bot)
    lease(console, console.payouts, "repo:billing/report.py")
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/board?owner=payouts")
    places = page.get_by_role("region", name="Who holds what").get_by_role("heading", level=3)
    expect(places).to_have_text("repo:billing/report.py")
    page.get_by_label("Owner").fill("nobody")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("No lease matches.")).to_be_visible()
