"""Builds docs/ as a site into site/VERSION/, strictly, with a choice of the versions that lie there: `make site`.

    python -m tools.site [--version 0.1.0] [--folder site]

The pages are the Markdown files of the repository, as the code host shows them. They are copied, their links are led to
where the copies are, and the navigation below is added. What was built is checked: every link and anchor leads
somewhere, and nothing is loaded from another host. Neither the build nor the built pages fetch anything.
"""

from __future__ import annotations

import argparse
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import interlock
from tools.site_check import site_faults

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CONFIG = DOCS / "_site"
VERSIONS = "versions.list.js"
# Pages that lie outside of docs/, and where the site has them.
OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
# The menu: under each page those that it leads to, in this order; `*` is every page of a folder that is not named.
NAVIGATION = {
    "index": ("start", "howto/index", "reference", "what-happens-when", "compared-with", "faq", "decisions/index"),
    "start": ("ARCHITECTURE", "glossary", "measurements", "contributing", "changelog"),
    "howto/index": (
        "howto/gate-a-function", "howto/pay-once", "howto/write-a-policy", "howto/review", "howto/use-the-console",
        "howto/grants-and-exec", "howto/write-a-worker", "howto/run-a-server", "howto/*",
    ),
    "reference": ("api/index", "sdk/index", "states", "retries", "delivery", "conflicts", "limits", "threats"),
    "api/index": ("api/*",),
    "sdk/index": ("sdk/client", "sdk/exceptions", "sdk/workers", "sdk/values", "sdk/*"),
    "decisions/index": ("decisions/*",),
}  # fmt: skip
# What Sphinx and the theme leave behind for themselves.
_NOT_SHOWN = (".buildinfo", "objects.inv", "_sources", "webpack-macros.html")
# What the menu calls a page whose heading is too long for it.
SHORT = {"what-happens-when": "What happens when", "faq": "Questions"}
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]*)?\)")

_DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ARROW = re.compile(r"^ +(\S+) --> ([^\s:]+)(?:: (.*))?$", re.MULTILINE)


def main() -> int:
    """Build; the exit code is Sphinx's."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description="build docs/ as a site")
    parser.add_argument("--version", default=interlock.__version__, help="name of this version")
    parser.add_argument("--folder", type=Path, default=ROOT / "site", help="where versions lie side by side")
    args = parser.parse_args()
    return build(args.folder, args.version)


def build(folder: Path, version: str, root: Path = ROOT) -> int:
    """Build one version into its folder, and list all that lie there; any warning is an error."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="interlock-site-") as made:
        staged, built = Path(made, "pages"), Path(made, "built")
        stage(staged, root)
        code = _sphinx(staged, built, version)
        if code == 0:
            shown = shutil.copytree(built, Path(made, "shown"), ignore=shutil.ignore_patterns(*_NOT_SHOWN))
            faults = site_faults(shown)
            print(*faults, sep="\n", end="\n" if faults else "", file=sys.stderr)
            code = 1 if faults else 0
        if code == 0:
            shutil.rmtree(folder / version, ignore_errors=True)
            shutil.copytree(shown, folder / version)
            list_versions(folder)
    return code


def _sphinx(staged: Path, built: Path, version: str) -> int:
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "--quiet",
        "--fail-on-warning",
        "--keep-going",
        "--builder",
        "html",
    ]
    command += [
        "--conf-dir",
        str(CONFIG),
        "--doctree-dir",
        str(built.parent / "doctrees"),
        str(staged),
        str(built),
    ]
    environment = {**os.environ, "INTERLOCK_SITE_VERSION": version}
    return subprocess.run(command, env=environment, check=False).returncode


def stage(folder: Path, root: Path = ROOT) -> None:
    """Copy every page and image there, with links that hold there, and with the menu."""
    places = _places(root)
    for source, place in places.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".md":
            text = relinked(tabled((root / source).read_text()), source, places, root)
            target.write_text(text + _menu(place.removesuffix(".md"), places))
        else:
            shutil.copyfile(root / source, target)


def _places(root: Path) -> dict[str, str]:
    """Where the site has each file: by its path in the repository, its path among the pages."""
    inside = (
        path.relative_to(root).as_posix() for path in sorted((root / "docs").rglob("*.*")) if path.is_file()
    )
    pages = {path: path.removeprefix("docs/") for path in inside if not path.startswith("docs/_site/")}
    indexed = {path: re.sub(r"(^|/)README\.md$", r"\1index.md", place) for path, place in pages.items()}
    return OUTSIDE | indexed


def tabled(text: str) -> str:
    """The text with its diagrams of states as tables: to draw them, a page would need a program of megabytes."""

    def table(found: re.Match[str]) -> str:
        lines = ["| state | verb | becomes |", "|---|---|---|"]
        for before, after, verbs in _ARROW.findall(found[1]):
            lines.append(f"| {before} | {verbs or ''} | {'(the end)' if after == '[*]' else after} |")
        return "\n".join(lines)

    return _DIAGRAM.sub(table, text)


def relinked(text: str, source: str, places: dict[str, str], root: Path = ROOT) -> str:
    """The text with its links led to where the site has what they name.

    A link to a file that is no page, such as an example, becomes words. One to nothing stays, for the build to refuse.
    """
    here = posixpath.dirname(places[source])

    def lead(found: re.Match[str]) -> str:
        mark, words, path, anchor = found.groups(default="")
        if not path:
            return found[0]
        named = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        place = places.get(named) or places.get(f"{named}/README.md")
        if place is None:
            return words if (root / named).exists() else found[0]
        return f"{mark}[{words}]({posixpath.relpath(place, here or '.')}{anchor})"

    fenced = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _LINK.sub(lead, part) for part in fenced)


def _menu(page: str, places: dict[str, str]) -> str:
    """The hidden list of the pages below a page."""
    named = [each for below in NAVIGATION.values() for each in below]
    pages = sorted(place.removesuffix(".md") for place in places.values() if place.endswith(".md"))
    below = list[str]()
    for each in NAVIGATION.get(page, ()):
        folder = each.removesuffix("*")
        below += [each] if folder == each else [
            found for found in pages if found.startswith(folder) and found != page and found not in named
        ]  # fmt: skip
    if not below:
        return ""
    return "\n".join(["", "```{toctree}", ":hidden:", "", *map(_entry, below), "```", ""])


def _entry(page: str) -> str:
    return f"{SHORT[page]} </{page}>" if page in SHORT else f"/{page}"


def list_versions(folder: Path) -> None:
    """Write which versions lie in the folder, for their choice and for the first page, which leads to the newest."""
    found = sorted((path.parent for path in folder.glob("*/index.html")), key=_age, reverse=True)
    listed = [
        {
            "name": version.name,
            "pages": [page for page in _pages_of(version) if not page.startswith("_")],
        }
        for version in found
    ]
    (folder / VERSIONS).write_text(f"window.INTERLOCK_VERSIONS = {json.dumps(listed)};\n")
    items = "".join(f'<li><a href="{each.name}/index.html">{each.name}</a></li>' for each in found)
    newest = found[0].name
    (folder / "index.html").write_text(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Interlock</title>'
        f'<meta http-equiv="refresh" content="0; url={newest}/index.html">'
        f"<h1>Interlock</h1><p>Versions of this documentation:</p><ul>{items}</ul></html>\n"
    )


def _pages_of(version: Path) -> list[str]:
    return sorted(page.relative_to(version).as_posix() for page in version.rglob("*.html"))


def _age(version: Path) -> list[tuple[int, str]]:
    """Orders 0.9.0 before 0.10.0, and a name without numbers before all."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in version.name.split(".")]


if __name__ == "__main__":
    sys.exit(main())
