"""Every page with much on it: under the strict policy, read by everybody, on every screen, with and without scripts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Locator, Page, expect

import interlock.console
from interlock.cli.exits import Failed
from interlock.cli.main import find, parser_of
from interlock.console.pages import PAGES
from interlock.console.visit import Assets
from tests.console.busy_company import DEAD_AT_ONCE, call, lease, long_history
from tests.harness.browser import audit_accessibility
from tests.harness.console_site import Company, ConsoleSite

_OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
TEMPLATES = Path(interlock.console.__file__).parent / "templates"
STRICT = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "form-action": "'self'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "default",
}
# Evidence is shown in a frame of its own page, in which no script runs and no form is sent.
BOXED = {"sandbox": "", "default-src": "'none'", "style-src": "'self'", "frame-ancestors": "'self'"}
INLINE = re.compile(r"<script(?![^>]*\ssrc=)|<style|\sstyle\s*=|\son\w+\s*=|javascript:", re.IGNORECASE)
FORM = {"content-type": "application/x-www-form-urlencoded"}


class Busy(ConsoleSite):
    """A site with something for every page, and the addresses of those pages."""

    addresses: list[str]


@pytest.fixture(scope="module")
def busy(company: Company, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Busy]:
    site = Busy(company, tmp_path_factory.mktemp("busy"), env=DEAD_AT_ONCE)
    site.addresses = long_history(site.start())
    yield site
    site.close()


@pytest.fixture
def http(busy: Busy) -> Iterator[httpx2.Client]:
    headers = {"origin": busy.url, "accept": "text/html"}
    with httpx2.Client(base_url=busy.url, headers=headers, timeout=30) as client:
        assert client.post("/console/sign-in", data={"api_key": busy.ann}).status_code == 303
        yield client


def directives(answer: httpx2.Response) -> dict[str, str]:
    told = answer.headers.get("content-security-policy", "").split(";")
    return {name: value for name, _, value in (part.strip().partition(" ") for part in told)}


def check_strict(answer: httpx2.Response, what: str) -> None:
    policy = directives(answer)
    wanted = BOXED if "/evidence/" in what and answer.status_code == 200 else STRICT
    assert {name: policy.get(name) for name in wanted} == wanted, what
    assert not re.search(r"unsafe|\*|http|nonce|blob:", " ".join(policy.values())), what
    assert answer.headers["x-content-type-options"] == "nosniff", what
    assert answer.headers["x-frame-options"] in ("DENY", "SAMEORIGIN"), what
    if "text/html" in answer.headers.get("content-type", ""):
        assert not (found := INLINE.search(answer.text)), (what, found)


def test_every_answer_is_under_the_strict_policy(busy: Busy, http: httpx2.Client) -> None:
    """Pages, what is refused or not there, redirects, files, and answers to forms; signed in and not."""
    with httpx2.Client(base_url=busy.url, headers={"accept": "text/html"}) as stranger:
        for page in PAGES:
            path = re.sub(r"{\w+}", "1", page.path)
            for client in (http, stranger):
                if page.method == "GET" and not (client is http and path.endswith("/events")):
                    check_strict(client.get(path), f"GET {path}")
                    check_strict(client.head(path), f"HEAD {path}")
                    check_strict(client.get(path, headers={"hx-request": "true"}), f"part of {path}")
                check_strict(client.delete(path), f"DELETE {path}")
            if page.method == "POST" and path != "/console/sign-out":
                check_strict(http.post(path, content=b"a=b", headers=FORM), f"POST {path}")
                check_strict(stranger.post(path, content=b"a=b", headers=FORM), f"POST {path} from elsewhere")
        for address in busy.addresses:
            check_strict(http.get(address), address)
        files = [Assets().address(name) for name in Assets().files]
        for path in ("/", "/console", "/console/", "/console/nowhere", "/console/static/none.js", *files):
            check_strict(http.get(path), path)
        check_strict(http.get("/console/approvals/%ff"), "an address that cannot be read")
        check_strict(http.post("/console/inbox", content=b"{}"), "what is no form")
        with http.stream("GET", "/console/events") as stream:
            check_strict(stream, "the stream")


def test_axe_finds_nothing_serious(busy: Busy, page_in_each_scheme: Page) -> None:
    page = page_in_each_scheme
    page.goto(f"{busy.url}/console/sign-in")
    audit_accessibility(page)
    busy.sign_in(page, busy.ann)
    for address in (*busy.addresses, "/console/nowhere", "/console/policy?tab=observed"):
        page.goto(busy.url + address)
        for folded in page.locator("main details").all():
            folded.evaluate("details => { details.open = true }")
        audit_accessibility(page)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    audit_accessibility(page)


def test_axe_finds_nothing_serious_where_something_is_not_allowed(
    busy: Busy, page_in_each_scheme: Page
) -> None:
    page = page_in_each_scheme
    busy.sign_in(page, busy.mia)
    for name in ("settings", "audit", "deliveries"):
        page.goto(f"{busy.url}/console/{name}")
        expect(page.get_by_role("heading", level=1)).to_have_text("Not allowed")
        audit_accessibility(page)


def test_nothing_is_wider_than_a_phone(busy: Busy, phone_page: Page) -> None:
    busy.sign_in(phone_page, busy.ann)
    menu = phone_page.get_by_role("navigation", name="Pages", exact=True)
    for address in busy.addresses:
        phone_page.goto(busy.url + address)
        expect(phone_page.get_by_role("heading", level=1)).to_be_visible()
        assert phone_page.evaluate(_OVERFLOW) == 0, address
        expect(menu.locator("[aria-current]"), address).to_be_in_viewport()


def test_without_scripts_a_page_has_all_it_has_with_them(busy: Busy, page: Page, plain_page: Page) -> None:
    """The same headings, links, rows and forms; a chart says what a table beside it says."""
    for each in (page, plain_page):
        busy.sign_in(each, busy.ann)
    for address in busy.addresses:
        found: list[list[str]] = []
        for each in (page, plain_page):
            each.goto(busy.url + address)
            main = each.locator("main")
            found.append(
                [
                    *(re.sub(r"\?cursor=.*", "", link) for link in _all(main, "a[href]", "href")),
                    *_all(main, "form, button[formaction]", "outerHTML.split('>')[0]"),
                    *_all(main, "h1, h2, h3, th", "textContent"),
                    str(len(_all(main, "[data-row]", "id"))),
                ]
            )
        with_scripts, without = found
        assert without == with_scripts, address
        expect(plain_page.get_by_role("heading", level=1)).to_be_visible()


def _all(main: Locator, selector: str, what: str) -> list[str]:
    told = "all.filter(each => !each.closest('#chart')).map(each => String(each." + what + "))"
    return main.locator(selector).evaluate_all(f"all => {told}")


def test_names_without_a_space_are_not_wider_than_a_phone(console: ConsoleSite, phone_page: Page) -> None:
    long, page = "W" * 180, phone_page
    target = {"key": f"t:{long}", "version": "v" * 100}
    evidence = [{"kind": "text", "title": long, "content": long, "url": f"https://example.com/{long}"}]
    payload = {"amount_cents": 25_000, "currency": "EUR", "to": long, long: {long: long}}
    job = console.submit(payload=payload, target=target, evidence=evidence)
    call(console, console.ann, "POST", "approvals", job.id, "comment", text=long)
    held = lease(console, console.payouts, f"r:{long}", purpose=long)
    hook = call(console, console.ann, "POST", "webhooks", url=f"https://example.com/{long}")
    call(console, console.ann, "POST", "principals", "n" * 100, "keys", kind="person", roles=["review"])
    console.sign_in(page, console.ann)
    one = f"approvals/{job.id}"
    pages = (one, f"{one}/edit", f"{one}/evidence/0", f"jobs/{job.id}", f"board/{held['lease_id']}", "audit")
    for address in (*pages, f"deliveries/{hook['id']}", f"people/{'n' * 100}"):
        page.goto(f"{console.url}/console/{address}")
        for folded in page.locator("main details").all():
            folded.evaluate("details => { details.open = true }")
        assert page.evaluate(_OVERFLOW) == 0, address


def test_rows_are_walked_and_opened_with_keys(busy: Busy, page: Page) -> None:
    busy.sign_in(page, busy.ann)
    for name in ("jobs", "board", "conflicts", "effects", "grants", "runs", "deliveries"):
        page.goto(f"{busy.url}/console/{name}")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(page.get_by_role("navigation", name="Pages").get_by_role("link", name=name)).to_have_attribute(
            "aria-current", "page"
        )
        expect(page).not_to_have_url(f"{busy.url}/console/{name}")


# Every list that can be empty.
EMPTY = (
    "inbox", "inbox?show=all", "inbox?q=nothing", "jobs", "jobs?state=FAILED", "jobs?q=nothing", "board",
    "conflicts", "conflicts?state=resolved", "effects", "effects?state=COMMITTED", "grants", "runs",
    "workflows", "policy?tab=observed", "audit?actor=nobody", "traffic", "deliveries",
)  # fmt: skip


def test_a_list_without_anything_says_what_to_do(console: ConsoleSite) -> None:
    """In words that are more than "nothing": a link, or a command to type."""
    with httpx2.Client(base_url=console.url, headers={"origin": console.url}) as http:
        http.post("/console/sign-in", data={"api_key": console.ann})
        for name in EMPTY:
            text = http.get(f"/console/{name}").text
            said = re.search(r'<div class="empty"><p>(.+?)</p>(.*?)</div>', text, re.DOTALL)
            assert said, name
            assert re.search(r"<a |<code>", said[2]), (name, said[2])


def commands() -> list[str]:
    """Every command that a page names."""
    shown = "".join(each.read_text() for each in sorted(TEMPLATES.glob("*.html")))
    return sorted({unescape(each) for each in re.findall(r"<code>(interlock [^<]+)</code>", shown)})


@pytest.mark.parametrize("command", commands())
def test_a_command_that_a_page_names_exists(command: str) -> None:
    _, name, *words = shlex.split(re.sub(r"{{.+?}}", "1", command).replace("{…}", "{}"))
    entry = find(name)
    assert entry, command
    if name == "exec":
        return  # what follows is another command
    try:
        parser_of(entry).parse_args(words)
    except SystemExit:
        return  # it printed its help
    except Failed as failed:
        # A command that is only mentioned stands without what it takes.
        is_mention = len(words) < 2 and "missing: " in str(failed)
        if not is_mention:
            raise
