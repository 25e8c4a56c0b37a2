"""What a stranger finds in the repository is current, complete, and free of addresses that are not theirs."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

import pytest

from tests.tidy.source import ROOT, files
from tools import approve_path, reference, sdk_reference, states, suite

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
CHANGELOG = ROOT / "CHANGELOG.md"
GLOSSARY = ROOT / "docs" / "glossary.md"
REGISTRY = re.compile(r"pypi\.org|pythonhosted|npmjs\.(com|org)|(?<!emit-)index-url")
TEXT = {
    ".py",
    ".sql",
    ".md",
    ".toml",
    ".txt",
    ".in",
    ".json",
    ".yaml",
    ".yml",
    ".sh",
    ".cfg",
    ".html",
    ".js",
    ".css",
    "",
}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_file_names_no_address_and_hashes_everything(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    assert not re.search(r"^--", text, re.MULTILINE)
    pins = re.findall(r"^(\S+)==[^\n]*\n((?: {4}--hash=\S+(?: \\)?\n)*)", text, re.MULTILINE)
    assert pins
    assert not [name for name, hashes in pins if not hashes]
    assert len(pins) == len(re.findall(r"^\w", text, re.MULTILINE))


def test_the_runtime_lock_covers_every_dependency_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list(itertools.chain(project["dependencies"], *project["optional-dependencies"].values()))
    names = {_canonical(re.split(r"[<>=\[; ]", wish)[0]) for wish in wanted}
    locked = {
        _canonical(name)
        for name in re.findall(r"^(\S+)==", (ROOT / "requirements/runtime.txt").read_text(), re.M)
    }
    assert names <= locked


def test_a_dependency_that_promises_no_api_has_an_upper_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = itertools.chain(project["dependencies"], *project["optional-dependencies"].values())
    unbounded = {_canonical(re.split(r"[<>=\[; ]", wish)[0]) for wish in wanted if "<" not in wish}
    # It deprecates for two releases before it removes, and a bound would keep its security fixes away.
    assert unbounded == {"cryptography"}


def test_no_file_names_a_package_registry() -> None:
    assert not [
        f"{path.relative_to(ROOT)}: {found.group()}"
        for path in files()
        if path != Path(__file__)
        and path.suffix in TEXT
        and (found := REGISTRY.search(path.read_text(errors="replace")))
    ]


def test_every_folder_of_tests_is_run_once() -> None:
    named = [path.name for path in suite.folders()]
    assert sorted(named) == sorted(
        {path.relative_to(suite.TESTS).parts[0] for path in suite.TESTS.rglob("test_*.py")}
    )
    assert named[: len(suite.LONGEST)] == list(suite.LONGEST)


def test_the_diagrams_of_states_are_current() -> None:
    assert states.PAGE.read_text() == states.render(), "run `make docs`"


def test_the_reference_of_the_api_is_current() -> None:
    written = {path.name: path.read_text() for path in reference.FOLDER.glob("*.md")}
    assert _stale(written, reference.render()) == [], "run `make docs`"


def _stale(written: dict[str, str], rendered: dict[str, str]) -> list[str]:
    return sorted(
        name for name in written.keys() | rendered.keys() if written.get(name) != rendered.get(name)
    )


def test_the_reference_of_the_sdk_is_current_and_has_every_method() -> None:
    written = {path.name: path.read_text() for path in sdk_reference.FOLDER.glob("*.md")}
    assert _stale(written, sdk_reference.render()) == [], "run `make docs`"
    assert [name for name, _ in sdk_reference.methods() if f"`il.{name}`" not in written["README.md"]] == []


def test_the_way_of_an_approve_is_the_one_that_the_page_shows() -> None:
    # Two threads take part, so which of two files comes first may differ from run to run.
    shown, true = (
        sorted(re.sub(r"^\| \d+ \|", "|", line) for line in page.splitlines())
        for page in (approve_path.PAGE.read_text(), approve_path.render())
    )
    assert shown == true, "run `make docs`"


def test_the_changelog_has_room_for_the_next_change() -> None:
    assert re.search(r"^## \[?Unreleased\]?", CHANGELOG.read_text(), re.MULTILINE)


def test_the_glossary_defines_each_word_once() -> None:
    words = defined_words(GLOSSARY.read_text())
    assert words
    assert sorted(set(words)) == sorted(words)


@pytest.mark.parametrize(
    "entry", ["| Lease | kept |", "## lease", "- **lease**: kept", "**lease** kept", "| `lease` | kept |"]
)
def test_a_word_is_found_however_the_glossary_sets_it(entry: str) -> None:
    assert defined_words(f"# Glossary\n\nSome lines.\n{entry}\n") == ["lease"]


def defined_words(text: str) -> list[str]:
    """The words that a glossary defines: a heading, or the start of a table row, an item or a bold line."""
    found = re.findall(r"^(?:#{2,4} |[-|] ?[*`]*|\*\*)([A-Za-z][\w -]*)", text, re.MULTILINE)
    return [word.strip().lower() for word in found]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
