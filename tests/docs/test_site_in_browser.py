"""The built site in Chromium: readable in light and dark, wide and on a phone, searchable, with a choice of versions.

`attached()` fails a test whose pages ask any other host for anything.
"""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.browser import DESKTOP, HOST, PHONE, Chromium, OpenPage, audit_accessibility
from tools import site

PAGES = ("index.html", "howto/write-a-policy.html", "api/approvals.html", "sdk/client.html", "limits.html")


@pytest.fixture(scope="module")
def open_page() -> Iterator[OpenPage]:
    """`open_page(**options of a context)`, in a browser of this module."""
    chromium = Chromium().start()
    try:
        with chromium.attached() as opened:
            yield opened
    finally:
        chromium.close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - so it is called
        """Say nothing."""


@pytest.fixture(scope="module")
def address(built_site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the site is served, with an older version beside it that lacks a page."""
    folder = tmp_path_factory.mktemp("served") / "site"
    shutil.copytree(built_site, folder)
    shutil.copytree(folder / "1.2.0", folder / "1.1.0")
    (folder / "1.1.0" / "limits.html").unlink()
    site.list_versions(folder)
    server = http.server.ThreadingHTTPServer((HOST, 0), functools.partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://{HOST}:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_pages_are_readable(viewport: dict[str, int], scheme: str, address: str, open_page: OpenPage) -> None:
    page = open_page(viewport=viewport, color_scheme=scheme)
    for path in PAGES:
        page.goto(f"{address}/1.2.0/{path}")
        page.locator("h1").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        audit_accessibility(page, within="main")


def test_a_word_is_found(address: str, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(f"{address}/1.2.0/search.html?q=downstream_key")
    found = page.locator("#search-results a")
    found.filter(has_text="How to make a payment happen once").first.click()
    page.get_by_role("heading", name="How to make a payment happen once", level=1).wait_for()


def test_the_first_page_leads_to_the_newest_version(address: str, open_page: OpenPage) -> None:
    page = open_page()
    page.goto(address)
    page.wait_for_url("**/1.2.0/index.html")


@pytest.mark.parametrize(("page_name", "lands_on"), [("faq.html", "faq.html"), ("limits.html", "index.html")])
def test_choosing_a_version_leads_to_the_same_page_or_to_its_first(
    page_name: str, lands_on: str, address: str, open_page: OpenPage
) -> None:
    page = open_page()
    page.goto(f"{address}/1.2.0/{page_name}")
    page.locator(".site-versions select:visible").select_option("1.1.0")
    page.wait_for_url(f"**/1.1.0/{lands_on}")
