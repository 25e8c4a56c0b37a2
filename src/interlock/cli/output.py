"""What a command prints: tables and pages for people, JSON for programs, errors on stderr.

Colours appear only on a terminal, and never if NO_COLOR is set. A table fits the terminal; in a pipe it is as wide as
it needs to be.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import ceil
from typing import Generic, NamedTuple, TextIO, TypeVar
from unicodedata import category, east_asian_width

from interlock.cli.exits import Failed
from interlock.kernel.codec.visible import spelled_out

T = TypeVar("T")

# Clears the line of a progress bar, while there is one: what is said next is not written behind it.
wipe_line: Callable[[], None] | None = None
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def safe(text: str) -> str:
    """One line in which every character can be seen; the others are written as `\\u…`."""
    return spelled_out(text)


def safe_lines(text: str) -> list[str]:
    """Several lines, each safe."""
    return [safe(line.expandtabs(4)) for line in text.splitlines()] or [""]


def pretty(value: object) -> list[str]:
    """JSON for reading: indented, in its own alphabet, and still JSON when copied."""
    # Not splitlines(): it also breaks where a text inside has U+2028, and the rest would look like a line of Interlock.
    return [safe(line) for line in json.dumps(value, indent=2, ensure_ascii=False).split("\n")]


def one_line(value: object) -> str:
    """JSON on one line, safe."""
    return safe(json.dumps(value, ensure_ascii=False))


def lasting(seconds: float) -> str:
    """A duration in its largest unit, or two where that says more: `45s`, `12m`, `3h 5m`, `2d`."""
    left = max(0, round(seconds))
    for position, (size, unit) in enumerate(_UNITS):
        if left < size:
            continue
        whole, rest = divmod(left, size)
        if whole < 24 and size > 60 and rest >= _UNITS[position + 1][0]:
            smaller, name = _UNITS[position + 1]
            return f"{whole}{unit} {rest // smaller}{name}"
        return f"{whole}{unit}"
    return "0s"


def when(moment: datetime | None, now: datetime | None = None) -> str:
    """A moment seen from now: `12m ago`, `in 3h 5m`; a dash for none."""
    if moment is None:
        return "-"
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{lasting(seconds)} ago" if seconds > 0 else f"in {lasting(-seconds)}"


def exactly(moment: datetime | None) -> str:
    """A moment as the clock on the wall of the record says it, in UTC."""
    return "-" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 vote`, `2 votes`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def listed(words: Sequence[str], none: str = "-") -> str:
    """Words in a row, safe."""
    return ", ".join(safe(word) for word in words) if words else none


def without_password(url: str) -> str:
    """An address without its password, fit to be printed."""
    from urllib.parse import urlsplit

    password = urlsplit(url).password if "@" in url else None
    return url.replace(f":{password}@", ":…@") if password else url


_STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "cyan": "36",
}
STATE_STYLES: Mapping[str, str] = {
    "APPROVAL": "yellow",
    "PENDING": "cyan",
    "RUNNING": "blue",
    "SUCCEEDED": "green",
    "FAILED": "red",
    "DENIED": "red",
    "CANCELLED": "dim",
    "EXPIRED": "dim",
    "pending": "yellow",
    "approved": "green",
    "rejected": "red",
    "expired": "dim",
    "withdrawn": "dim",
    "allow": "green",
    "deny": "red",
    "require_human": "yellow",
    "throttle": "yellow",
}
_GAP = "  "
_SHRUNK_MIN = 8
_READABLE = 24  # what may be left out is, rather than cut shorter than this


class Column(NamedTuple):
    """One column. On a narrow terminal an `optional` one is left out and a `flexible` one is cut short.

    An id is neither: cut short it would be of no use.
    """

    title: str
    flexible: bool = False
    optional: bool = False


class Cell(NamedTuple):
    """A cell with a colour."""

    text: str
    style: str = ""


def painted(text: str, style: str, stream: TextIO | None = None) -> str:
    """`text` in a colour, if `stream` (stdout if left out) shows colours."""
    code = _STYLES.get(style)
    return f"\x1b[{code}m{text}\x1b[0m" if code and shows_colours(stream or sys.stdout) else text


def state_cell(state: str) -> Cell:
    """A state in its colour."""
    return Cell(state, STATE_STYLES.get(state, ""))


def shows_colours(stream: TextIO) -> bool:
    """Whether `stream` is a terminal that shows colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def say(*lines: str) -> None:
    """Print lines for people."""
    for line in lines:
        _print(line)


def say_json(value: object) -> None:
    """Print one JSON document: indented on a terminal, one line into a pipe."""
    _print(_json_text(value, sys.stdout, indent=_indent(sys.stdout)))


def say_json_line(value: object) -> None:
    """Print one JSON document on one line, also on a terminal: what comes one after another is read by lines."""
    _print(_json_text(value, sys.stdout, indent=None))


def complain(failed: Failed, *, as_json: bool) -> None:
    """Print why a command failed, on stderr."""
    if as_json:
        remark(_json_text(failed.problem, sys.stderr, indent=_indent(sys.stderr)))
    else:
        remark(f"{painted('interlock:', 'red', sys.stderr)} {_shown(failed.detail)}{_again(failed)}")


def warn(text: str) -> None:
    """Print a remark that is not part of the result, on stderr."""
    remark(_shown(text))


def warn_json(value: object) -> None:
    """Print a remark for a program, on stderr."""
    remark(_json_text(value, sys.stderr, indent=_indent(sys.stderr)))


def say_table(columns: Sequence[Column], rows: Iterable[Sequence[str | Cell]]) -> None:
    """Print aligned columns under their titles."""
    titles = [Cell(column.title, "dim") for column in columns]
    table = [titles, *([_safe_cell(cell) for cell in row] for row in rows)]
    natural = [max(text_width(row[place].text) for row in table) for place in range(len(columns))]
    places = _places(columns, natural)
    widths = _widths([columns[place] for place in places], [natural[place] for place in places])
    for row in table:
        shown = (_fitted(row[place], width) for place, width in zip(places, widths, strict=True))
        _print(_GAP.join(shown).rstrip())


class Table(Generic[T]):
    """A table with a line for each record; each column says what it shows of one."""

    def __init__(self, records: Iterable[T]) -> None:
        self._records = records
        self._columns: list[Column] = []
        self._values: list[Callable[[T], str | Cell]] = []

    def column(
        self, title: str, value: Callable[[T], str | Cell], *, flexible: bool = False, optional: bool = False
    ) -> Table[T]:
        """Add a column at the right."""
        self._columns.append(Column(title, flexible, optional))
        self._values.append(value)
        return self

    def say(self) -> None:
        """Print it."""
        say_table(self._columns, ([value(record) for value in self._values] for record in self._records))


def say_fields(fields: Iterable[tuple[str, str | Cell]]) -> None:
    """Print names and values, aligned; a field without a value is left out."""
    present = [(name, value) for name, value in fields if value]
    width = max((len(name) for name, _ in present), default=0)
    for name, value in present:
        text, style = _safe_cell(value)
        shown = painted(text, style)
        _print(f"{painted(name.ljust(width), 'dim')}{_GAP}{shown}")


def _safe_cell(value: str | Cell) -> Cell:
    text, style = value if isinstance(value, Cell) else Cell(value)
    return Cell(safe(text), style)


def text_width(text: str) -> int:
    """How many columns of a terminal `text` takes."""
    if text.isascii():
        return len(text)
    # Marks stand on the character before them: accents, vowel signs, variation selectors.
    seen = (char for char in text if category(char) not in ("Mn", "Me"))
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in seen)


def _places(columns: Sequence[Column], natural: Sequence[int]) -> list[int]:
    """Which columns to show: optional ones only as far as they fit, the first ones first."""
    places = list(range(len(columns)))
    room = _terminal_width()
    needed = [
        min(width, _READABLE) if column.optional and column.flexible else width
        for column, width in zip(columns, natural, strict=True)
    ]
    for place in reversed(range(len(columns))):
        if sum(needed[shown] + len(_GAP) for shown in places) - len(_GAP) <= room:
            break
        if columns[place].optional:
            places.remove(place)
    return places


def _widths(columns: Sequence[Column], natural: Sequence[int]) -> list[int]:
    """The width of each column: its own, or less for flexible ones, the widest giving way first."""
    widths = list(natural)
    room = _terminal_width() - len(_GAP) * (len(columns) - 1)
    flexible = [place for place, column in enumerate(columns) if column.flexible]
    while flexible and sum(widths) > room:
        widest = max(flexible, key=lambda place: widths[place])
        if widths[widest] <= _SHRUNK_MIN:
            break
        widths[widest] -= 1
    return widths


def _terminal_width() -> int:
    from shutil import get_terminal_size

    if sys.stdout.isatty() or os.environ.get("COLUMNS"):
        return get_terminal_size().columns
    return 1_000_000


def _fitted(cell: Cell, width: int) -> str:
    text = cell.text
    if text_width(text) > width:
        while text and text_width(text) > width - 1:
            text = text[:-1]
        text += "…"
    return painted(text, cell.style) + " " * (width - text_width(text))


def _indent(stream: TextIO) -> int | None:
    return 2 if stream.isatty() else None


def _json_text(value: object, stream: TextIO, *, indent: int | None) -> str:
    # Characters that the stream cannot carry, or that are invisible, are escaped as in JSON: it stays JSON.
    is_ascii = (stream.encoding or "").lower().replace("-", "") != "utf8"
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii, default=_plain)
    return "\n".join(map(safe, text.split("\n")))


def _plain(answer: object) -> object:
    from msgspec import to_builtins

    return to_builtins(answer)


def _shown(text: str) -> str:
    return "\n".join(safe_lines(text))


def _again(failed: Failed) -> str:
    wait_ms = failed.problem.get("retry_after_ms")
    return f"; try again in {lasting(ceil(wait_ms / 1000))}" if isinstance(wait_ms, int | float) else ""


def _print(text: str) -> None:
    """Print on stdout. That a disk is full there says nothing about the store."""
    if wipe_line:
        wipe_line()
    try:
        print(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        _silence(sys.stdout)
        reason = f"the answer could not be written: {error.strerror}"
        raise Failed(f"{reason}; what it tells has happened, so look before you repeat it") from error


def remark(text: str) -> None:
    """Print on stderr. A stderr that cannot be written to does not change how the command ends."""
    if wipe_line:
        wipe_line()
    try:
        print(text, file=sys.stderr)
    except OSError:
        _silence(sys.stderr)


def _silence(stream: TextIO) -> None:
    """Let what is still to be said lead nowhere: Python would fail once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
