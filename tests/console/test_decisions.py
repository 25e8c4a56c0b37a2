"""What a person needs for a decision is on the page, and what comes of it is told, however they decide."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from interlock import Job
from tests.harness.browser import PHONE, OpenPage
from tests.harness.console_site import POLICY, ConsoleSite

GRACE = POLICY.replace("quorum: 1,", "quorum: 1, grace: 2m,")


def opened(console: ConsoleSite, page: Page, key: str, job_id: str) -> None:
    console.sign_in(page, key)
    page.goto(f"{console.url}/console/approvals/{job_id}")


@pytest.mark.parametrize("viewport", [{"width": 1280, "height": 720}, PHONE], ids=["desk", "phone"])
def test_the_first_screen_says_what_who_for_whom_what_then_and_until_when(
    console: ConsoleSite, open_page: OpenPage, viewport: dict[str, int]
) -> None:
    page = open_page(viewport=viewport)
    job = console.submit()
    opened(console, page, console.ann, job.id)
    promise = page.get_by_role("region", name="What approve will do")
    for said in (
        page.get_by_role("heading", level=1, name="Pays 250.00 EUR to Acme in production"),
        page.get_by_text("asked by billing-bot for mia"),
        promise.get_by_text("A worker can at once take it, with exactly this payload."),
        promise.get_by_text(re.compile("in 23 h 59 min")),
        page.get_by_role("button", name="Approve", exact=True),
        page.get_by_role("button", name="Reject", exact=True),
    ):
        expect(said).to_be_in_viewport(ratio=1)
    assert page.evaluate("scrollY") == 0


def test_who_must_agree_too_and_who_takes_it_is_said(console: ConsoleSite, page: Page) -> None:
    held = console.submit(5_000)
    console.client(console.payouts).claim_jobs(["finance.**"])
    assert console.client(console.ann).get_job(held.id).leased_by == "payouts"
    console.client(console.ann).apply_policy(POLICY.replace("quorum: 1,", "quorum: 2,"))
    job = console.submit()
    opened(console, page, console.ann, job.id)
    promise = page.get_by_role("region", name="What approve will do")
    expect(promise).to_contain_text("After you, one more person of finance must agree before it runs.")
    expect(promise).to_contain_text("Worker payouts can then take it, with exactly this payload.")
    console.client(console.bob).approve(job.id)
    expect(promise).to_contain_text("Yours is the last of the 2 approvals that it needs.")
    expect(promise).to_contain_text("Worker payouts can at once take it")


def test_the_timeline_tells_the_whole_life_of_a_request(console: ConsoleSite, page: Page) -> None:
    escalating = "quorum: 2, escalate: [{after: 1s, groups: [leads]}],"
    console.client(console.ann).apply_policy(POLICY.replace("quorum: 1,", escalating))
    job = console.submit()
    opened(console, page, console.ann, job.id)
    timeline = page.get_by_role("region", name="Timeline")
    expect(timeline).to_contain_text("Interlock notified leads too")
    console.client(console.bob).approve(job.id, reason="matches the order")
    expect(timeline).to_contain_text("bob said yes")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(timeline).to_contain_text("ann approved it")
    (held,) = console.client(console.payouts).claim_jobs(["finance.**"])
    console.client(console.payouts).complete_job(held.id, held.fence, {"paid": True})
    expect(timeline).to_contain_text("payouts finished it")
    order = (
        "billing-bot submitted it",
        "Interlock notified finance",
        "ann opened it",
        "bob said yes",
        "ann approved it",
        "payouts took it",
        "payouts finished it",
    )
    text = timeline.inner_text().replace("\n", " ")
    assert re.search(".*".join(order), text), text


def test_a_question_goes_back_to_the_submitter_and_its_answer_appears(
    console: ConsoleSite, page: Page
) -> None:
    job = console.submit()
    opened(console, page, console.ann, job.id)
    page.get_by_label("Comment or question").fill("Is it the invoice of last month?")
    page.get_by_role("button", name="Ask the submitter").click()
    expect(page.get_by_role("status")).to_contain_text("Your question was sent to the submitter")
    discussion = page.get_by_role("region", name="Discussion")
    expect(discussion).to_contain_text("open question")
    other = page.context.new_page()
    other.goto(f"{console.url}/console/inbox")
    expect(other.get_by_text("1 open question")).to_be_visible()
    console.client(console.billing_bot).comment(job.id, "No, that was inv-1998.")
    expect(discussion).to_contain_text("No, that was inv-1998.")
    expect(discussion).not_to_contain_text("open question")


@pytest.mark.parametrize("javascript", [True, False], ids=["keys", "plain"])
def test_a_decision_is_undone_where_it_is_told(
    console: ConsoleSite, page: Page, plain_page: Page, javascript: bool
) -> None:
    page = page if javascript else plain_page
    console.client(console.ann).apply_policy(GRACE)
    job = console.submit()
    opened(console, page, console.ann, job.id)
    page.get_by_role("button", name="Approve", exact=True).click()
    status = page.get_by_role("status")
    expect(status).to_contain_text("Approved by ann")
    expect(status).to_contain_text("No worker gets it before then")
    if javascript:
        page.keyboard.press("u")
    else:
        status.get_by_role("button", name="Undo").click()
    expect(status).to_contain_text("You withdrew your yes")
    assert console.client(console.ann).get_job(job.id).state == "APPROVAL"


def _policy_changes(console: ConsoleSite, job: Job) -> None:
    console.client(console.ann).apply_policy(POLICY.replace("10000", "20000"))


def _target_moves(console: ConsoleSite, job: Job) -> None:
    console.client(console.payouts).touch("invoice:17", "2", summary="paid elsewhere")


def _bob_rejects(console: ConsoleSite, job: Job) -> None:
    console.client(console.bob).reject(job.id, reason="not ours")


def _bob_edits(console: ConsoleSite, job: Job) -> None:
    console.client(console.bob).edit(job.id, {"amount_cents": 26_000}, reason="typo")


def _the_submitter_cancels(console: ConsoleSite, job: Job) -> None:
    console.client(console.billing_bot).cancel_job(job.id, reason="not needed")


@pytest.mark.parametrize(
    ("meanwhile", "code", "says"),
    [
        (_policy_changes, "snapshot_changed", "policy"),
        (_target_moves, "target_changed", "invoice:17"),
        (_bob_rejects, "already_rejected", "bob"),
        (_bob_edits, "hash_mismatch", "changed"),
        (_the_submitter_cancels, "not_actionable", "CANCELLED"),
    ],
)
def test_a_decision_that_comes_too_late_says_why_and_decides_nothing(
    console: ConsoleSite,
    plain_page: Page,
    meanwhile: Callable[[ConsoleSite, Job], None],
    code: str,
    says: str,
) -> None:
    """Without scripts the page does not know: the answer to the form tells."""
    job = console.submit(target={"key": "invoice:17", "version": "1"})
    opened(console, plain_page, console.ann, job.id)
    meanwhile(console, job)
    before = console.client(console.ann).get_job(job.id).state
    with plain_page.expect_response(re.compile("/approve$")) as answered:
        plain_page.get_by_role("button", name="Approve", exact=True).click()
    assert answered.value.status == 409
    expect(plain_page.get_by_role("alert")).to_contain_text(code)
    expect(plain_page.get_by_role("alert")).to_contain_text(says)
    assert console.client(console.ann).get_job(job.id).state == before


def _png() -> str:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(b"".join(b"\0" + b"\x20\x60\xa0" * 8 for _ in range(8))))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + head + body + chunk(b"IEND", b"")).decode()


_SVG = (
    "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9' onload='top.owned=1'>"
    "<script>top.owned=1</script></svg>"
)
EVIDENCE = [
    {"title": "A text", "kind": "text", "content": "<script>top.owned=1</script> line one\nline \u202etwo"},
    {
        "title": "Words",
        "kind": "markdown",
        "content": "# Why\n<img src='x' onerror='top.owned=1'> **bold** [a link](https://example.com/x) "
        "[bad](javascript:top.owned=1) ![away](https://example.com/pixel.png)",
    },
    {"title": "A page", "kind": "html", "content": "<b onclick=top.owned=1>not run</b>"},
    {"title": "Facts", "kind": "json", "content": json.dumps({"order": 1177, "of": ["a", {"deep": "<i>"}]})},
    {"title": "A picture", "kind": "image/png", "content": f"data:image/png;base64,{_png()}"},
    {
        "title": "A drawing",
        "kind": "image/svg+xml",
        "content": f"data:image/svg+xml;base64,{base64.b64encode(_SVG.encode()).decode()}",
    },
    {"title": "Elsewhere", "kind": "link", "url": "https://example.com/invoice/17"},
    {"title": "Bad", "kind": "link", "url": "https://xn--mnchen-3ya.example/"},
]


def test_evidence_of_each_kind_is_shown_in_a_sandbox_and_runs_nothing(
    console: ConsoleSite, page: Page
) -> None:
    job = console.submit(evidence=EVIDENCE)
    opened(console, page, console.ann, job.id)
    region = page.get_by_role("region", name="Evidence", exact=True)
    assert region.locator("iframe").evaluate_all("all => all.map(each => each.getAttribute('sandbox'))") == [
        ""
    ] * (len(EVIDENCE) - 2)

    def box(title: str) -> Locator:
        return page.frame_locator(f"iframe[title='Evidence: {title}']").locator("body")

    expect(box("A text")).to_contain_text("<script>top.owned=1</script> line one")
    expect(box("A text")).to_contain_text("\\u202etwo")
    expect(box("Words").get_by_role("heading", name="Why")).to_be_visible()
    expect(box("Words")).to_contain_text("<img src='x' onerror='top.owned=1'>")
    expect(box("Words")).to_contain_text("a link (goes to example.com)")
    expect(box("Words").locator("img, [href^=javascript]")).to_have_count(0)
    expect(box("A page")).to_contain_text("<b onclick=top.owned=1>not run</b>")
    expect(box("Facts").get_by_role("row", name=re.compile("order 1177"))).to_be_visible()
    expect(box("Facts")).to_contain_text("<i>")
    expect(box("A picture").get_by_role("img", name="A picture")).to_have_js_property("naturalWidth", 8)
    expect(box("A drawing").get_by_role("img", name="A drawing")).to_have_js_property("naturalWidth", 9)
    link = region.get_by_role("link", name="https://example.com/invoice/17")
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(region).to_contain_text("goes to example.com")
    assert page.evaluate("window.owned") is None
    for number in range(len(EVIDENCE) - 2):
        page.goto(f"{console.url}/console/approvals/{job.id}/evidence/{number}")
        assert page.evaluate("window.owned") is None


def test_keys_walk_search_help_and_the_first_request_are_one_press_away(
    console: ConsoleSite, page: Page
) -> None:
    first, second = console.submit(), console.submit(30_000)
    console.sign_in(page, console.ann)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search", exact=True).first).to_be_focused()
    page.keyboard.press("Escape")
    for _ in range(2):
        page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.get_by_role("link", name="Pays 250.00 EUR")).to_be_focused()
    page.reload()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(first.id))
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile(second.id))
    page.keyboard.press("k")
    expect(page).to_have_url(re.compile(first.id))
    page.keyboard.press("a")
    expect(page.get_by_role("status")).to_contain_text("You approved it")


def test_a_selection_is_made_and_decided_with_keys(console: ConsoleSite, page: Page) -> None:
    jobs = [console.submit(amount) for amount in (25_000, 30_000, 35_000)]
    console.sign_in(page, console.ann)
    page.keyboard.press("a")  # nothing is selected, so nothing is offered
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("a")
    expect(page.get_by_role("status")).to_contain_text("What became of your selection")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("r")
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("not ours")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("rejected")
    states = [console.client(console.ann).get_job(each.id).state for each in jobs]
    assert states == ["PENDING", "DENIED", "APPROVAL"]
