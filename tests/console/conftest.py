"""A browser for every test of a page, and a company whose server it visits.

Each page below has a profile of its own; the test fails if it breaks the rules of `tests.harness.browser`. Tests that
use one are plain functions, and wait with `expect(…)`: a strict policy refuses `page.wait_for_function("text")`.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Error, Page

from tests.harness.browser import PHONE, Chromium, OpenPage
from tests.harness.console_site import Company, ConsoleSite, found_company

SHOWN_MAX = 6_000
_opened: list[Page] = []


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """The run's one browser. Take a page from the fixtures below."""
    chromium = Chromium().start()
    yield chromium
    chromium.close()


@pytest.fixture
def open_page(request: pytest.FixtureRequest, chromium: Chromium) -> Iterator[OpenPage]:
    """`open_page(color_scheme="dark", …)`: a page in a new profile, with Playwright's options of a context."""
    if inspect.iscoroutinefunction(request.function):
        pytest.fail("a test that uses the browser is a plain function, not async: Playwright's own loop runs")
    with chromium.attached() as open_one:

        def opened(**options: object) -> Page:
            _opened.append(open_one(**options))
            return _opened[-1]

        yield opened
    _opened.clear()


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    """A page on a desk: 1280 by 800, light."""
    return open_page()


@pytest.fixture
def dark_page(open_page: OpenPage) -> Page:
    """A page for somebody who prefers dark."""
    return open_page(color_scheme="dark")


@pytest.fixture(params=["light", "dark"])
def page_in_each_scheme(request: pytest.FixtureRequest, open_page: OpenPage) -> Page:
    """A light page, then a dark one: the test runs twice."""
    return open_page(color_scheme=request.param)


@pytest.fixture
def phone_page(open_page: OpenPage) -> Page:
    """A page on a phone, 360 px wide."""
    return open_page(viewport=PHONE, has_touch=True, is_mobile=True)


@pytest.fixture
def plain_page(open_page: OpenPage) -> Page:
    """A page without JavaScript."""
    return open_page(java_script_enabled=False)


@pytest.fixture
def two_pages(open_page: OpenPage) -> tuple[Page, Page]:
    """The pages of two people: neither sees the other's cookies."""
    return open_page(), open_page()


@pytest.fixture(scope="session")
def company(tmp_path_factory: pytest.TempPathFactory) -> Company:
    """The store that each test's server begins with."""
    return found_company(tmp_path_factory.mktemp("company") / "interlock.db")


@pytest.fixture
def console(company: Company, tmp_path: Path) -> Iterator[ConsoleSite]:
    """A server with people to sign in as: `console.sign_in(page, console.ann)`, `console.submit(25_000)`."""
    site = ConsoleSite(company, tmp_path)
    yield site.start()
    site.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show beside a failure what was on each open page, as a screen reader has it."""
    report = yield
    if report.failed and call.when == "call":
        for page in _opened:
            with contextlib.suppress(Error):
                shown = page.locator("body").aria_snapshot(timeout=2_000)[:SHOWN_MAX]
                report.sections.append((f"page {page.url}", shown))
    return report
