"""The company whose server the tests of pages visit."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from interlock import Forbidden, InterlockError
from tests.console.static_site import static_site
from tests.harness.browser import audit_accessibility
from tests.harness.console_site import ConsoleSite


def test_a_small_payment_runs_and_a_large_one_waits_for_finance(console: ConsoleSite) -> None:
    small, large = console.submit(10_000), console.submit(10_001)
    assert (small.state, large.state) == ("PENDING", "APPROVAL")
    assert large.approval is not None
    assert (large.approval.quorum, large.approval.groups) == (1, ("finance",))


def test_one_person_of_finance_decides(console: ConsoleSite) -> None:
    job = console.submit()
    with pytest.raises(Forbidden):
        console.client(console.mia).approve(job.id)
    assert console.client(console.bob).approve(job.id).outcome == "approved"
    assert console.client(console.payouts).claim_jobs(["finance.**"])[0].id == job.id


def test_only_ann_is_an_admin(console: ConsoleSite) -> None:
    console.client(console.ann).apply_policy({"version": "v1", "default": "allow", "rules": []})
    with pytest.raises(InterlockError):
        console.client(console.bob).apply_policy({"version": "v1", "default": "deny", "rules": []})


def test_each_test_begins_with_nothing_to_decide(console: ConsoleSite) -> None:
    assert not console.client(console.ann).approvals().items


def test_the_page_of_the_api_is_accessible_and_breaks_no_rule(
    console: ConsoleSite, page_in_each_scheme: Page
) -> None:
    page_in_each_scheme.goto(f"{console.url}/docs")
    expect(page_in_each_scheme.get_by_role("heading", level=1)).to_be_visible()
    # All operations look alike; axe would take as long for them all as the rest of this folder takes.
    for operation in ("#get_policy", "#submit_job"):
        audit_accessibility(page_in_each_scheme, within=operation)
    page_in_each_scheme.goto(f"{console.url}/problems")
    audit_accessibility(page_in_each_scheme, within="article:first-of-type")


def test_signing_in_fills_the_field_and_presses_the_button(console: ConsoleSite, page: Page) -> None:
    body = (
        "<form action=/console/inbox><label>API key <input name=key></label><button>Sign in</button></form>"
    )
    with static_site(body) as url:
        console.url = url.rstrip("/")
        console.sign_in(page, console.ann)
        expect(page).to_have_url(f"{url}console/inbox?key={console.ann}")
