"""The deliveries page: where events go, what a receiver did not take, and secrets that are shown once."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.harness.browser import audit_accessibility
from tests.harness.console_site import Company, ConsoleSite

ENV = {
    "INTERLOCK_WEBHOOK_ALLOW_PRIVATE": "127.0.0.0/8",
    "INTERLOCK_WEBHOOK_ATTEMPTS_MAX": "1",
    "INTERLOCK_WEBHOOK_RETRY_BASE_SECONDS": "0.1",
}


class Receiver(ThreadingHTTPServer):
    """Takes events, or refuses them while `status` says so."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 204
        self.took = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/events"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(self.server.status)
        self.end_headers()
        self.server.took += self.server.status < 300

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def site(company: Company, tmp_path: Path) -> Iterator[ConsoleSite]:
    """A server that posts to this machine, and gives up after one attempt."""
    site = ConsoleSite(company, tmp_path, env=ENV)
    yield site.start()
    site.close()


def add(site: ConsoleSite, url: str) -> str:
    return site.client(site.ann).call("POST", "webhooks", body={"url": url})["id"]


def operator(site: ConsoleSite) -> str:
    """The key of somebody who operates and is no admin."""
    body = {"kind": "person", "roles": ["operate"]}
    return site.client(site.ann).call("POST", "principals", "olga", "keys", body=body)["key"]


def test_a_webhook_is_added_with_its_secret_shown_once(
    site: ConsoleSite, receiver: Receiver, plain_page: Page
) -> None:
    page = plain_page
    site.sign_in(page, site.ann)
    page.goto(f"{site.url}/console/deliveries")
    expect(page.get_by_text("Events go nowhere yet.")).to_be_visible()
    page.get_by_label("Address").fill(receiver.url)
    page.get_by_label("Types of events").fill("approval.*, Job.Denied")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("types")
    expect(page.get_by_label("Address")).to_have_value(receiver.url)
    page.get_by_label("Types of events").fill("approval.*, job.denied")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("The webhook was added")
    expect(page.get_by_role("group", name="Secret of")).to_contain_text("whsec_")
    page.get_by_role("link", name=receiver.url).click()
    expect(page.get_by_text("approval.*, job.denied")).to_be_visible()
    assert "whsec_" not in page.content()


def test_a_form_sent_twice_adds_one_webhook(site: ConsoleSite, receiver: Receiver, page: Page) -> None:
    site.sign_in(page, site.ann)
    page.goto(f"{site.url}/console/deliveries")
    page.get_by_label("Address").fill(receiver.url)
    page.get_by_role("button", name="Add", exact=True).click()
    secret = page.locator(".secret").inner_text()
    page.reload()
    expect(page.locator(".secret")).to_have_text(secret)
    assert len(site.client(site.ann).call("GET", "webhooks")["items"]) == 1


def test_a_webhook_is_tested_its_secret_rotated_and_it_is_removed(
    site: ConsoleSite, receiver: Receiver, page_in_each_scheme: Page
) -> None:
    page, webhook = page_in_each_scheme, add(site, receiver.url)
    site.sign_in(page, site.ann)
    page.goto(f"{site.url}/console/deliveries/{webhook}")
    page.get_by_role("button", name="Send a test event").click()
    expect(page.get_by_role("status")).to_contain_text("answered 204")
    receiver.status = 500
    page.get_by_role("button", name="Send a test event").click()
    expect(page.get_by_role("alert").filter(has_text="did not take")).to_contain_text("500")
    page.get_by_text("Rotate the secret").click()
    page.get_by_role("button", name="Make a new secret").click()
    expect(page.get_by_role("group", name="New secret")).to_contain_text("whsec_")
    audit_accessibility(page)
    expect(page.get_by_role("button", name="Remove")).to_be_hidden()
    page.get_by_text("Remove this webhook").click()
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_role("status")).to_contain_text("removed")
    expect(page.get_by_text("Events go nowhere yet.")).to_be_visible()
    audit_accessibility(page)


def test_a_dead_letter_is_shown_with_why_and_redelivered_by_an_operator(
    site: ConsoleSite, receiver: Receiver, page: Page
) -> None:
    webhook = add(site, receiver.url)
    receiver.status = 410
    job = site.submit()
    site.sign_in(page, operator(site))
    page.goto(f"{site.url}/console/deliveries")
    for name in ("Add", "Send a test event"):
        expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
    expect(page.get_by_role("row").filter(has_text=receiver.url)).to_contain_text("failing")
    page.get_by_role("link", name=receiver.url).click()
    expect(page.get_by_text("Remove this webhook")).to_have_count(0)
    expect(page.get_by_text("Rotate the secret")).to_have_count(0)
    button = page.get_by_role("button", name=re.compile(f"Redeliver .* of {job.id}")).first
    while not button.count():
        page.wait_for_timeout(200)
        page.reload()
    expect(page.get_by_role("region", name="Dead letters").get_by_text("410").first).to_be_visible()
    before = len(site.client(site.ann).call("GET", "webhooks", webhook, "dead-letters")["items"])
    receiver.status = 204
    button.click()
    expect(page.get_by_role("status")).to_contain_text("on its way again")
    for _ in range(100):
        left = site.client(site.ann).call("GET", "webhooks", webhook, "dead-letters")["items"]
        if len(left) < before and receiver.took:
            break
        page.wait_for_timeout(100)
    else:
        pytest.fail(f"the letter was not taken: {left}")


def test_many_webhooks_fit_a_phone_and_another_tenants_is_not_found(
    site: ConsoleSite, phone_page: Page
) -> None:
    page = phone_page
    for number in range(3):
        add(site, f"http://127.0.0.1:9/{'a-long-path-' * 12}{number}")
    site.sign_in(page, site.ann)
    page.goto(f"{site.url}/console/deliveries")
    expect(page.locator("[data-row]")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    answer = page.goto(f"{site.url}/console/deliveries/wh_{0:032x}")
    assert answer is not None
    assert answer.status == 404
