"""How values and evidence are shown to people. Everything that shows a payload does it through `payload`.

Nothing is hidden: a character that cannot be seen is spelled out, a long text scrolls, and no field is left out.
Nothing is run: all of it is text, and only http and https addresses become links, shown with their host.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import msgspec
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from interlock.kernel.codec.visible import is_visible, spelled_out, unseen_in
from interlock.wire.jobs import Evidence

_LONG = 400
_DEPTH_MAX = 12
_VALUES_MAX = 10_000  # laid out one by one; every other request waits meanwhile
_INDENTED_MAX = 1_000_000
_COLUMNS_MAX = 8
_LINES_MAX = 5000
_LINE_KINDS = {" ": "same", "-": "gone", "+": "new"}
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp|svg\+xml);base64,[A-Za-z0-9+/=\s]+")
_MARKDOWN = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table").disable("image")
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
_LINKS = re.compile(r"https?://[^\s<>\"']{1,2000}")
_MINOR = re.compile(r"(?:^|_)(?:cents|minor)$")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)")
_CURRENCY = re.compile(r"[A-Z]{3}")
_WITHOUT_MINOR = frozenset({"JPY", "KRW", "VND", "CLP", "ISK", "UGX", "XAF", "XOF", "XPF"})


def payload(value: Any) -> Markup:
    """Any JSON value, laid out for reading; one of very many values as JSON, so that a page stays quick."""
    if _is_long(value):
        return Markup('<p class="hint">More than {} values, shown as JSON</p>').format(
            f"{_VALUES_MAX:,}"
        ) + raw(value)
    return _value(value, 0, None)


def _is_long(value: Any) -> bool:
    left, count = [value], 0
    while left and count <= _VALUES_MAX:
        inner = left.pop()
        count += 1
        if isinstance(inner, Mapping):
            left.extend(cast("Mapping[str, Any]", inner).values())
        elif isinstance(inner, Sequence) and not isinstance(inner, str):
            left.extend(cast("Sequence[Any]", inner))
    return count > _VALUES_MAX


def raw(value: Any) -> Markup:
    """The same value as JSON, indented, every character that cannot be seen escaped."""
    return Markup("<pre>{}</pre>").format(text_of(pretty(value), lines=True))


def text_of(text: object, *, lines: bool = False) -> Markup:
    """A text in which every character that cannot be seen is spelled out and marked."""
    said = str(text)
    unseen = _unseen(said, kept="\n\t" if lines else "")
    if unseen is None:
        return escape(said)
    parts = [_marked(part) if at % 2 else str(escape(part)) for at, part in enumerate(unseen.split(said))]
    return Markup("".join(parts))  # noqa: S704 - each part is escaped, or plain ASCII of ours


def _unseen(text: str, *, kept: str) -> re.Pattern[str] | None:
    """What matches each run of characters in a text that cannot be seen, but for those `kept`; None: there is none."""
    if is_visible(text):
        return None
    chars = [re.escape(char) for char in sorted(set(text)) if char not in kept and not is_visible(char)]
    return re.compile(f"([{''.join(chars)}]+)") if chars else None


@lru_cache(1024)
def _marked(run: str) -> str:
    return f'<span class="unseen" title="{", ".join(unseen_in(run))}">{spelled_out(run)}</span>'


def money_in(fields: Mapping[str, Any]) -> str | None:
    """The first amount of money among the fields of an object: `amount_cents` or `amount` beside `currency`."""
    for name, value in fields.items():
        found = _money(name, value, fields)
        if found is not None:
            return found
    return None


def _money(name: str, value: Any, fields: Mapping[str, Any]) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    currency = fields.get("currency")
    unit = currency if isinstance(currency, str) and _CURRENCY.fullmatch(currency) else ""
    if _MINOR.search(name) and isinstance(value, int):
        amount = Decimal(value) if unit in _WITHOUT_MINOR else Decimal(value) / 100
        return f"{amount:,.{0 if unit in _WITHOUT_MINOR else 2}f} {unit}".strip()
    if unit and name in ("amount", "total", "price", "value"):
        return f"{Decimal(str(value)):,} {unit}"
    return None


def _value(value: Any, depth: int, beside: str | None) -> Markup:
    if isinstance(value, Mapping):
        return _object(cast("Mapping[str, Any]", value), depth)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _list(cast("Sequence[Any]", value), depth)
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return Markup('<span class="word">{}</span>').format(
            {None: "null", True: "true", False: "false"}[value]
        )
    hint = Markup(' <span class="hint">{}</span>').format(beside) if beside else Markup("")
    return Markup('<span class="number">{}</span>').format(str(value)) + hint


def _object(fields: Mapping[str, Any], depth: int) -> Markup:
    if not fields:
        return Markup('<span class="word">{}</span>')
    if depth >= _DEPTH_MAX:
        return raw(fields)
    rows = Markup("").join(
        Markup("<tr><th scope=row>{}</th><td>{}</td></tr>").format(
            text_of(name), _value(value, depth + 1, _money(name, value, fields))
        )
        for name, value in fields.items()
    )
    return Markup('<table class="fields"><tbody>{}</tbody></table>').format(rows)


def _list(items: Sequence[Any], depth: int) -> Markup:
    if not items:
        return Markup('<span class="word">[]</span>')
    if depth >= _DEPTH_MAX:
        return raw(items)
    names = _columns(items)
    if names:
        return _rows(items, names, depth)
    shown = Markup("").join(Markup("<li>{}</li>").format(_value(item, depth + 1, None)) for item in items)
    return Markup('<ol class="items" start="0">{}</ol>').format(shown)


def _columns(items: Sequence[Any]) -> list[str]:
    """The names that all objects of a list share, if it reads well as a table."""
    if len(items) < 2 or not all(isinstance(item, Mapping) for item in items):
        return []
    names = list(items[0])
    alike = all(list(item) == names for item in items)
    return names if alike and 0 < len(names) <= _COLUMNS_MAX else []


def _rows(items: Sequence[Mapping[str, Any]], names: list[str], depth: int) -> Markup:
    head = Markup("").join(Markup("<th scope=col>{}</th>").format(text_of(name)) for name in names)
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                Markup("<td>{}</td>").format(_value(item[name], depth + 1, _money(name, item[name], item)))
                for name in names
            )
        )
        for item in items
    )
    return Markup('<table class="rows"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>').format(
        head, body
    )


def _text(text: str) -> Markup:
    if not text:
        return Markup('<span class="word">""</span>')
    if _TIME.fullmatch(text):
        return Markup('<span class="nowrap">{}</span> <span class="hint">{}</span>').format(
            text, _recognised_time(text)
        )
    if "\n" in text or len(text) > _LONG:
        size = (
            Markup('<p class="hint">{} characters</p>').format(f"{len(text):,}")
            if len(text) > _LONG
            else Markup("")
        )
        return size + Markup('<pre class="long" tabindex="0">{}</pre>').format(text_of(text, lines=True))
    return Markup('<span class="text">{}</span>').format(_linked(text))


def _linked(text: str) -> Markup:
    """A text that is one http or https address becomes a link, with the host it really leads to beside it."""
    if not _LINKS.fullmatch(text) or not is_visible(text):
        return text_of(text)
    return web_link(text)


def web_link(address: str) -> Markup:
    """A link to somewhere else; anything but http and https, or what browsers read differently, is shown as text."""
    try:
        parts = urlsplit(address)
        host = _ascii_host(parts.hostname or "")
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return text_of(address)
    if parts.scheme not in ("http", "https") or not is_visible(address):
        return text_of(address)
    # To a browser a backslash is a slash, so the host would end before it.
    if not _HOST.fullmatch(host) or "\\" in address or " " in address:
        return text_of(address)
    to = address
    if (
        not address.isascii()
    ):  # It leads to the host that is shown, whichever rules a browser has for such names.
        user, at, _ = parts.netloc.rpartition("@")
        to = (
            urlunsplit(parts._replace(netloc=f"{user}{at}{host}{port}")) if not parts.netloc.isascii() else to
        )
    return Markup(
        '<a href="{}" rel="noopener noreferrer nofollow" target="_blank">{}</a> <span class="hint">goes to {}</span>'
    ).format(to, address, host)


def _ascii_host(host: str) -> str:
    return host if host.isascii() else host.encode("idna").decode()


def _recognised_time(text: str) -> Markup:
    try:
        return relative(datetime.fromisoformat(text))
    except (ValueError, OverflowError):  # In UTC it may be before the first year, or after the last.
        return Markup("")


def relative(at: datetime | None) -> Markup:
    """A moment, as how long ago or ahead it is; the exact one on hover, and without JavaScript as it is."""
    if at is None:
        return Markup('<span class="none">-</span>')
    return _timed("relative-time", at, exactly(at))


def countdown(at: datetime | None) -> Markup:
    """How long until a moment."""
    if at is None:
        return Markup('<span class="none">-</span>')
    return _timed("count-down", at, f"until {exactly(at)}")


def _timed(element: str, at: datetime, text: str) -> Markup:
    """An element that counts by itself, so a morph leaves what it says alone."""
    opened = Markup('<{} hx-morph-skip-children datetime="{}" title="{}">').format(
        element, _iso(at), exactly(at)
    )
    return opened + Markup("{}</{}>").format(text, element)


def exactly(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def ident(value: str | None) -> Markup:
    """An id, shortened; the whole one on hover, and what is copied."""
    if not value:
        return Markup('<span class="none">-</span>')
    kind, mark, rest = value.partition("_") if not value.startswith("sha256:") else value.partition(":")
    brief = f"{kind}{mark}…{rest[-6:]}" if len(rest) > 10 else value
    return Markup('<code class="id" title="{}" data-copy="{}">{}</code>').format(value, value, text_of(brief))


def duration(seconds: float | None) -> str:
    """Seconds in the largest units that say it: `4 h`, `1 h 30 min`, `45 s`."""
    if seconds is None:
        return "-"
    left = round(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def listed(names: Sequence[str], last: str = "and") -> str:
    """Names in a sentence."""
    said = [spelled_out(name) for name in names]
    if len(said) < 2:
        return "".join(said)
    return f"{', '.join(said[:-1])} {last} {said[-1]}"


def evidence_body(item: Evidence) -> Markup:
    """What a piece of evidence shows, by its kind: text alone, in which nothing runs. Markdown brings no HTML along."""
    content, kind = item.content or "", item.kind.lower()
    if kind in ("markdown", "md", "text/markdown"):
        return _markdown(_seen(content))
    if kind.startswith("image") and _IMAGE.fullmatch(content):
        return Markup('<img src="{}" alt="{}">').format(content, item.title)
    if kind in ("json", "application/json"):
        try:
            return payload(msgspec.json.decode(content.encode()))
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
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
    unseen = _unseen(text, kept="\n\t")
    return text if unseen is None else unseen.sub(lambda run: spelled_out(run[0]), text)


def editable(value: Any) -> str:
    """A value as JSON to be edited: the same value, every character that cannot be seen escaped as JSON does."""
    return "\n".join(spelled_out(line) for line in pretty(value).split("\n"))


def changed_lines(old: str, new: str) -> list[tuple[str, str]]:
    """Lines of two texts, as `m.diff` shows them: `same`, `gone` or `new`. Long equal stretches are left out."""
    olds, news = old.splitlines(), new.splitlines()
    lines = list(difflib.unified_diff(olds[:_LINES_MAX], news[:_LINES_MAX], lineterm="", n=3))[2:]
    changes = [(_LINE_KINDS[line[0]], line[1:]) for line in lines if line[0] in _LINE_KINDS]
    if olds[_LINES_MAX:] != news[_LINES_MAX:]:
        changes.append(("new", f"… what follows line {_LINES_MAX:,} differs too, and is not compared here"))
    return changes


def pretty(value: Any) -> str:
    """A value as JSON, one field a line; on one line if it is so deep that it would be mostly indentation."""
    plain = msgspec.json.encode(value)
    indented = msgspec.json.format(plain, indent=2)
    is_deep = len(indented) > max(_INDENTED_MAX, 4 * len(plain))
    return (msgspec.json.format(plain, indent=0) if is_deep else indented).decode()


FILTERS: Mapping[str, Callable[..., Any]] = {
    "shown": text_of,
    "payload": payload,
    "raw": raw,
    "relative": relative,
    "countdown": countdown,
    "exactly": exactly,
    "ident": ident,
    "duration": duration,
    "listed": listed,
    "web_link": web_link,
}
