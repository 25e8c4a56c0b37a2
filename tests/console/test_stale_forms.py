"""Forms that were filled in for something that is not there any more, or that say less than a page does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import httpx2
import pytest
from playwright.sync_api import Page, expect

from tests.harness.console_site import ConsoleSite

MORE = {"amount_cents": 9_000_000, "currency": "EUR", "to": "Mallory"}


@pytest.fixture
def http(console: ConsoleSite) -> Iterator[httpx2.Client]:
    """Ann, signed in, with a client that sends what it is told to."""
    headers = {"origin": console.url, "accept": "text/html"}
    with httpx2.Client(base_url=console.url, headers=headers) as client:
        assert client.post("/console/sign-in", data={"api_key": console.ann}).status_code == 303
        yield client


def state_of(console: ConsoleSite, job_id: str) -> str:
    return console.client(console.ann).get_job(job_id).state


@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_a_decision_that_does_not_say_what_was_seen_is_not_taken(
    console: ConsoleSite, http: httpx2.Client, verb: str
) -> None:
    job = console.submit()
    alone = http.post(f"/console/approvals/{job.id}/{verb}", data={"reason": "because"})
    batch = http.post("/console/inbox", data={"decision": verb, "reason": "because", "job": job.id})
    assert alone.status_code == 409
    assert "another version" in alone.text
    assert "not done" in batch.text
    assert state_of(console, job.id) == "APPROVAL"


def test_one_bad_id_in_a_selection_harms_no_other(console: ConsoleSite, http: httpx2.Client) -> None:
    """A forged id, one with another's hash, and one that is selected twice."""
    good, other = console.submit(), console.submit(30_000, to="Bolt")
    sent = [
        ("decision", "approve"),
        *(("job", each) for each in ("job_forged", "../x", other.id, good.id, good.id)),
        ("hash.job_forged", str(good.job_hash)),
        (f"hash.{other.id}", str(good.job_hash)),
        (f"hash.{good.id}", str(good.job_hash)),
    ]
    answer = http.post(
        "/console/inbox",
        content=urlencode(sent),
        headers={"content-type": "application/x-www-form-urlencoded"},
    )
    assert answer.status_code == 200
    assert len(re.findall("not done", answer.text)) == 3
    assert (state_of(console, good.id), state_of(console, other.id)) == ("PENDING", "APPROVAL")


def test_more_than_can_be_selected_is_refused_whole(console: ConsoleSite, http: httpx2.Client) -> None:
    job = console.submit()
    chosen = [job.id, *(f"job_{each}" for each in range(200))]
    answer = http.post("/console/inbox", data={"decision": "approve", "job": chosen})
    assert answer.status_code == 413
    assert state_of(console, job.id) == "APPROVAL"


def test_an_edit_of_a_version_that_is_gone_is_compared_and_not_saved(
    console: ConsoleSite, plain_page: Page
) -> None:
    page, job = plain_page, console.submit()
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/approvals/{job.id}/edit")
    console.client(console.bob).edit(job.id, MORE, reason="was first")
    mine = '{"amount_cents": 20000, "currency": "EUR", "to": "Acme"}'
    page.get_by_label("Payload (JSON)").fill(mine)
    page.get_by_label("Reason").fill("only half of it")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Save the change").click()
    expect(page.get_by_role("alert")).to_contain_text("another version")
    compared = page.get_by_role("region", name="Your text, compared with the request as it is now")
    expect(compared).to_contain_text("Mallory")
    expect(page.get_by_label("Payload (JSON)")).to_have_value(mine)
    assert console.client(console.ann).get_job(job.id).payload == MORE
    page.get_by_role("button", name="Save the change").click()
    expect(page.get_by_role("status").first).to_contain_text("The request was changed")


def test_enter_in_the_reason_decides_nothing(console: ConsoleSite, page: Page, plain_page: Page) -> None:
    """It would press the first button, which approves: whoever writes a reason mostly means no."""
    for each in (page, plain_page):
        job = console.submit()
        console.sign_in(each, console.bob)
        each.goto(f"{console.url}/console/approvals/{job.id}")
        each.get_by_label("Reason").fill("never")
        each.keyboard.press("Enter")
        each.goto(f"{console.url}/console/inbox")
        each.get_by_role("checkbox", name=re.compile("Acme")).first.check()
        each.get_by_label("Reason").fill("never")
        each.keyboard.press("Enter")
        expect(each.get_by_role("heading", name="Inbox")).to_be_visible()
        assert state_of(console, job.id) == "APPROVAL"


def test_keys_decide_nothing_behind_the_help_and_after_a_reject_that_was_left(
    console: ConsoleSite, page: Page
) -> None:
    job = console.submit()
    console.sign_in(page, console.bob)
    page.goto(f"{console.url}/console/approvals/{job.id}")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("a")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    page.keyboard.press("r")
    page.keyboard.press("Escape")
    page.get_by_label("Reason").fill("fine with me")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Reason")).to_have_value("fine with me")
    assert state_of(console, job.id) == "APPROVAL"
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    expect(page.get_by_text("Approved by bob").first).to_be_visible()


def test_a_press_meant_for_what_was_there_before_does_not_decide_what_replaced_it(
    console: ConsoleSite, page: Page
) -> None:
    job = console.submit()
    console.sign_in(page, console.bob)
    page.goto(f"{console.url}/console/approvals/{job.id}")
    approve = "document.querySelector('[data-key=a]').click()"
    at_once = f"document.addEventListener('interlock:changed', () => {approve})"
    page.evaluate(f"() => {{ {at_once} }}")
    console.client(console.ann).edit(job.id, MORE, reason="sneaky")
    expect(page.get_by_role("status").first).to_contain_text("changed just now")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Mallory")
    assert state_of(console, job.id) == "APPROVAL"
