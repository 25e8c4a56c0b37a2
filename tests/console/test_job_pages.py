"""Jobs in the console: finding one, what became of it, dead letters, and taking one back."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.console.busy_company import call, dead_letter, person, take
from tests.harness.console_site import ConsoleSite


def test_a_list_without_jobs_says_how_to_make_one(console: ConsoleSite, page: Page) -> None:
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/jobs")
    expect(page.get_by_text("No jobs yet.")).to_be_visible()
    expect(page.get_by_text("interlock submit")).to_be_visible()
    page.get_by_role("link", name="Dead letters").click()
    expect(page.get_by_text("No dead letters.")).to_be_visible()


def test_jobs_are_found_by_words_topic_and_state(console: ConsoleSite, page: Page) -> None:
    acme, small = console.submit(to="Acme"), console.submit(5_000, to="Globex")
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/jobs")
    rows = page.get_by_role("region", name="Jobs").get_by_role("listitem")
    expect(rows).to_have_count(2)

    page.keyboard.press("/")
    page.keyboard.type("globex")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(1)
    expect(rows.get_by_role("link")).to_have_attribute("href", f"/console/jobs/{small.id}")

    page.goto(f"{console.url}/console/jobs?q={acme.id[-6:]}")
    expect(rows.get_by_role("link")).to_have_attribute("href", f"/console/jobs/{acme.id}")
    page.goto(f"{console.url}/console/jobs?topic=finance.*.execute")
    page.get_by_role("link", name="Waiting for people").click()
    expect(rows).to_have_count(1)
    page.get_by_label("Words").fill("nobody")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("No job matches.")).to_be_visible()
    page.goto(f"{console.url}/console/jobs?topic=a**")
    expect(page.get_by_role("alert").filter(has_text="'**' must stand alone")).to_be_visible()


def test_an_open_list_shows_what_comes_and_what_changes(console: ConsoleSite, page: Page) -> None:
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/jobs")
    expect(page.get_by_text("No jobs yet.")).to_be_visible()
    job = console.submit(evidence=[{"title": "invoice", "kind": "text", "content": "number 17"}])
    row = page.get_by_role("region", name="Jobs").get_by_role("listitem")
    expect(row).to_contain_text("APPROVAL")
    console.client(console.bob).approve(job.id)
    expect(row).to_contain_text("PENDING")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.get_by_role("region", name="Evidence").get_by_text("invoice").click()
    expect(page.get_by_text("number 17")).to_be_visible()


def test_a_page_of_jobs_has_fifty_and_leads_to_the_next(console: ConsoleSite, page: Page) -> None:
    for number in range(51):
        console.submit(number)
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/jobs")
    rows = page.get_by_role("region", name="Jobs").get_by_role("listitem")
    expect(rows).to_have_count(50)
    page.get_by_role("link", name="Next page").click()
    expect(rows).to_have_count(1)
    expect(page.get_by_role("link", name="First page")).to_be_visible()


def test_a_dead_letter_is_retried_once_without_javascript(console: ConsoleSite, plain_page: Page) -> None:
    job_id = dead_letter(console, {"message": "account closed"})
    console.sign_in(plain_page, console.ann)
    plain_page.goto(f"{console.url}/console/jobs?state=FAILED")
    expect(plain_page.get_by_text("account closed")).to_be_visible()
    call(console, console.ann, "POST", "jobs", job_id, "retry")
    retry = plain_page.get_by_role("button", name="Retry Pays")
    retry.click()
    expect(plain_page.get_by_role("status").filter(has_text="not done")).to_contain_text("ann")

    (held,) = console.client(console.payouts).claim_jobs(["finance.**"])
    call(
        console,
        console.payouts,
        "POST",
        "jobs",
        job_id,
        "fail",
        fence=held.fence,
        error="again",
        retryable=False,
    )
    plain_page.goto(f"{console.url}/console/jobs?state=FAILED")
    retry.click()
    expect(plain_page.get_by_role("status").filter(has_text="is queued again")).to_be_visible()
    assert console.client(console.ann).get_job(job_id).state == "PENDING"


def test_several_dead_letters_are_retried_with_keys_and_each_has_an_answer(
    console: ConsoleSite, page: Page
) -> None:
    jobs = [dead_letter(console), dead_letter(console)]
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/jobs?state=FAILED")
    for key in "jxjx":
        page.keyboard.press(key)
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(2)
    page.get_by_label("Reason").fill("the bank is back")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").get_by_text("is queued again")).to_have_count(2)
    assert {console.client(console.ann).get_job(job).state for job in jobs} == {"PENDING"}
    history = console.client(console.ann).get_job_history(jobs[0]).items
    assert history[0].details["reason"] == "the bank is back"


def test_a_job_tells_where_it_stands_who_has_it_and_what_was_refused(
    console: ConsoleSite, page: Page
) -> None:
    job = take(console)
    call(
        console, console.payouts, "POST", "jobs", job.id, "renew",
        fence=job.fence, checkpoint={"last": "checked the IBAN"},
    )  # fmt: skip
    with pytest.raises(Exception, match="fence"):
        call(console, console.payouts, "POST", "jobs", job.id, "complete", fence=job.fence - 1, result={})
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/jobs/{job.id}")

    stands = page.get_by_role("region", name="Where it stands")
    expect(stands).to_contain_text("payouts is doing it.")
    expect(stands).to_contain_text("Attempt 1 of 3")
    expect(page.get_by_role("region", name="Checkpoint")).to_contain_text("checked the IBAN")
    expect(page.get_by_role("region", name="Request")).to_contain_text("50.00 EUR")
    expect(page.get_by_role("region", name="Who")).to_contain_text("rule small-payments-run")
    timeline = page.get_by_role("region", name="Timeline").get_by_role("listitem")
    expect(timeline.filter(has_text="refused")).to_contain_text("payouts tried: finished it")
    expect(timeline.filter(has_text="submitted it")).to_contain_text("billing-bot")

    call(
        console,
        console.payouts,
        "POST",
        "jobs",
        job.id,
        "complete",
        fence=job.fence,
        result={"receipt": "re_9"},
    )
    expect(stands).to_contain_text("It is done.")
    expect(page.get_by_role("region", name="Result")).to_contain_text("re_9")


def test_a_request_that_waits_leads_to_the_page_where_it_is_decided(console: ConsoleSite, page: Page) -> None:
    job = console.submit()
    console.sign_in(page, console.bob)
    page.goto(f"{console.url}/console/jobs/{job.id}")
    expect(page.get_by_role("region", name="Where it stands")).to_contain_text(
        "waits for a person of finance"
    )
    page.get_by_role("link", name="Open the request").click()
    expect(page).to_have_url(f"{console.url}/console/approvals/{job.id}")


def test_cancelling_takes_a_reason_and_no_stray_click(console: ConsoleSite, plain_page: Page) -> None:
    job = console.submit()
    console.sign_in(plain_page, console.ann)
    plain_page.goto(f"{console.url}/console/jobs/{job.id}")
    button = plain_page.get_by_role("button", name="Cancel the job")
    expect(button).not_to_be_visible()
    plain_page.get_by_text("Cancel it").click()
    plain_page.get_by_label("Reason").fill("asked for twice")
    button.click()
    expect(plain_page.get_by_role("status")).to_contain_text("You cancelled it.")
    expect(plain_page.get_by_role("region", name="Timeline")).to_contain_text("asked for twice")
    assert console.client(console.ann).get_job(job.id).state == "CANCELLED"
    plain_page.goto(f"{console.url}/console/jobs/{job.id}")
    expect(plain_page.get_by_text("Cancel it")).to_have_count(0)


def test_unfolding_a_part_survives_a_change_under_the_page(console: ConsoleSite, page: Page) -> None:
    job = console.submit()
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/jobs/{job.id}")
    page.get_by_text("Cancel it").click()
    page.get_by_label("Reason").fill("half written")
    console.client(console.bob).approve(job.id)
    expect(page.get_by_role("region", name="Where it stands")).to_contain_text("waits for a worker")
    expect(page.get_by_label("Reason")).to_have_value("half written")
    expect(page.get_by_role("button", name="Cancel the job")).to_be_visible()


def test_whoever_may_not_change_jobs_is_offered_nothing_and_refused(console: ConsoleSite, page: Page) -> None:
    dead, waiting = dead_letter(console), console.submit()
    console.sign_in(page, console.bob)
    page.goto(f"{console.url}/console/jobs?state=FAILED")
    expect(page.get_by_role("link", name="Pays")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Retry"))).to_have_count(0)
    for job_id, path in ((dead, "retry"), (waiting.id, "cancel")):
        page.goto(f"{console.url}/console/jobs/{job_id}")
        expect(page.get_by_role("region", name="Where it stands")).to_be_visible()
        expect(page.locator("main form")).to_have_count(0)
        answer = page.context.request.post(
            f"{console.url}/console/jobs/{job_id}/{path}",
            form={"reason": "because"},
            headers={"sec-fetch-site": "same-origin"},
        )
        assert answer.status == 403
        assert "forbidden" in answer.text()
    assert console.client(console.ann).get_job(dead).state == "FAILED"


def test_a_job_that_is_not_there_is_not_found(console: ConsoleSite, page: Page) -> None:
    console.sign_in(page, console.ann)
    answer = page.goto(f"{console.url}/console/jobs/job_{'0' * 32}")
    assert answer is not None
    assert answer.status == 404
    expect(page.get_by_role("alert").filter(has_text="job")).to_be_visible()


def call_in_doubt(console: ConsoleSite, key: str) -> str:
    """A gated call that raised: its caller cannot tell what it did."""
    payload = {"amount_cents": 5_000, "currency": "EUR", "to": "Acme"}
    job = console.client(key).submit("finance.payment.execute", payload, env="production", executor="caller")
    held = call(console, key, "POST", "jobs", job.id, "claim")
    call(console, key, "POST", "jobs", job.id, "fail", fence=held["fence"], error="reset", retryable=False)
    return job.id


def test_a_call_in_doubt_is_not_retried_but_settled_by_who_knows(console: ConsoleSite, page: Page) -> None:
    kim = person(console, "kim", "submit")
    first, second = call_in_doubt(console, kim), call_in_doubt(console, kim)
    console.sign_in(page, console.ann)
    page.goto(f"{console.url}/console/jobs/{first}")
    expect(page.get_by_role("alert").filter(has_text="Nobody knows whether this happened.")).to_be_visible()
    expect(page.get_by_role("button", name="Retry")).to_have_count(0)
    page.get_by_role("link", name="Say what happened").click()
    page.get_by_label("How do you know?").fill("asked the bank")
    page.get_by_role("button", name="It did not happen").click()
    expect(page.get_by_role("status").filter(has_text="It may run again.")).to_be_visible()
    assert console.client(console.ann).get_job(first).state == "PENDING"

    page.context.clear_cookies()
    console.sign_in(page, kim)
    page.goto(f"{console.url}/console/jobs/{second}")
    page.get_by_label("It is your own call").fill("the money left my account")
    page.get_by_role("button", name="It happened").click()
    expect(page.get_by_role("status").filter(has_text="What became of it is recorded.")).to_be_visible()
    assert console.client(console.ann).get_job(second).state == "SUCCEEDED"


def test_what_a_worker_says_is_shown_and_never_run(console: ConsoleSite, page: Page) -> None:
    job_id = dead_letter(console, {"message": "<img src=x onerror=alert(1)> \u202egpj.exe"})
    console.sign_in(page, console.ann)
    for address in ("/console/jobs?state=FAILED", f"/console/jobs/{job_id}"):
        page.goto(console.url + address)
        expect(page.get_by_text("<img src=x onerror=alert(1)>")).to_be_visible()
        expect(page.locator(".unseen")).to_have_count(1)
        expect(page.locator("main img")).to_have_count(0)
