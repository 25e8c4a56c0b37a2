"""Signing in and out: who gets in, what the cookie is worth, and what another site can do with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from playwright.sync_api import Page, expect

from tests.harness.browser import OpenPage, audit_accessibility
from tests.harness.console_site import Company, ConsoleSite

PAGES = (
    "/console/inbox",
    "/console/jobs",
    "/console/board",
    "/console/conflicts",
    "/console/effects",
    "/console/grants",
    "/console/runs",
    "/console/workflows",
    "/console/policy",
    "/console/audit",
    "/console/traffic",
    "/console/deliveries",
    "/console/people",
    "/console/settings",
)


@pytest.fixture
def http(console: ConsoleSite) -> Iterator[httpx2.Client]:
    """A client without scripts that sends what a browser sends with a form of the console."""
    headers = {"origin": console.url, "accept": "text/html"}
    with httpx2.Client(base_url=console.url, headers=headers) as client:
        yield client


def signed_in(http: httpx2.Client, key: str) -> httpx2.Response:
    answer = http.post("/console/sign-in", data={"api_key": key})
    assert answer.status_code == 303, answer.text
    return answer


def test_without_a_session_every_page_leads_to_sign_in_and_back(http: httpx2.Client) -> None:
    for path in PAGES:
        answer = http.get(f"{path}?cursor=x")
        back = quote(f"{path}?cursor=x", safe="")
        assert (answer.status_code, answer.headers["location"]) == (303, f"/console/sign-in?next={back}")


def test_the_page_that_was_asked_for_comes_after_sign_in(console: ConsoleSite, page: Page) -> None:
    job = console.submit()
    page.goto(f"{console.url}/console/approvals/{job.id}")
    audit_accessibility(page)
    page.get_by_label("API key").fill(console.ann)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page).to_have_url(re.compile(f"/console/approvals/{job.id}"))


ELSEWHERE = ("https://evil.example/", "//evil.example", "/console/..//evil", "/\\evil", "javascript:evil")


@pytest.mark.parametrize("to", ELSEWHERE)
def test_sign_in_leads_to_pages_of_ours_alone(console: ConsoleSite, http: httpx2.Client, to: str) -> None:
    answer = http.post("/console/sign-in", data={"api_key": console.ann, "next": to})
    assert answer.headers["location"].startswith("/console/")
    assert "evil" not in answer.headers["location"]


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(
    console: ConsoleSite, http: httpx2.Client
) -> None:
    cookie = signed_in(http, console.ann).headers["set-cookie"]
    assert cookie.startswith("interlock=ses_")
    for flag in ("HttpOnly", "SameSite=Lax", "Path=/"):
        assert flag in cookie
    assert "Domain" not in cookie


def test_over_https_the_cookie_is_kept_for_this_host_alone(company: Company, tmp_path: Path) -> None:
    site = ConsoleSite(company, tmp_path, env={"INTERLOCK_TRUSTED_PROXIES": "127.0.0.1"}).start()
    try:
        headers = {
            "x-forwarded-proto": "https",
            "x-forwarded-for": "10.0.0.9",
            "sec-fetch-site": "same-origin",
        }
        answer = httpx2.post(f"{site.url}/console/sign-in", data={"api_key": site.ann}, headers=headers)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-interlock=ses_")
        assert "; Secure" in cookie
    finally:
        site.close()


def test_a_session_is_a_new_one_after_each_sign_in(console: ConsoleSite, http: httpx2.Client) -> None:
    first = signed_in(http, console.ann).headers["set-cookie"]
    second = signed_in(http, console.bob).headers["set-cookie"]
    assert first != second
    token = first.partition("=")[2].partition(";")[0]
    http.cookies.clear()
    assert http.get("/console/inbox", headers={"cookie": f"interlock={token}"}).status_code == 303


def test_a_cookie_that_was_planted_is_not_used(console: ConsoleSite, http: httpx2.Client) -> None:
    planted = "ses_" + "0" * 32 + "_planted"
    answer = http.post(
        "/console/sign-in", data={"api_key": console.ann}, headers={"cookie": f"interlock={planted}"}
    )
    assert planted not in answer.headers["set-cookie"]
    assert http.get("/console/inbox", headers={"cookie": f"interlock={planted}"}).status_code == 303


def test_what_was_stolen_is_worth_nothing_after_sign_out(console: ConsoleSite, http: httpx2.Client) -> None:
    signed_in(http, console.ann)
    stolen = {"cookie": f"interlock={http.cookies['interlock']}"}
    assert http.get("/console/inbox").status_code == 200
    assert http.post("/console/sign-out").status_code == 303
    http.cookies.clear()
    assert http.get("/console/inbox", headers=stolen).status_code == 303


def test_a_session_token_is_no_key(console: ConsoleSite, http: httpx2.Client) -> None:
    signed_in(http, console.ann)
    token = http.cookies["interlock"]
    for headers in ({"authorization": f"Bearer {token}"}, {"x-api-key": token}):
        assert httpx2.get(f"{console.url}/api/v1/jobs", headers=headers).status_code == 401


def test_a_session_ends_with_its_key_and_with_a_role_of_the_person(
    console: ConsoleSite, http: httpx2.Client
) -> None:
    signed_in(http, console.bob)
    admin = httpx2.Client(base_url=console.url, headers={"authorization": f"Bearer {console.ann}"})
    assert admin.put("/api/v1/principals/bob", json={"roles": ["submit"]}).status_code == 200
    assert http.get("/console/inbox").status_code == 303
    signed_in(http, console.bob)
    keys = admin.get("/api/v1/api-keys").json()["items"]
    mine = next(key["key_id"] for key in keys if key["principal"] == "bob")
    assert admin.post(f"/api/v1/api-keys/{mine}/revoke").status_code == 200
    assert http.get("/console/inbox").status_code == 303
    admin.close()


@pytest.mark.parametrize("who", ["billing_bot", "payouts"])
def test_only_people_sign_in(console: ConsoleSite, http: httpx2.Client, who: str) -> None:
    answer = http.post("/console/sign-in", data={"api_key": getattr(console, who)})
    assert answer.status_code == 403
    assert "Only people sign in" in answer.text


def test_guessing_is_slowed_down(console: ConsoleSite, http: httpx2.Client) -> None:
    answers = [http.post("/console/sign-in", data={"api_key": f"il_{n}"}) for n in range(11)]
    assert {each.status_code for each in answers[:10]} == {401}
    assert answers[10].status_code == 429
    assert int(answers[10].headers["retry-after"]) >= 1


FOREIGN = (
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "none"},
    {"sec-fetch-site": "cross-site", "origin": "SELF"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {},
)


@pytest.mark.parametrize("headers", FOREIGN)
def test_a_form_of_another_site_does_nothing(console: ConsoleSite, headers: dict[str, str]) -> None:
    job = console.submit()
    with httpx2.Client(base_url=console.url) as http:
        http.post("/console/sign-in", data={"api_key": console.ann}, headers={"origin": console.url})
        sent = {name: console.url if value == "SELF" else value for name, value in headers.items()}
        answer = http.post(f"/console/approvals/{job.id}/approve", data={"reason": "x"}, headers=sent)
        assert (answer.status_code, answer.json()["code"]) == (403, "cross_site")
    assert console.client(console.ann).get_job(job.id).state == "APPROVAL"


def test_no_page_is_shown_inside_another(console: ConsoleSite, http: httpx2.Client) -> None:
    signed_in(http, console.ann)
    for path in ("/console/inbox", "/console/sign-in?link=x", "/console/nowhere"):
        answer = http.get(path)
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"


def test_a_browser_goes_to_the_console_and_a_program_gets_links(console: ConsoleSite) -> None:
    browser = httpx2.get(f"{console.url}/", headers={"accept": "text/html,*/*"})
    assert (browser.status_code, browser.headers["location"]) == (303, "/console/")
    assert httpx2.get(f"{console.url}/").json()["openapi"] == "/openapi.json"


def test_a_link_signs_in_once(console: ConsoleSite, open_page: OpenPage) -> None:
    made = console.client(console.ann).make_sign_in_link()
    first, second = open_page(), open_page()
    for page in (first, second):
        page.goto(f"{console.url}{made.path}")
        page.get_by_role("button", name="Sign in", exact=True).click()
    expect(first.get_by_role("heading", name="Inbox", exact=True)).to_be_visible()
    expect(second.get_by_role("alert")).to_contain_text("used already")


def test_another_tenants_requests_are_not_there(console: ConsoleSite, http: httpx2.Client) -> None:
    job = console.submit()
    stranger = console.server.create_key("eve", kind="person", roles="review,admin", tenant="other")
    signed_in(http, stranger.key)
    for path in (f"/console/approvals/{job.id}", f"/console/jobs/{job.id}"):
        assert http.get(path).status_code == 404
    assert job.id not in http.get("/console/inbox?show=all").text


@pytest.mark.parametrize("how", ["ended", "role"])
def test_a_stream_tells_nothing_more_once_its_session_is_over(
    console: ConsoleSite, http: httpx2.Client, how: str
) -> None:
    signed_in(http, console.bob)
    admin = httpx2.Client(base_url=console.url, headers={"authorization": f"Bearer {console.ann}"})
    with http.stream("GET", "/console/events", timeout=30) as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("retry")
        if how == "ended":
            found = admin.get("/api/v1/sessions?all=true").json()["items"]
            mine = next(each["session_id"] for each in found if each["principal"] == "bob" and each["live"])
            assert admin.post(f"/api/v1/sessions/{mine}/end").status_code == 200
        else:
            assert admin.put("/api/v1/principals/bob", json={"roles": ["submit"]}).status_code == 200
        job = console.submit()
        assert job.id not in "".join(lines)
    admin.close()
