"""Evidence as a page of its own, made of text: nothing in it runs, and Markdown brings no HTML along."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import msgspec
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from interlock.console.shown import payload, text_of
from interlock.kernel.codec.visible import is_visible, spelled_out
from interlock.wire.jobs import Evidence

_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp|svg\+xml);base64,[A-Za-z0-9+/=\s]+")
_MARKDOWN = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table").disable("image")


def evidence_body(item: Evidence) -> Markup:
    """What a piece of evidence shows, by its kind."""
    content, kind = item.content or "", item.kind.lower()
    if kind in ("markdown", "md", "text/markdown"):
        return _markdown(_seen(content))
    if kind.startswith("image") and _IMAGE.fullmatch(content):
        return Markup('<img src="{}" alt="{}">').format(content, item.title)
    if kind in ("json", "application/json"):
        try:
            return payload(msgspec.json.decode(content.encode()))
        except (msgspec.DecodeError, UnicodeEncodeError):
            pass
    return Markup("<pre>{}</pre>").format(text_of(content, lines=True))


def _markdown(text: str) -> Markup:
    """Markdown, with the host behind each link that leads somewhere else than it says."""
    tokens = _MARKDOWN.parse(text)
    for token in tokens:
        told: list[Token] = []
        host = ""
        for child in token.children or ():
            told.append(child)
            if child.type == "link_open":
                host = urlsplit(str(child.attrGet("href") or "")).hostname or ""
            elif child.type == "link_close" and host:
                told.append(Token("text", "", 0, content=f" (goes to {host})"))
        token.children = told if token.children else token.children
    return Markup(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))  # noqa: S704 - HTML in it is escaped


def _seen(text: str) -> str:
    """The text with every character that cannot be seen spelled out, lines kept."""
    return "".join(char if char in "\n\t" or is_visible(char) else spelled_out(char) for char in text)
