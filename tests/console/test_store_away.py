"""The store goes away under open pages: they stay and say so, nothing is decided, and they catch up by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Page, expect

from interlock.console.pages import PAGES
from tests.harness.browser import audit_accessibility
from tests.harness.console_site import ConsoleSite, found_company
from tests.harness.postgres import PostgresServer

SINCE = re.compile(r"The store does not answer\. Since \d{1,2}:\d\d:\d\d")
# A page finds out within seconds; a loaded machine may take longer to say so.
NOTICED_MS = 40_000
# Pages that need nothing from the store unless somebody is signed in.
_PUBLIC = {page.path for page in PAGES if page.public}


@pytest.fixture
def site(private_postgres: PostgresServer, tmp_path: Path) -> Iterator[ConsoleSite]:
    """The company on a PostgreSQL of its own."""
    store = private_postgres.create_database()
    company = found_company(tmp_path / "company.db", store)
    env = {"INTERLOCK_ACQUIRE_SECONDS": "0.5"}
    site = ConsoleSite(company, tmp_path, store=store, env=env)
    yield site.start()
    site.close()


def test_open_pages_stay_and_say_since_when_and_catch_up_by_themselves(
    site: ConsoleSite, private_postgres: PostgresServer, page: Page
) -> None:
    job = site.submit()
    site.sign_in(page, site.ann)
    request, settings = page.context.new_page(), page.context.new_page()
    request.goto(f"{site.url}/console/approvals/{job.id}")
    request.get_by_label("Reason").first.fill("as agreed")
    settings.goto(f"{site.url}/console/settings")  # a page with no part that is renewed

    private_postgres.stop()
    for each in (page, request, settings):
        expect(each.get_by_role("alert").filter(has_text=SINCE)).to_be_visible(timeout=NOTICED_MS)
    expect(page.get_by_role("link", name="Pays 250.00 EUR to Acme in production")).to_be_visible()
    expect(request.get_by_role("heading", level=1)).to_contain_text("Pays 250.00 EUR to Acme")
    expect(request.get_by_label("Reason").first).to_have_value("as agreed")
    audit_accessibility(request)

    private_postgres.start()
    for each in (page, request, settings):
        expect(each.get_by_role("alert").filter(has_text=SINCE)).to_be_hidden(timeout=NOTICED_MS)
    expect(request.get_by_label("Reason").first).to_have_value("as agreed")
    site.submit(990_000)
    expect(page.get_by_text("Pays 9,900.00 EUR to Acme in production")).to_be_visible(timeout=NOTICED_MS)
    request.get_by_role("button", name="Approve", exact=True).first.click()
    expect(request.get_by_role("status").first).to_contain_text("You approved it")


def test_a_paused_page_says_so_too_and_still_does_not_move(
    site: ConsoleSite, private_postgres: PostgresServer, page: Page
) -> None:
    site.submit()
    site.sign_in(page, site.ann)
    page.get_by_role("button", name="live").click()
    private_postgres.stop()
    expect(page.get_by_role("alert").filter(has_text=SINCE)).to_be_visible(timeout=NOTICED_MS)
    private_postgres.start()
    expect(page.get_by_role("alert").filter(has_text=SINCE)).to_be_hidden(timeout=NOTICED_MS)
    site.submit(990_000)
    expect(page.get_by_text("Pays 9,900.00 EUR")).to_have_count(0)
    page.get_by_role("button", name="paused").click()
    expect(page.get_by_text("Pays 9,900.00 EUR to Acme in production")).to_be_visible(timeout=NOTICED_MS)


def test_every_page_answers_503_and_says_since_when(
    site: ConsoleSite, private_postgres: PostgresServer
) -> None:
    with _browser(site) as browser, _browser(site) as stranger:
        assert _sent(browser, "/console/sign-in", api_key=site.ann).status_code == 303
        private_postgres.stop()
        gets = sorted({page.path for page in PAGES if page.method == "GET"} - _PUBLIC)
        for path in [*map(_filled, gets), "/console/sign-in"]:
            _check_away(browser.get(path), path)
        assert "The store has been unreachable since" in browser.get("/console/jobs").text
        static = re.search(r'/console/static/[^"]+', browser.get("/console/jobs").text)
        since = _since(browser.get("/console/jobs").text)
        assert static, "the page of an outage has its looks"
        assert browser.get(static[0]).status_code == 200
        assert browser.get("/healthz").status_code == 200
        assert _since(browser.get("/console/jobs").text) == since, "a file is no sign that the store is back"
        assert stranger.get("/console/sign-in").status_code == 200, "the form itself needs no store"
        _check_away(_sent(stranger, "/console/sign-in", api_key=site.ann), "signing in")
        _check_away(_sent(browser, "/console/sign-out"), "signing out")
        private_postgres.start()
        site.server.wait_until_ready()
        assert browser.get("/console/inbox").status_code == 200, "the session outlives the outage"


def test_a_form_without_scripts_is_answered_with_a_page_and_decides_nothing(
    site: ConsoleSite, private_postgres: PostgresServer, plain_page: Page
) -> None:
    job = site.submit()
    page = plain_page
    site.sign_in(page, site.ann)
    page.goto(f"{site.url}/console/approvals/{job.id}")
    private_postgres.stop()
    with page.expect_response(re.compile("/approve$")) as answered:
        page.get_by_role("button", name="Approve", exact=True).first.click()
    assert answered.value.status == 503
    assert int(answered.value.headers["retry-after"]) >= 1
    expect(page.get_by_role("alert").first).to_contain_text("The store has been unreachable since")
    private_postgres.start()
    site.server.wait_until_ready()
    assert site.client(site.ann).get_job(job.id).state == "APPROVAL"
    page.get_by_role("link", name="Try again").click()
    expect(page.get_by_role("link", name="Pays 250.00 EUR to Acme in production")).to_be_visible()


def _browser(site: ConsoleSite) -> httpx2.Client:
    headers = {"origin": site.url, "accept": "text/html"}
    return httpx2.Client(base_url=site.url, headers=headers, timeout=60)


def _sent(client: httpx2.Client, path: str, **form: str) -> httpx2.Response:
    return client.post(path, data=form, headers={"sec-fetch-site": "same-origin"})


def _check_away(answer: httpx2.Response, what: str) -> None:
    assert answer.status_code == 503, (what, answer.status_code, answer.headers.get("location"))
    assert int(answer.headers["retry-after"]) >= 1, what
    assert 'role="alert"' in answer.text, what
    assert "The store has been unreachable since" in answer.text, what


def _since(text: str) -> str:
    found = re.search(r'unreachable since .*?datetime="([^"]+)"', text)
    assert found, text
    return found[1]


def _filled(path: str) -> str:
    return re.sub(r"{\w+}", "1", path)
