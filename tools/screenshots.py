"""Takes the screenshots of the README and the how-tos from the running demo: `make screenshots`."""

from __future__ import annotations

from pathlib import Path

from interlock.demo.server import DemoServer
from interlock.demo.showcase import fill
from tests.harness.browser import Chromium

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDE = {"width": 1200, "height": 820}
PAGES = {
    "inbox": "/console/inbox",
    "conflicts": "/console/conflicts",
    "policy": "/console/policy",
    "traffic": "/console/traffic",
}


def main() -> None:
    """Write one picture a page."""
    IMAGES.mkdir(exist_ok=True)
    chromium = Chromium().start()
    try:
        with DemoServer() as server, chromium.attached() as open_page:
            ann = fill(server)
            page = open_page(viewport=WIDE)
            page.goto(f"{server.url}/console/sign-in")
            page.get_by_label("API key").fill(ann.key)
            page.get_by_role("button", name="Sign in", exact=True).click()
            page.get_by_role("link", name="Acme").click()
            page.get_by_text("ann opened it").wait_for()
            page.screenshot(path=IMAGES / "request.png")
            for name, path in PAGES.items():
                page.goto(server.url + path)
                page.locator("h1").wait_for()
                page.wait_for_timeout(500)  # until times count and charts are drawn
                page.screenshot(path=IMAGES / f"{name}.png")
    finally:
        chromium.close()


if __name__ == "__main__":
    main()
