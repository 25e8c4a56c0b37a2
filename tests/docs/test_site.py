"""The documentation builds as a site, strictly; what is broken in it fails the build."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import site
from tools.site_check import site_faults

REMOTE = "https://example.com/x"


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """A repository with a page of one line for everything in the menu."""
    root = tmp_path / "repository"
    named = {each for below in site.NAVIGATION.values() for each in below} | set(site.NAVIGATION)
    for source, place in site.OUTSIDE.items():
        named.discard(place.removesuffix(".md"))
        write(root / source)
    for each in named:
        write(root / "docs" / f"{each.replace('*', 'one').replace('index', 'README')}.md")
    return root


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# {path.stem}\n\n{text}\n")


def build(pages: Path) -> int:
    return site.build(pages.parent / "site", "1.2.0", pages)


def test_every_page_of_the_documentation_is_in_the_site(built_site: Path) -> None:
    sources = [path for path in (site.ROOT / "docs").rglob("*.md") if site.CONFIG not in path.parents]
    assert len(sources) > 80
    for path in sources:
        place = path.relative_to(site.ROOT / "docs").with_suffix(".html").as_posix()
        assert (built_site / "1.2.0" / re.sub(r"README\.html$", "index.html", place)).is_file()


def test_the_site_loads_nothing_from_another_host_and_every_link_leads_somewhere(built_site: Path) -> None:
    assert site_faults(built_site / "1.2.0") == []


def test_the_references_are_in_the_site_as_they_are_in_the_code(built_site: Path) -> None:
    approvals, jobs = (
        (built_site / "1.2.0" / page).read_text() for page in ("api/approvals.html", "sdk/jobs.html")
    )
    assert "/api/v1/approvals/{job_id}/approve" in approvals
    assert 'id="get_job"' in jobs or 'id="get-job"' in jobs


def change_start(text: str) -> Callable[[Path], None]:
    return lambda root: write(root / "docs" / "start.md", text)


BROKEN = {
    "a link to a page that is not there": (change_start("[x](gone.md)"), "gone.md"),
    "a link to a file that is not there": (change_start("[x](../examples/gone.py)"), "gone.py"),
    "a place that the page does not have": (change_start("[x](faq.md#gone)"), "gone"),
    "a place that this page does not have": (change_start("[x](#gone)"), "gone"),
    "a link in HTML": (change_start('<a href="gone.html">x</a>'), "gone.html"),
    "a place in HTML": (change_start('<a href="faq.html#gone">x</a>'), "faq.html#gone"),
    "an image that is not there": (change_start("![x](images/gone.png)"), "gone.png"),
    "an image of another host": (change_start(f"![x]({REMOTE}.png)"), f"loads {REMOTE}.png"),
    "a script of another host": (change_start(f'<script src="{REMOTE}.js"></script>'), f"loads {REMOTE}.js"),
    "a page that no menu has": (lambda root: write(root / "docs" / "orphan.md"), "orphan"),
    "a page of the menu that is not there": (lambda root: (root / "docs" / "faq.md").unlink(), "faq"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_fails_the_build(name: str, pages: Path, capfd: pytest.CaptureFixture[str]) -> None:
    damage, told = BROKEN[name]
    damage(pages)
    assert build(pages) != 0
    assert told in capfd.readouterr().err
    assert not (pages.parent / "site" / "1.2.0").exists()


@pytest.mark.parametrize(
    ("style", "is_fault"),
    [
        ("@import 'https://example.com/x.css';", True),
        ("a { background: url(//example.com/x.png) }", True),
        ("a { background: url(x.png) } /* https://example.com */", False),
    ],
)
def test_a_style_that_loads_from_another_host_is_found(style: str, is_fault: bool, tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text(style)
    assert bool(site_faults(tmp_path)) == is_fault


def test_a_link_to_an_example_becomes_words(tmp_path: Path) -> None:
    write(tmp_path / "examples" / "a.py")
    told = site.relinked("[the example](../examples/a.py)", "docs/a.md", {"docs/a.md": "a.md"}, tmp_path)
    assert told == "the example"


def test_versions_lie_side_by_side_and_the_newest_is_first(tmp_path: Path) -> None:
    for version in ("0.9.0", "0.10.0", "next"):
        write(tmp_path / version / "index.html")
        write(tmp_path / version / "_static" / "no-page.html")
    site.list_versions(tmp_path)
    script = (tmp_path / site.VERSIONS).read_text()
    listed = json.loads(script.removeprefix("window.INTERLOCK_VERSIONS = ").removesuffix(";\n"))
    assert [each["name"] for each in listed] == ["0.10.0", "0.9.0", "next"]
    assert listed[0]["pages"] == ["index.html"]
    assert 'url=0.10.0/index.html"' in (tmp_path / "index.html").read_text()


def test_a_version_that_is_built_again_is_replaced_as_a_whole(pages: Path) -> None:
    old = pages.parent / "site" / "1.2.0" / "old.html"
    write(old)
    assert build(pages) == 0
    assert not old.exists()
    assert (old.parent / "faq.html").is_file()
