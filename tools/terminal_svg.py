"""Draws what a terminal showed, and when, as one animated SVG: no script, no font and no picture from elsewhere.

It knows what a command that prints lines makes a terminal do: colours, new lines, and lines that are longer than the
terminal is wide. Anything else (a cursor that is moved, a screen that is cleared) is an error, so what it draws is what
a person saw.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple
from xml.etree import ElementTree

COLUMNS = 92
ROWS = 26
_CELL_WIDTH, _CELL_HEIGHT = 8.4, 20  # of 14 px letters
_BASELINE = 15  # of the text, from the top of its row
_MARGIN, _BAR = 20, 44
_HOLD_SECONDS = 8.0
_NAMESPACE = "{http://www.w3.org/2000/svg}"
_CODE = re.compile(r"\x1b\[([0-9;]*)m")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# The terminal brings its own background, so it reads alike on a light page and on a dark one.
_STYLES = {
    "0": "", "1": "bold", "2": "dim", "31": "red", "32": "green", "33": "yellow", "34": "blue", "36": "cyan",
}  # fmt: skip
_CSS = """
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#e6edf3;white-space:pre}
.bold{font-weight:bold}.dim{fill:#9aa4af}.red{fill:#ff8b82}.green{fill:#56d364}.yellow{fill:#e3b341}
.blue{fill:#79c0ff}.cyan{fill:#76e3ea}.typed{fill:#fff;font-weight:bold}.title{fill:#9aa4af}
.cursor{fill:#e6edf3;opacity:.7}
@media (prefers-reduced-motion:reduce){*{animation:none!important}}
"""


class Piece(NamedTuple):
    """Text that appeared at one moment. `style` is a name of the table above, or `typed`."""

    seconds: float
    text: str
    style: str = ""


class Cells(NamedTuple):
    """A piece where it stands on the endless sheet of which the terminal shows the last rows."""

    seconds: float
    row: int
    column: int
    text: str
    style: str


def pieces(seconds: float, printed: str) -> list[Piece]:
    """What a program printed, without the codes that colour it."""
    found: list[Piece] = []
    style, at = "", 0
    text = printed.replace("\r\n", "\n")
    for code in _CODE.finditer(text):
        found.append(Piece(seconds, text[at : code.start()], style))
        style, at = _STYLES[code[1] or "0"], code.end()
    found.append(Piece(seconds, text[at:], style))
    return [piece for piece in found if piece.text]


def placed(shown: Iterable[Piece]) -> list[Cells]:
    """Every piece in its place, broken where the terminal ends."""
    row = column = 0
    cells: list[Cells] = []
    for seconds, text, style in shown:
        for number, line in enumerate(text.split("\n")):
            if number:
                row, column = row + 1, 0
            if _CONTROL.search(line):
                raise ValueError(f"this cannot be drawn: {line!r}")
            while line:
                if column == COLUMNS:
                    row, column = row + 1, 0
                part, line = line[: COLUMNS - column], line[COLUMNS - column :]  # noqa: PLW2901
                cells.append(Cells(seconds, row, column, part, style))
                column += len(part)
    return cells


def lines_of(cells: Sequence[Cells]) -> list[str]:
    """The sheet as text."""
    lines = [""] * (max(cell.row for cell in cells) + 1)
    for cell in cells:
        lines[cell.row] = lines[cell.row].ljust(cell.column) + cell.text
    return [line.rstrip() for line in lines]


def lines_drawn(svg: str) -> list[str]:
    """The sheet of a picture as text."""
    sheet = ElementTree.fromstring(svg).find(f".//{_NAMESPACE}g[@id='sheet']")  # noqa: S314 - a file of ours
    if sheet is None:
        raise ValueError("this picture was not drawn here")
    return lines_of([_read(text) for text in sheet.iter(f"{_NAMESPACE}text")])


def draw(cells: Sequence[Cells], *, title: str, description: str) -> str:
    """The animated picture; it starts again after the last line was shown for a while."""
    length = cells[-1].seconds + _HOLD_SECONDS
    moments = sorted({cell.seconds for cell in cells})
    names = {moment: f"t{number}" for number, moment in enumerate(moments)}
    width = round(COLUMNS * _CELL_WIDTH + 2 * _MARGIN)
    inner_height = ROWS * _CELL_HEIGHT
    height = _BAR + inner_height + _MARGIN
    animations = [
        f".{names[moment]}{{animation:{names[moment]} {length:.2f}s step-end infinite}}"
        f"@keyframes {names[moment]}{{0%{{visibility:hidden}}{_percent(moment, length)}{{visibility:visible}}}}"
        for moment in moments
        if moment > 0
    ]
    scrolled, last_scroll = _motion(_scrolls(cells), length, "sheet")
    moved, last_place = _motion(_places(cells), length, "cursor")
    texts = "\n".join(_text(cell, names[cell.seconds]) for cell in cells if cell.text.strip())
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="t d">
<title id="t">{escape(title)}</title>
<desc id="d">{escape(description)}</desc>
<style>{_CSS}{scrolled}
{moved}
{chr(10).join(animations)}
</style>
<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="10" fill="#0d1117" stroke="#57606a"/>
<circle cx="22" cy="20" r="6" fill="#ff5f57"/><circle cx="42" cy="20" r="6" fill="#febc2e"/>
<circle cx="62" cy="20" r="6" fill="#28c840"/>
<text class="title" x="{width / 2:g}" y="25" text-anchor="middle">{escape(title)}</text>
<svg x="{_MARGIN}" y="{_BAR}" width="{width - 2 * _MARGIN}" height="{inner_height}" overflow="hidden">
<g id="sheet" style="{last_scroll}">
<rect class="cursor" width="{_CELL_WIDTH}" height="{_CELL_HEIGHT - 2}" style="{last_place}"/>
{texts}
</g>
</svg>
</svg>
"""


def _text(cell: Cells, name: str) -> str:
    kind = " ".join(word for word in (name, cell.style) if word)
    lead = len(cell.text) - len(cell.text.lstrip())
    text = cell.text.strip()
    x = (cell.column + lead) * _CELL_WIDTH
    # A font that is wider or narrower than ours still ends where the next text begins.
    return (
        f'<text class="{kind}" x="{x:g}" y="{cell.row * _CELL_HEIGHT + _BASELINE}" '
        f'textLength="{len(text) * _CELL_WIDTH:g}" xml:space="preserve">{escape(text)}</text>'
    )


def _read(text: ElementTree.Element) -> Cells:
    row = int(text.get("y", "")) // _CELL_HEIGHT
    return Cells(0, row, round(float(text.get("x", "")) / _CELL_WIDTH), text.text or "", "")


def _scrolls(cells: Sequence[Cells]) -> list[tuple[float, str]]:
    """How far the sheet is moved up, and when."""
    steps: list[tuple[float, str]] = [(0.0, "transform:translateY(0px)")]
    lowest = ROWS - 1
    for cell in cells:
        if cell.row > lowest:
            lowest = cell.row
            steps.append((cell.seconds, f"transform:translateY({(ROWS - 1 - lowest) * _CELL_HEIGHT}px)"))
    return steps


def _places(cells: Sequence[Cells]) -> list[tuple[float, str]]:
    """Where the cursor is, and when: behind what was shown last."""
    steps: list[tuple[float, str]] = []
    for cell in cells:
        x, y = (cell.column + len(cell.text)) * _CELL_WIDTH, cell.row * _CELL_HEIGHT + 1
        steps.append((cell.seconds, f"transform:translate({x:g}px,{y}px)"))
    return steps


def _motion(steps: Sequence[tuple[float, str]], length: float, name: str) -> tuple[str, str]:
    """The keyframes of something that moves in steps, and where it ends."""
    last_at_once = dict(steps)  # of several at one moment, the last
    frames = "".join(f"{_percent(at, length)}{{{what}}}" for at, what in last_at_once.items())
    chosen = f"#{name}" if name == "sheet" else f".{name}"
    animation = f"{chosen}{{animation:{name} {length:.2f}s step-end infinite}}@keyframes {name}{{{frames}}}"
    return animation, steps[-1][1]


def _percent(moment: float, length: float) -> str:
    return f"{100 * moment / length:.3f}%"
