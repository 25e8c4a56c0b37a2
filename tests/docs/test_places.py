"""Whatever a page names of the source is there, and every decision is in the index once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "interlock"
DECISIONS = ROOT / "docs" / "decisions"
# The changelog tells of what was, under the names of then.
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
_FILE = re.compile(r"`([\w./{},-]+/[\w{},.-]+\.(?:py|sql|yaml|toml))(?:::?\w*)?`")
_MODULE = re.compile(r"python -m (interlock[\w.]*)|\b(interlock(?:\.\w+)+):\w")
_ENTRY = re.compile(r"^\| \[(\d{4})\]\((\d{4})-[\w-]+\.md\) \| .+ \|$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_a_file_that_a_page_names_is_there(page: Path) -> None:
    absent = missing(page.read_text())
    assert not absent


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see `kernel/kernel.py`", []),
        ("see `src/interlock/kernel/kernel.py` and `tests/docs/test_places.py`", []),
        ("see `kernel/gone.py`", ["kernel/gone.py"]),
        ("see `rooms/jobs/approvals.py:ApproveJob`", []),
        ("run `interlock.api.asgi:create_app`", []),
        ("run `interlock.runtime.server:serve`", ["interlock.runtime.server"]),
        ("run `python -m interlock.demo.gone`", ["interlock.demo.gone"]),
    ],
)
def test_a_name_that_leads_nowhere_is_found(text: str, found: list[str]) -> None:
    assert missing(text) == found


def test_every_decision_is_in_the_index_once_and_nothing_else_is() -> None:
    entries = [number for number, _ in _ENTRY.findall(index())]
    assert entries == sorted(path.name[:4] for path in DECISIONS.glob("[0-9]*.md"))


def test_an_entry_of_the_index_links_the_decision_of_its_number() -> None:
    assert not [shown for shown, linked in _ENTRY.findall(index()) if shown != linked]


@pytest.mark.parametrize("page", sorted(DECISIONS.glob("[0-9]*.md")), ids=lambda page: page.name[:4])
def test_a_decision_is_headed_by_its_number(page: Path) -> None:
    assert page.read_text().startswith(f"# {page.name[:4]}: ")


def index() -> str:
    return (DECISIONS / "README.md").read_text()


def missing(text: str) -> list[str]:
    """The files and modules that a text names and that are not there."""
    files = [name for name in _FILE.findall(text) if not _is_file(name)]
    modules = [name for names in _MODULE.findall(text) for name in names if name and not _is_module(name)]
    return [*files, *modules]


def _is_file(name: str) -> bool:
    return "{" in name or (ROOT / name).is_file() or (PACKAGE / name).is_file()


def _is_module(name: str) -> bool:
    place = PACKAGE.joinpath(*name.split(".")[1:])
    return place.is_dir() or place.with_suffix(".py").is_file()
