"""Every link of the documentation into itself leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


def places_in(page: Path) -> set[str]:
    """What a link can name in a page: its anchors, and its headings as they are spelled in addresses."""
    text = page.read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return set(re.findall(r'<a id="([^"]+)">', text)) | {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_a_link_leads_somewhere(page: Path) -> None:
    for path, place in _LINK.findall(page.read_text()):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{path} is not there"
        assert not place or place in places_in(target), f"{target.name} has no {place}"
