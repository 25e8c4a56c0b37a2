"""The browser that tests use notices what no page may do, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import pytest
from playwright.sync_api import Error, Page, expect

from tests.console.static_site import static_site
from tests.harness.browser import Chromium, audit_accessibility, click_together
from tests.harness.processes import is_running, wait_until_gone

ROOT = Path(__file__).parents[2]
OPEN = "default-src * 'unsafe-inline'"
IN_SCRIPT = "<script src=/script.js></script>"


def test_a_page_that_keeps_the_rules_passes(chromium: Chromium) -> None:
    body = f"<p id=told>before</p>{IN_SCRIPT}"
    with (
        static_site(body, script="document.querySelector('#told').textContent = 'after'") as url,
        chromium.attached() as open_page,
    ):
        page = open_page()
        page.goto(url)
        expect(page.get_by_text("after")).to_be_visible()


@pytest.mark.parametrize(
    ("body", "javascript"),
    [
        ("<script>1</script>", True),
        ("<p style='color: red'>red</p>", True),
        ("<p style='color: red'>red</p>", False),
        ("<img alt='' src=data:image/png;base64,AAAA>", True),
        ("<img alt='' src=data:image/png;base64,AAAA>", False),
    ],
)
def test_a_violation_of_the_content_security_policy_fails_the_test(
    chromium: Chromium, body: str, javascript: bool
) -> None:
    with (
        static_site(body) as url,
        pytest.raises(AssertionError, match="CSP violation"),
        chromium.attached() as open_page,
    ):
        open_page(java_script_enabled=javascript).goto(url)


def test_the_violation_is_told_with_what_was_refused_and_where(chromium: Chromium) -> None:
    body = f"<p>text</p>{IN_SCRIPT}"
    script = "document.querySelector('p').setAttribute('style', 'color: red')"
    with (
        static_site(body, script=script) as url,
        pytest.raises(AssertionError) as failed,
        chromium.attached() as open_page,
    ):
        open_page().goto(url)
    assert f"CSP violation on {url}: style-src-attr refused inline" in str(failed.value)
    assert f"{url}script.js:1" in str(failed.value)
    assert "CSP violation (console)" in str(failed.value)


def test_a_violation_of_trusted_types_fails_the_test(chromium: Chromium) -> None:
    policy = "default-src 'self'; require-trusted-types-for 'script'"
    script = "try { document.querySelector('h1').innerHTML = '<b>x</b>' } catch { }"
    with (
        static_site(IN_SCRIPT, script=script, policy=policy) as url,
        pytest.raises(AssertionError, match="CSP violation"),
        chromium.attached() as open_page,
    ):
        open_page().goto(url)


@pytest.mark.parametrize("script", ["throw new Error('lost')", "Promise.reject(new Error('lost'))"])
def test_an_error_that_no_page_caught_fails_the_test(chromium: Chromium, script: str) -> None:
    with (
        static_site(IN_SCRIPT, script=script) as url,
        pytest.raises(AssertionError, match=f"page error on {url}: .*lost"),
        chromium.attached() as open_page,
    ):
        open_page().goto(url)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("<img alt='' src=http://elsewhere.example/a.png>", "http://elsewhere.example/a.png"),
        ("<img alt='' src=http://localhost:9/a.png>", "http://localhost:9/a.png"),
        ("<script>new WebSocket('ws://elsewhere.example/s')</script>", "ws://elsewhere.example/s"),
    ],
)
def test_a_request_to_another_host_fails_the_test(chromium: Chromium, body: str, named: str) -> None:
    with (
        static_site(body, policy=OPEN) as url,
        pytest.raises(AssertionError, match="request to another host.*" + named),
        chromium.attached() as open_page,
    ):
        open_page().goto(url)


def test_a_request_to_another_host_never_leaves_the_browser(chromium: Chromium) -> None:
    with static_site("", policy=OPEN) as url:
        # The name is this machine's own, and the port is open: only the browser's rule is in the way.
        port = url.rstrip("/").rpartition(":")[2]
        fetch = f"fetch('http://localhost:{port}/', {{mode: 'no-cors'}}).then(() => 'sent', () => 'kept')"
        outcomes: list[str] = []
        with pytest.raises(AssertionError, match="request to another host"), chromium.attached() as open_page:
            outcomes.append(open_page().evaluate(fetch))
    assert outcomes == ["kept"]


def test_axe_names_what_is_wrong_and_where(page: Page) -> None:
    body = "<form><input id=key></form><p><img src=/a.png></p>"
    with static_site(body) as url:
        page.goto(url)
        with pytest.raises(AssertionError) as failed:
            audit_accessibility(page)
    told = str(failed.value)
    assert 'critical: Form elements must have labels (label)\n    #key: <input id="key">' in told
    assert "critical: Images must have alternative text (image-alt)\n    img" in told


def test_axe_finds_nothing_serious_where_nothing_is(page_in_each_scheme: Page) -> None:
    with static_site("<form><label>API key <input></label><button>Sign in</button></form>") as url:
        page_in_each_scheme.goto(url)
        audit_accessibility(page_in_each_scheme)


def test_axe_sees_the_colours_of_the_scheme(dark_page: Page) -> None:
    style = "<style>@media (prefers-color-scheme: dark) { body { color: #333; background: #222 } }</style>"
    with static_site(f"{style}<p>text</p>", policy=OPEN) as url:
        dark_page.goto(url)
        with pytest.raises(AssertionError, match="color-contrast"):
            audit_accessibility(dark_page)
        dark_page.emulate_media(color_scheme="light")
        audit_accessibility(dark_page)


def test_a_phone_is_360_pixels_wide(phone_page: Page) -> None:
    head = "<meta name=viewport content='width=device-width'>"
    with static_site(head) as url:
        phone_page.goto(url)
        assert phone_page.evaluate("innerWidth") == 360


def test_a_plain_page_runs_no_script(plain_page: Page) -> None:
    with static_site(f"<p>before</p>{IN_SCRIPT}", script="document.body.textContent = 'after'") as url:
        plain_page.goto(url)
        expect(plain_page.get_by_text("before")).to_be_visible()


def test_two_people_share_no_cookie(two_pages: tuple[Page, Page]) -> None:
    ann, bob = two_pages
    with static_site("") as url:
        ann.goto(url)
        bob.goto(url)
        ann.evaluate("document.cookie = 'who=ann'")
        assert (ann.evaluate("document.cookie"), bob.evaluate("document.cookie")) == ("who=ann", "")


def test_two_people_click_at_one_moment(two_pages: tuple[Page, Page]) -> None:
    script = "document.querySelector('button').onclick = () => { document.title = String(Date.now()) }"
    with static_site(f"<button>Go</button>{IN_SCRIPT}", script=script) as url:
        for page in two_pages:
            page.goto(url)
        due = click_together(*(page.get_by_role("button") for page in two_pages))
        for page in two_pages:
            expect(page).not_to_have_title("A page")
        moments = [int(page.title()) for page in two_pages]
    assert min(moments) >= due, "one was clicked before the other could be"


async def test_an_asynchronous_test_still_runs_beside_the_browser(chromium: Chromium) -> None:
    assert all(map(is_running, chromium.pids))
    await asyncio.sleep(0)


async def test_an_asynchronous_test_is_told_that_it_cannot_use_the_browser(chromium: Chromium) -> None:
    with pytest.raises(AssertionError, match="a plain function, not async"), chromium.attached():
        pass


def test_a_run_that_is_killed_leaves_no_browser_and_no_profile() -> None:
    code = (
        "import time; from tests.harness.browser import Chromium; "
        "chromium = Chromium().start(); print(chromium.folder, *chromium.pids, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        folder, *pids = run.stdout.readline().split()
        assert len(pids) > 1
        assert list(Path(folder).glob("*profile*"))
        run.kill()
    wait_until_gone(map(int, pids))
    # The folder goes right after the last of them.
    deadline = time.monotonic() + 30
    while Path(folder).exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(folder).exists()


def test_a_page_whose_process_ended_fails_the_test(chromium: Chromium) -> None:
    with pytest.raises(AssertionError, match="crash on "), chromium.attached() as open_page:
        _crash(open_page())


def _crash(page: Page) -> None:
    with page.expect_event("crash"), pytest.raises(Error):
        page.goto("chrome://crash")
