"""Checks a built site: every link of every page leads somewhere, and no page loads anything from another host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser loads by itself, by element; a link is only followed by a person.
_LOADS = {
    "audio": ("src",), "embed": ("src",), "iframe": ("src",), "img": ("src", "srcset"), "input": ("src",),
    "link": ("href",), "object": ("data",), "script": ("src",), "source": ("src", "srcset"), "track": ("src",),
    "video": ("src", "poster"), "form": ("action",),
}  # fmt: skip
_STYLE = re.compile(r"""(?:url\(|@import\s)\s*["']?((?:https?:)?//[^"')\s;]+)""")


class _Page(HTMLParser):
    """What one page names: its anchors, its links, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value for name, value in attrs if value is not None}
        self.anchors |= {named[each] for each in ("id", "name") if each in named}
        self.loads += [named[each] for each in _LOADS.get(tag, ()) if each in named]
        if tag == "a" and "href" in named:
            self.links.append(named["href"])
        if tag == "meta" and named.get("http-equiv", "").lower() == "refresh":
            self.loads.append(named.get("content", "").partition("url=")[2])


def site_faults(folder: Path) -> list[str]:
    """What is wrong with the site in a folder, one line each."""
    pages = {path: _Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    found = [fault for path, page in pages.items() for fault in _page_faults(folder, path, page, pages)]
    for style in sorted(folder.rglob("*.css")):
        found += [f"{style.relative_to(folder)}: loads {each}" for each in _STYLE.findall(style.read_text())]
    return found


def _page_faults(folder: Path, path: Path, page: _Page, pages: dict[Path, _Page]) -> Iterator[str]:
    where = path.relative_to(folder)
    for address in page.loads:
        if _host(address):
            yield f"{where}: loads {address}"
    for address in dict.fromkeys([*page.links, *page.loads]):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc or not (parts.path or parts.fragment):
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not target.is_relative_to(folder):
            continue  # the other versions, which lie beside this one
        if not target.is_file():
            yield f"{where}: leads to {address}, which is not there"
        elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
            yield f"{where}: leads to {address}, but that page has no such place"


def _host(address: str) -> str:
    """The host that an address names, or a scheme that is no file's; empty for an address inside the site."""
    parts = urlsplit(address.strip())
    return parts.netloc or ("" if parts.scheme in {"", "data"} else parts.scheme)
