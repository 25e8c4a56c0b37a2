"""The audit page: one line for each thing that happened, narrowed and paged, with what was noted on demand."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Page, expect

import interlock.rooms
from interlock.console.audit import _VERBS  # pyright: ignore[reportPrivateUsage]
from interlock.console.timeline import _WORDS  # pyright: ignore[reportPrivateUsage]
from tests.harness.browser import audit_accessibility
from tests.harness.console_site import ConsoleSite


def opened(console: ConsoleSite, page: Page, query: str = "", key: str = "") -> None:
    console.sign_in(page, key or console.ann)
    page.goto(f"{console.url}/console/audit{query}")


# What rooms write into the log: the last word before a comma or the end of these calls.
_RECORDED = re.compile(
    r"\b(?:record_change|record_refusal|requeue|give_up|audit)\((?:[\w.,\s()]|world)*?\"(\w+)\"", re.DOTALL
)


def test_everything_that_is_recorded_of_a_job_has_words() -> None:
    rooms = Path(interlock.rooms.__path__[0])
    actions = {name: _RECORDED.findall((rooms / name).read_text()) for name in _files(rooms)}
    of_jobs = {each for name, found in actions.items() if name.startswith("jobs/") for each in found}
    assert len(of_jobs) > 15
    assert of_jobs - set(_WORDS) == set()
    assert {each for found in actions.values() for each in found} - set(_VERBS) == set()


def _files(folder: Path) -> list[str]:
    return [str(each.relative_to(folder)) for each in sorted(folder.rglob("*.py"))]


def test_an_entry_is_a_line_with_its_details_on_demand(
    console: ConsoleSite, page_in_each_scheme: Page
) -> None:
    page, job = page_in_each_scheme, console.submit()
    console.client(console.bob).reject(job.id, reason="not <b>ours</b>\u202e")
    opened(console, page)
    line = page.get_by_role("listitem").filter(has_text="rejected")
    expect(line).to_contain_text(re.compile(r"bob rejected\s+job_"))
    expect(line).to_contain_text(r"not <b>ours</b>\u202e")
    expect(line.get_by_role("link", name=f"job_…{job.id[-6:]}")).to_have_attribute(
        "href", f"/console/jobs/{job.id}"
    )
    expect(line.get_by_text(job.job_hash)).to_be_hidden()
    line.locator("summary").click()
    expect(line.get_by_text(job.job_hash)).to_be_visible()
    audit_accessibility(page)


def test_the_log_is_narrowed_by_who_what_and_about(console: ConsoleSite, plain_page: Page) -> None:
    page, job = plain_page, console.submit()
    other = console.submit(30_000)
    console.client(console.bob).reject(job.id, reason="no")
    opened(console, page)
    page.get_by_label("Who").fill("billing-bot")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("listitem").filter(has_text="submitted")).to_have_count(2)
    expect(page.get_by_text("bob rejected")).to_have_count(0)
    page.get_by_label("About").fill(other.id)
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("[data-row]")).to_have_count(1)
    page.get_by_label("Action").fill("approve")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_text("No entry matches.")).to_be_visible()
    page.get_by_role("link", name="Show the whole log").click()
    expect(page.get_by_role("listitem").filter(has_text=re.compile(r"bob rejected"))).to_have_count(1)


def test_the_log_is_paged_and_a_new_entry_does_not_move_what_is_read(
    console: ConsoleSite, page: Page
) -> None:
    for cents in range(100, 155):
        console.submit(cents)
    opened(console, page)
    expect(page.locator("[data-row]")).to_have_count(50)
    first = page.locator("[data-row]").first.get_attribute("data-id")
    page.keyboard.press("j")
    expect(page.locator("[data-row] a").first).to_be_focused()
    console.submit(200)
    button = page.get_by_role("button", name=re.compile(r"\d+ new"))
    expect(button).to_be_visible()
    expect(page.locator("[data-row]").first).to_have_attribute("data-id", first or "")
    button.click()
    expect(page.locator("[data-row]").first).not_to_have_attribute("data-id", first or "")
    page.get_by_role("link", name="Next page").click()
    expect(page.get_by_text("operator put a policy in force")).to_be_visible()


def test_a_reviewer_is_not_offered_the_log_and_is_refused(console: ConsoleSite, page: Page) -> None:
    console.sign_in(page, console.bob)
    expect(page.get_by_role("navigation", name="Pages").get_by_role("link", name="Audit")).to_have_count(0)
    answer = page.goto(f"{console.url}/console/audit")
    assert answer is not None
    assert answer.status == 403
