"""Requests that no page of ours sends: each is answered with a plain word, under the policy of every page."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import httpx2
import pytest

from interlock.api.heads import read_headers
from tests.harness.console_site import ConsoleSite

FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def http(console: ConsoleSite) -> Iterator[httpx2.Client]:
    """Ann, signed in, with a client that sends what it is told to."""
    headers = {"origin": console.url, "accept": "text/html"}
    with httpx2.Client(base_url=console.url, headers=headers) as client:
        assert client.post("/console/sign-in", data={"api_key": console.ann}).status_code == 303
        yield client


def is_guarded(answer: httpx2.Response) -> bool:
    return "default-src 'none'" in answer.headers.get("content-security-policy", "")


@pytest.mark.parametrize("path", ["/console/inbox", "/console/sign-in"])
def test_too_many_fields_are_refused_in_a_query_and_in_a_form(http: httpx2.Client, path: str) -> None:
    many = "a&" * 2500
    asked = http.get(f"{path}?{many}")
    sent = http.post(path, content=many, headers={"content-type": FORM})
    for answer in (asked, sent):
        assert (answer.status_code, is_guarded(answer)) == (413, True)


def test_a_form_that_is_too_large_is_refused_under_the_policy_of_every_page(http: httpx2.Client) -> None:
    whole = b"a=" + b"x" * 3_000_000
    told = http.post("/console/inbox", content=whole, headers={"content-type": FORM})
    untold = http.post("/console/inbox", content=iter([whole]), headers={"content-type": FORM})
    for answer in (told, untold):
        assert (answer.status_code, is_guarded(answer)) == (413, True)
        assert "larger than" in answer.text


def test_without_a_session_no_more_is_read_than_signing_in_needs(console: ConsoleSite) -> None:
    """Also if the length is not told beforehand."""
    with httpx2.Client(base_url=console.url, headers={"origin": console.url}) as stranger:
        form = iter([b"api_key=" + b"x" * 20_000])
        answer = stranger.post("/console/sign-in", content=form, headers={"content-type": FORM})
        assert answer.status_code == 413


@pytest.mark.parametrize("index", ["%C2%B2", "9" * 5000, "-1", "00", "1"])
def test_evidence_that_is_not_there_is_not_found(
    console: ConsoleSite, http: httpx2.Client, index: str
) -> None:
    job = console.submit(evidence=[{"kind": "text", "title": "a", "content": "b"}])
    assert http.get(f"/console/approvals/{job.id}/evidence/{index}").status_code == 404
    assert http.get(f"/console/approvals/{job.id}/evidence/0").status_code == 200


@pytest.mark.parametrize(
    "to",
    [
        "/console/日本",
        "/console/é",
        "/console/../docs",
        "/console/%2E%2e/docs",
        "/console/a/..",
        "/console/./sign-in",
        "/console/sign-in?next=/console/sign-in",
        "/console/x\r\nset-cookie: a=b",
    ],
)
def test_after_sign_in_only_addresses_of_pages_are_followed(console: ConsoleSite, to: str) -> None:
    answer = httpx2.post(
        f"{console.url}/console/sign-in",
        headers={"origin": console.url},
        data={"api_key": console.ann, "next": to},
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/inbox")


@pytest.mark.parametrize(
    "beside",
    ['prefs={"a":1,"b":"c d"}', "my-interlock=1", "a b=c", "name=é", "föö=1", "path=/", "x", 'a="open'],
)
def test_cookies_of_other_applications_sign_nobody_out(http: httpx2.Client, beside: str) -> None:
    token = http.cookies["interlock"]
    http.cookies.clear()
    for sent in (f"{beside}; interlock={token}", f"interlock={token}; {beside}"):
        assert http.get("/console/inbox", headers={b"cookie": sent.encode()}).status_code == 200


def test_two_session_cookies_are_as_good_as_none(http: httpx2.Client) -> None:
    token = http.cookies["interlock"]
    http.cookies.clear()
    for sent in (f"interlock={token}; interlock=x", f"interlock=x;interlock={token}"):
        assert http.get("/console/inbox", headers={"cookie": sent}).status_code == 303


def test_cookies_that_come_in_several_headers_are_told_apart() -> None:
    """As browsers send them over HTTP/2."""
    assert read_headers([(b"cookie", b"a=b"), (b"cookie", b"interlock=c")]) == {"cookie": "a=b; interlock=c"}


@pytest.mark.parametrize("path", ["/", "/console/", "/console/inbox", "/console/static/console.css"])
@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE"])
def test_pages_answer_to_the_methods_of_browsers_alone(http: httpx2.Client, method: str, path: str) -> None:
    answer = http.request(method, path)
    assert (answer.status_code, is_guarded(answer)) == (405, True)
    assert "GET" in answer.headers["allow"]


def test_the_head_of_a_file_is_that_of_the_file(http: httpx2.Client) -> None:
    head, whole = http.head("/console/static/console.css"), http.get("/console/static/console.css")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]


@pytest.mark.parametrize("origin", ["null", "http://[::1", "http://", "", "http://evil.example"])
def test_an_origin_that_is_not_ours_does_nothing_however_it_is_spelled(
    console: ConsoleSite, http: httpx2.Client, origin: str
) -> None:
    answer = http.post("/console/sign-out", headers={"origin": origin, "referer": "http://[::1"})
    assert answer.status_code == 403
    assert http.get("/console/inbox").status_code == 200


def test_a_form_without_a_session_from_an_unreadable_page_leads_to_sign_in(console: ConsoleSite) -> None:
    headers = {"origin": console.url, "referer": "http://[::1"}
    answer = httpx2.post(f"{console.url}/console/inbox", headers=headers)
    assert (answer.status_code, answer.headers["location"][:16]) == (303, "/console/sign-in")


def test_a_head_that_cannot_be_read_is_refused_under_the_policy_of_every_page(console: ConsoleSite) -> None:
    with socket.create_connection(("127.0.0.1", console.server.port), timeout=10) as connection:
        twice = b"authorization: Bearer a\r\n" * 2
        connection.sendall(
            b"GET /console/inbox HTTP/1.1\r\nhost: x\r\nconnection: close\r\n" + twice + b"\r\n"
        )
        head = connection.recv(65536).partition(b"\r\n\r\n")[0].lower()
    assert b"http/1.1 4" in head
    assert b"default-src 'none'" in head
