"""Grants in the browser: to issue one, to see what became of its uses, and to revoke it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from interlock.console.grants import BadPins, read_pins
from tests.harness.browser import audit_accessibility
from tests.harness.console_site import ConsoleSite


def opened(console: ConsoleSite, page: Page, key: str, path: str = "") -> None:
    console.sign_in(page, key)
    page.goto(f"{console.url}/console/grants{path}")


def test_a_grant_is_issued_with_its_pins_without_javascript(console: ConsoleSite, plain_page: Page) -> None:
    page = plain_page
    opened(console, page, console.bob)
    expect(page.get_by_text("Nobody has issued a grant yet.")).to_be_visible()
    page.get_by_text("Issue a grant").click()
    page.get_by_label("Task", exact=True).first.fill("deploy")
    page.get_by_label("Uses").fill("3")
    page.get_by_label("Pins").fill('repo = billing\namount_cents <= 500\nbranch ~ fix/*\nticket = "17"')
    page.get_by_label("Reason").fill("hotfix")
    page.get_by_role("button", name="Issue", exact=True).click()
    expect(page.get_by_role("status").first).to_contain_text("The grant is issued.")
    (grant,) = console.client(console.bob).grants().items
    pins = {"repo": "billing", "amount_cents": {"max": 500}, "branch": {"glob": "fix/*"}, "ticket": "17"}
    assert (grant.task, grant.uses, grant.pins, grant.reason) == ("deploy", 3, pins, "hotfix")
    assert grant.approver == "bob"
    expect(page.get_by_role("region", name="Terms")).to_contain_text("3 issued = 3 open + 0 claimed")


def test_what_is_refused_is_told_and_what_was_typed_stays(console: ConsoleSite, page: Page) -> None:
    opened(console, page, console.bob)
    for pins, said in (("repo billing", "Line 1 is not a pin"), ("", "/expires_in")):
        if not page.get_by_label("Pins").is_visible():
            page.get_by_text("Issue a grant").click()
        page.get_by_label("Task", exact=True).first.fill("deploy")
        page.get_by_label("Pins").fill(pins)
        page.get_by_label("Expires in").fill("soon")
        page.get_by_role("button", name="Issue", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text(said)
        expect(page.get_by_label("Task", exact=True).first).to_have_value("deploy")
        expect(page.get_by_label("Expires in")).to_have_value("soon")
    assert console.client(console.bob).grants().items == ()


def test_a_form_that_is_sent_twice_issues_one_grant(console: ConsoleSite, page: Page) -> None:
    opened(console, page, console.bob)
    key = page.locator("input[name=key]").input_value()
    form: dict[str, str | float | bool] = {"key": key, "task": "deploy", "uses": "1", "expires_in": "1h"}
    for _ in range(2):
        answer = page.context.request.post(
            f"{console.url}/console/grants", form=form, headers={"origin": console.url}, max_redirects=0
        )
        assert answer.status == 303, answer.text()
    assert len(console.client(console.bob).grants().items) == 1


def test_uses_ledger_and_revoking_are_shown_as_they_happen(
    console: ConsoleSite, page_in_each_scheme: Page
) -> None:
    page, ann = page_in_each_scheme, console.client(console.ann)
    grant = ann.issue_grant("deploy", uses=3, pins={"repo": "billing"})
    opened(console, page, console.ann)
    ledger = page.get_by_role("region", name="Ledger")
    expect(ledger).to_contain_text("3 issued = 3 open + 0 claimed + 0 expired + 0 revoked")
    expect(page.locator("html[data-leads]")).to_have_count(1)
    console.client(console.payouts).claim_grant("deploy", args={"repo": "billing"}, execution_id="deploy-7")
    expect(ledger).to_contain_text("3 issued = 2 open + 1 claimed + 0 expired + 0 revoked")
    audit_accessibility(page)
    page.get_by_role("link", name="deploy").click()
    expect(page.get_by_role("region", name="Uses", exact=True)).to_contain_text("payouts")
    expect(page.get_by_role("region", name="Uses", exact=True)).to_contain_text("deploy-7")
    expect(page.get_by_role("button", name="Revoke")).to_be_hidden()
    page.get_by_text("Revoke what is left of it").click()
    page.get_by_label("Reason").fill("done with it")
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("status").first).to_contain_text("The grant is revoked")
    expect(page.get_by_role("region", name="Terms")).to_contain_text(
        "0 open + 1 claimed + 0 expired + 2 revoked"
    )
    audit_accessibility(page)
    assert ann.get_grant(grant.id).state == "revoked"
    page.goto(f"{console.url}/console/grants?state=open")
    expect(page.get_by_text("No grant matches these filters.")).to_be_visible()
    page.goto(f"{console.url}/console/grants?state=revoked&task=deploy")
    expect(page.get_by_role("link", name="deploy")).to_be_visible()


def test_a_grant_that_is_over_meanwhile_is_not_revoked_and_says_so(
    console: ConsoleSite, plain_page: Page
) -> None:
    page, ann = plain_page, console.client(console.ann)
    grant = ann.issue_grant("deploy")
    opened(console, page, console.ann, f"/{grant.id}")
    console.client(console.payouts).claim_grant("deploy", execution_id="deploy-7")
    page.get_by_text("Revoke what is left of it").click()
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("alert")).to_contain_text("spent")
    assert page.goto(f"{console.url}/console/grants/gnt_none").status == 404  # type: ignore[union-attr]


def test_grants_are_paged_and_fit_a_phone(console: ConsoleSite, phone_page: Page) -> None:
    page, ann = phone_page, console.client(console.ann)
    for number in range(51):
        ann.issue_grant(f"task-{number}")
    opened(console, page, console.ann)
    expect(page.locator("[data-row]")).to_have_count(50)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.get_by_role("link", name="Next page").click()
    expect(page.locator("[data-row]")).to_have_count(1)
    expect(page.get_by_role("link", name="task-0")).to_be_visible()


def test_who_may_neither_issue_nor_revoke_is_not_offered_it_and_refused(
    console: ConsoleSite, page: Page
) -> None:
    grant = console.client(console.ann).issue_grant("deploy")
    opened(console, page, console.hire("eve", "audit"))
    expect(page.get_by_role("link", name="deploy")).to_be_visible()
    expect(page.get_by_text("Issue a grant")).to_have_count(0)
    page.goto(f"{console.url}/console/grants/{grant.id}")
    expect(page.get_by_role("region", name="Terms")).to_be_visible()
    expect(page.get_by_text("Revoke what is left of it")).to_have_count(0)
    for where in ("", f"/{grant.id}/revoke"):
        answer = page.context.request.post(
            f"{console.url}/console/grants{where}", form={"task": "x"}, headers={"origin": console.url}
        )
        assert answer.status == 403
    assert console.client(console.ann).get_grant(grant.id).state == "open"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("repo", "Line 1 is not a pin"),
        ("a = 1\na = 2", "Line 2 pins a a second time"),
        ("n = 9007199254740993", "cannot be kept as it is"),
    ],
)
def test_pins_that_say_nothing_certain_are_refused_by_line(text: str, said: str) -> None:
    with pytest.raises(BadPins, match=said):
        read_pins(text)
