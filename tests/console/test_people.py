"""The people page: who may do what, keys that are shown once, and sessions that end at once."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.harness.browser import audit_accessibility
from tests.harness.console_site import ConsoleSite


def opened(console: ConsoleSite, page: Page, path: str = "", key: str = "") -> None:
    console.sign_in(page, key or console.ann)
    page.goto(f"{console.url}/console/people{path}")


def principal(console: ConsoleSite, name: str) -> dict[str, object]:
    return console.client(console.ann).call("GET", "principals", name)


def test_an_admin_sees_everybody_with_what_they_may_do(
    console: ConsoleSite, page_in_each_scheme: Page
) -> None:
    page = page_in_each_scheme
    opened(console, page)
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="billing-bot"))
    for text in ("agent", "submit", "mia"):
        expect(row).to_contain_text(text)
    page.get_by_text("Add a person, agent or worker").click()
    audit_accessibility(page)
    page.get_by_role("link", name="API keys").click()
    expect(page.get_by_role("table").get_by_role("link", name="payouts")).to_be_visible()
    audit_accessibility(page)


def test_a_reviewer_sees_themselves_and_their_sessions_alone(
    console: ConsoleSite, two_pages: tuple[Page, Page]
) -> None:
    ann, bob = two_pages
    console.sign_in(ann, console.ann)
    opened(console, bob, key=console.bob)
    you = bob.get_by_role("region", name="You", exact=True)
    for text in ("bob", "review", "finance"):
        expect(you).to_contain_text(text)
    expect(bob.get_by_role("heading", name="Your sessions")).to_be_visible()
    expect(bob.get_by_role("row")).to_have_count(2)
    expect(bob.get_by_role("link", name="API keys")).to_have_count(0)
    expect(bob.get_by_text("Add a person, agent or worker")).to_have_count(0)
    for path in ("?tab=keys", "?tab=people"):
        bob.goto(f"{console.url}/console/people{path}")
        expect(bob.get_by_role("heading", name="Your sessions")).to_be_visible()
    answer = bob.goto(f"{console.url}/console/people?tab=sessions&principal=ann")
    assert answer is not None
    assert answer.status == 403


def test_somebody_is_added_and_signs_in_with_the_key_that_was_shown(
    console: ConsoleSite, plain_page: Page
) -> None:
    page = plain_page
    opened(console, page)
    page.get_by_text("Add a person, agent or worker").click()
    page.get_by_label("Name", exact=True).fill("zoe")
    page.get_by_role("checkbox", name="review").check()
    page.get_by_label("Groups").fill("finance, ops")
    page.get_by_role("button", name="Add with an API key").click()
    expect(page.get_by_role("status")).to_contain_text("zoe was added")
    key = page.locator(".secret").inner_text()
    seen = principal(console, "zoe")
    assert (seen["kind"], seen["roles"], seen["groups"]) == ("person", ["review"], ["finance", "ops"])
    page.goto(f"{console.url}/console/people")
    assert key not in page.content()
    page.get_by_text("ann", exact=True).first.click()
    page.get_by_role("button", name="Sign out").click()
    console.sign_in(page, key)
    expect(page.get_by_role("heading", name="Inbox", exact=True)).to_be_visible()


def test_adding_a_name_that_is_there_changes_nothing(console: ConsoleSite, page: Page) -> None:
    opened(console, page)
    page.get_by_text("Add a person, agent or worker").click()
    page.get_by_label("Name", exact=True).fill("bob")
    page.get_by_role("checkbox", name="admin").check()
    page.get_by_role("button", name="Add with an API key").click()
    expect(page.get_by_role("alert").filter(has_text="bob")).to_contain_text("there already")
    expect(page.get_by_label("Name", exact=True)).to_have_value("bob")
    assert principal(console, "bob")["roles"] == ["review"]


def test_roles_and_groups_are_changed_and_take_effect_at_once(
    console: ConsoleSite, two_pages: tuple[Page, Page]
) -> None:
    ann, bob = two_pages
    console.sign_in(bob, console.bob)
    opened(console, ann, "/bob")
    ann.get_by_role("checkbox", name="review").uncheck()
    ann.get_by_role("checkbox", name="audit").check()
    ann.get_by_label("Groups").fill("")
    ann.get_by_role("button", name="Save").click()
    expect(ann.get_by_role("status")).to_contain_text("was changed")
    expect(ann.get_by_role("checkbox", name="audit")).to_be_checked()
    seen = principal(console, "bob")
    assert (seen["roles"], seen["groups"]) == (["audit"], [])
    bob.reload()
    expect(bob.get_by_role("button", name="Sign in", exact=True)).to_be_visible()


def test_a_key_is_issued_once_revoked_and_then_its_owner_can_be_removed(
    console: ConsoleSite, page_in_each_scheme: Page
) -> None:
    page = page_in_each_scheme
    opened(console, page, "/payouts")
    page.get_by_role("button", name="Issue an API key").click()
    key = page.locator(".secret").inner_text()
    page.reload()
    expect(page.locator(".secret")).to_have_text(key)
    assert principal(console, "payouts")["keys_live"] == 2
    assert principal(console, "payouts")["roles"] == ["work", "submit"]
    page.get_by_text("Remove payouts").first.click()
    expect(page.get_by_text("Revoke them first")).to_be_visible()
    audit_accessibility(page)
    for left in (1, 0):
        page.locator("summary", has_text="Revoke").first.click()
        page.get_by_role("button", name="Revoke this key").first.click()
        expect(page.get_by_role("status")).to_contain_text("was revoked")
        assert principal(console, "payouts")["keys_live"] == left
    page.get_by_text("Remove payouts").first.click()
    page.get_by_role("button", name="Remove payouts").click()
    expect(page.get_by_role("status")).to_contain_text("removed")
    expect(page.get_by_role("link", name="payouts")).to_have_count(0)


def test_an_admin_ends_somebodys_session_and_they_are_signed_out(
    console: ConsoleSite, two_pages: tuple[Page, Page]
) -> None:
    ann, bob = two_pages
    console.sign_in(bob, console.bob)
    opened(console, ann, "?tab=sessions")
    expect(ann.get_by_role("heading", name="Everybody's sessions")).to_be_visible()
    row = ann.get_by_role("row").filter(has=ann.get_by_role("link", name="bob"))
    expect(row).to_contain_text("Chrome on")
    row.locator("summary").click()
    row.get_by_role("button", name="End this session").click()
    expect(ann.get_by_role("status")).to_contain_text("was ended")
    expect(ann.get_by_role("row").filter(has=ann.get_by_role("link", name="bob"))).to_contain_text("by ann")
    audit_accessibility(ann)
    bob.reload()
    expect(bob.get_by_role("button", name="Sign in", exact=True)).to_be_visible()


@pytest.mark.parametrize("path", ["", "?tab=keys", "?tab=sessions", "/bob"])
def test_people_fit_a_phone(console: ConsoleSite, phone_page: Page, path: str) -> None:
    opened(console, phone_page, path)
    expect(phone_page.get_by_role("table").first).to_be_visible()
    assert phone_page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_long_list_of_people_comes_in_pages_also_of_a_page_that_answers_a_form(
    console: ConsoleSite, plain_page: Page
) -> None:
    page, body = plain_page, {"kind": "agent", "roles": ["submit"]}
    for number in range(55):
        console.client(console.ann).call("POST", "principals", f"bot-{number:02}", "keys", body=body)
    opened(console, page, "?tab=keys")
    expect(page.locator("[data-row]")).to_have_count(50)
    page.get_by_role("link", name="Next page").click()
    expect(page.get_by_role("table").get_by_role("link", name="mia")).to_be_visible()
    page.goto(f"{console.url}/console/people")
    page.get_by_text("Add a person, agent or worker").click()
    page.get_by_label("Name", exact=True).fill("zoe")
    page.get_by_role("button", name="Add with an API key").click()
    expect(page.locator("[data-row]")).to_have_count(50)
    page.get_by_role("link", name="Next page").click()
    expect(page.get_by_role("link", name="zoe")).to_be_visible()
