"""Debian's Chromium, driven by Playwright: one for the run, a fresh profile for each person in each test.

No page may break its own Content-Security-Policy, raise an error that nobody caught, crash, or ask any machine but
127.0.0.1 for anything. Whatever a test is about, it fails if a page did one of these.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    BrowserContext,
    ConsoleMessage,
    Error,
    Locator,
    Page,
    Request,
    WebSocket,
    expect,
    sync_playwright,
)

from tests.harness.debian_programs import installed
from tests.harness.processes import descendants, is_running
from tests.harness.reaper import reaper

HOST = "127.0.0.1"
# Long enough for a loaded machine; a test that passes never waits for it.
PATIENCE_MS = 15_000
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 740}
ARGUMENTS = (
    # What a page asks of another host fails inside the browser: nothing leaves this machine.
    f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {HOST}",
    # A container's /dev/shm may be too small for it.
    "--disable-dev-shm-usage",
)
NODES_SHOWN = 5
SERIOUS = frozenset({"serious", "critical"})
# Chromium names the policy, or Trusted Types, in each console message about a violation.
_POLICY_WORDS = re.compile(r"Content[ -]Security[ -]Policy|Trusted ?(Type|HTML|Script)", re.IGNORECASE)
_LOCAL_SCHEMES = frozenset({"about", "blob", "data"})
_REPORT = "__interlock_test_report"
_LISTEN = f"""
addEventListener('securitypolicyviolation', event => {_REPORT}(
    `${{event.effectiveDirective}} refused ${{event.blockedURI}} ${{event.sample}} at ` +
    `${{event.sourceFile}}:${{event.lineNumber}}`), true);
"""
# All pages read one clock, this machine's.
_CLICK_AT = "(element, moment) => { setTimeout(() => element.click(), moment - Date.now()); }"
CLICK_LEAD_MS = 500

OpenPage = Callable[..., Page]


class Chromium:
    """One browser process, which every test of the run shares. `start()` before use, `close()` after.

    Playwright's blocking calls mark an event loop of their own as running in this thread. It is marked only while a
    test is `attached()`, because meanwhile no other loop can run here, and asynchronous tests need one.
    """

    def start(self) -> Chromium:
        """Start the browser."""
        reaper()  # Started now, it is not among the processes counted below.
        before = set(descendants(os.getpid()))
        chromium = installed("chromium")
        self.folder = Path(tempfile.mkdtemp(prefix="interlock-browser-"))
        reaper().remove(self.folder)
        with _temporary_files_in(self.folder):
            self._playwright = sync_playwright().start()
        self._loop = asyncio._get_running_loop()
        try:
            self._browser = self._playwright.chromium.launch(
                executable_path=chromium.program,
                env={**chromium.env()},
                args=ARGUMENTS,
                chromium_sandbox=False,  # Chromium refuses to run as root with it; the pages are our own.
            )
        except Error:
            self._playwright.stop()
            raise
        finally:
            asyncio._set_running_loop(None)
        expect.set_options(timeout=PATIENCE_MS)
        self._pids = [pid for pid in descendants(os.getpid()) if pid not in before and is_running(pid)]
        for pid in self._pids:
            reaper().watch(pid)
        return self

    def close(self) -> None:
        """End it."""
        asyncio._set_running_loop(self._loop)
        self._browser.close()
        self._playwright.stop()
        asyncio._set_running_loop(None)
        for pid in self._pids:
            reaper().forget(pid)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def pids(self) -> Sequence[int]:
        """The processes that were started: Playwright's driver, and the browser."""
        return tuple(self._pids)

    @contextlib.contextmanager
    def attached(self) -> Iterator[OpenPage]:
        """Gives `open_page(**options of a context)`; at the end it fails if a page did what none may do."""
        assert asyncio._get_running_loop() is None, (
            "a test that uses the browser is a plain function, not async"
        )
        asyncio._set_running_loop(self._loop)
        watched: list[WatchedContext] = []

        def open_page(**options: Any) -> Page:
            watched.append(WatchedContext(self._browser.new_context(**_usual(options))))
            return watched[-1].context.new_page()

        try:
            yield open_page
            offences = [offence for each in watched for offence in each.offences()]
            assert not offences, "pages did what none may do:\n" + "\n".join(offences)
        finally:
            for each in watched:
                each.context.close()
            asyncio._set_running_loop(None)


class WatchedContext:
    """A profile of its own (cookies, storage, cache), and what its pages did that none may do."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self._offences: list[str] = []
        context.set_default_timeout(PATIENCE_MS)
        # Violations are told twice: the event names the place; the console also works without JavaScript.
        context.expose_binding(
            _REPORT, lambda source, text: self._note("CSP violation", source["page"].url, text)
        )
        context.add_init_script(_LISTEN)
        context.on("console", self._heard)
        context.on("weberror", lambda error: self._note("page error", _url_of(error.page), str(error.error)))
        context.on("request", self._asked)
        context.on("page", self._opened)

    def offences(self) -> list[str]:
        """One line for each offence so far, each once."""
        for page in self.context.pages:
            with contextlib.suppress(Error):
                page.evaluate("0")  # What the page has told until now arrives before this answer.
        return list(dict.fromkeys(self._offences))

    def _note(self, kind: str, url: str, text: str) -> None:
        self._offences.append(f"- {kind} on {url}: {text}")

    def _heard(self, message: ConsoleMessage) -> None:
        if _POLICY_WORDS.search(message.text):
            self._note("CSP violation (console)", _url_of(message.page), message.text)

    def _asked(self, request: Request) -> None:
        self._check_host(request.url, request.resource_type)

    def _opened(self, page: Page) -> None:
        page.on("crash", lambda _: self._note("crash", page.url, "the page's process ended"))
        page.on("websocket", self._connected)

    def _connected(self, socket: WebSocket) -> None:
        self._check_host(socket.url, "websocket")

    def _check_host(self, url: str, what: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _LOCAL_SCHEMES and parts.hostname != HOST:
            self._offences.append(f"- request to another host ({what}): {url}")


def audit_accessibility(page: Page, *, within: str | None = None) -> None:
    """Fail if axe finds anything serious or critical on the page as it is now, or in the part that `within` selects.

    Axe looks at every element: a page of 10,000 rows takes it many seconds, and a few rows say the same.
    """
    found = Axe().run(page, context=within).response["violations"]
    serious = [finding for finding in found if finding["impact"] in SERIOUS]
    assert not serious, f"axe finds on {page.url}:\n" + "\n".join(map(_readable, serious))


def click_together(*buttons: Locator) -> int:
    """Have each of them clicked, on whichever page, at one moment soon; returns the moment (Unix, milliseconds)."""
    for button in buttons:
        button.wait_for(state="visible")
    moment = max(int(button.page.evaluate("Date.now()")) for button in buttons) + CLICK_LEAD_MS
    for button in buttons:
        button.evaluate(_CLICK_AT, moment)
    return moment


@contextlib.contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """A process started meanwhile keeps its temporary files there: a driver that is killed leaves profiles behind."""
    usual = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(folder)
    try:
        yield
    finally:
        del os.environ["TMPDIR"]
        if usual is not None:
            os.environ["TMPDIR"] = usual


def _usual(options: dict[str, Any]) -> dict[str, Any]:
    usual = {"viewport": DESKTOP, "color_scheme": "light", "reduced_motion": "reduce"}
    return usual | {"locale": "en-GB", "timezone_id": "UTC"} | options


def _url_of(page: Page | None) -> str:
    return page.url if page else "a page that is gone"


def _readable(finding: dict[str, Any]) -> str:
    """What is wrong, where, and how to put it right."""
    lines = [f"- {finding['impact']}: {finding['help']} ({finding['id']})"]
    for node in finding["nodes"][:NODES_SHOWN]:
        why = " ".join(node["failureSummary"].split())
        lines += [f"    {' '.join(map(str, node['target']))}: {node['html'][:200]}", f"        {why}"]
    if (more := len(finding["nodes"]) - NODES_SHOWN) > 0:
        lines.append(f"    and {more} more")
    return "\n".join(lines)
