"""Effects in the console: the unknown ones first, and how somebody says what happened."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.console.busy_company import Form, committed, effect, in_doubt, person
from tests.harness.console_site import ConsoleSite


def test_without_effects_the_page_says_how_one_begins(console: ConsoleSite, page: Page) -> None:
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/effects")
    expect(page.get_by_text("No effects yet.")).to_be_visible()
    page.get_by_role("link", name="Outcome unknown").click()
    expect(page.get_by_text("No outcome is unknown.")).to_be_visible()


def test_what_nobody_is_sure_of_comes_first_and_an_effect_is_found_by_its_id(
    console: ConsoleSite, page: Page
) -> None:
    in_doubt(console, "refund:4711")
    committed(console, "payout:2026-11/acme")
    effect(console, "mail:17")
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/effects")
    unknown = page.get_by_role("region", name="Outcome unknown").get_by_role("listitem")
    expect(unknown).to_have_count(1)
    expect(unknown).to_contain_text("begun by payouts")
    expect(unknown).to_contain_text("could not tell")
    rest = page.get_by_role("region", name="Newest first").get_by_role("listitem")
    expect(rest).to_have_count(2)
    page.get_by_role("link", name="Committed").click()
    expect(page.get_by_role("region", name="Committed").get_by_role("link")).to_have_text(
        "payout:2026-11/acme"
    )
    page.get_by_role("link", name="payout:2026-11/acme").click()
    expect(page.get_by_role("region", name="Result")).to_contain_text("po_88")

    page.goto(f"{console.url}/console/effects")
    page.get_by_label("Action id").fill("payout:2026-11/acme")
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("payout:2026-11/acme")
    page.goto(f"{console.url}/console/effects?id=refund:1")
    expect(page.get_by_role("alert").filter(has_text="refund:1")).to_be_visible()


def test_a_person_says_that_it_happened_and_with_which_result(console: ConsoleSite, plain_page: Page) -> None:
    in_doubt(console, "refund:4711/a")
    console.sign_in(plain_page, console.bob)
    plain_page.goto(f"{console.url}/console/effects")
    plain_page.get_by_role("link", name="refund:4711/a").click()
    expect(plain_page.get_by_text("Nobody knows whether this happened.")).to_be_visible()
    expect(plain_page.get_by_role("region", name="Facts")).to_contain_text("sha256:…ababab")
    plain_page.get_by_label("How do you know?").fill("seen in the provider's dashboard")
    plain_page.get_by_text("It happened, with a result").click()
    plain_page.get_by_label("Result as JSON").fill("not json")
    happened = plain_page.get_by_role("button", name="It happened")
    happened.click()
    expect(plain_page.get_by_role("alert").filter(has_text="not JSON")).to_be_visible()
    expect(plain_page.get_by_label("How do you know?")).to_have_value("seen in the provider's dashboard")
    plain_page.get_by_label("Result as JSON").fill('{"id": "re_1"}')
    happened.click()
    expect(plain_page.get_by_role("status")).to_contain_text("Recorded: it happened.")
    settled = console.client(console.ann).get_effect("refund:4711/a")
    assert (settled.state, settled.result) == ("COMMITTED", {"id": "re_1"})
    assert settled.resolved is not None
    assert (settled.resolved.by, settled.resolved.evidence) == ("bob", "seen in the provider's dashboard")


def test_a_person_says_that_it_did_not_happen_and_an_open_page_learns_it(
    console: ConsoleSite, two_pages: tuple[Page, Page]
) -> None:
    in_doubt(console, "refund:4711")
    deciding, watching = two_pages
    console.sign_in(watching, console.ann)
    watching.goto(f"{console.url}/console/effects")
    expect(watching.get_by_role("region", name="Newest first")).to_contain_text("No others.")
    console.sign_in(deciding, console.bob)
    deciding.goto(f"{console.url}/console/effects/refund:4711")
    deciding.get_by_label("How do you know?").fill("the bank has no trace of it")
    deciding.get_by_role("button", name="It did not happen").click()
    expect(deciding.get_by_role("status")).to_contain_text("It may run again.")
    expect(watching.get_by_role("region", name="Newest first")).to_contain_text("FAILED")
    assert console.client(console.ann).get_effect("refund:4711").state == "FAILED"


def test_saying_what_happened_needs_evidence_a_role_and_a_doubt(console: ConsoleSite, page: Page) -> None:
    in_doubt(console, "refund:4711")
    committed(console, "payout:1")
    ours = {"sec-fetch-site": "same-origin"}
    console.sign_in(page, console.ann)
    post = page.context.request.post
    answer = post(
        f"{console.url}/console/effects/refund:4711/resolve", form={"outcome": "committed"}, headers=ours
    )
    assert (answer.status, "Say how you know" in answer.text()) == (400, True)
    form: Form = {"outcome": "not_committed", "evidence": "I say so"}
    answer = post(f"{console.url}/console/effects/payout:1/resolve", form=form, headers=ours)
    assert (answer.status, "not_actionable" in answer.text()) == (409, True)

    page.context.clear_cookies()
    console.sign_in(page, person(console, "eve", "audit"))
    page.goto(f"{console.url}/console/effects/refund:4711")
    expect(page.get_by_text("Nobody knows whether this happened.")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("happen"))).to_have_count(0)
    answer = post(f"{console.url}/console/effects/refund:4711/resolve", form=form, headers=ours)
    assert answer.status == 403
    assert console.client(console.ann).get_effect("refund:4711").state == "AMBIGUOUS"
