"""Records the first five minutes of the README from the real program: `make recording`.

The commands that the README shows are typed into a shell on a pseudo-terminal, in an empty folder, and questions are
answered as the README answers them. What is drawn is what the program printed. Only the pauses are ours: they leave
time to read, and cut out the waiting.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.cli.screen import Screen
from tools.terminal_svg import COLUMNS, Cells, Piece, draw, pieces, placed

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
IMAGE = ROOT / "docs" / "images" / "first-payment.svg"
PROMPT = "$ "
TITLE = "An action is held, decided by a second person, and done"
_SHELL = ("bash", "--noprofile", "--norc", "--noediting", "-i")
_ASKED = re.compile(r"^(approve\? \[.*\] |reason .*: )(.*)$")
_KEY_SECONDS, _ENTER_SECONDS = 0.05, 0.5
_LINE_SECONDS, _PAUSE_SECONDS, _PAUSE_SECONDS_MAX = 0.22, 1.0, 4.0


class Step(NamedTuple):
    """Something that is typed, and what asks for it: the shell, or a command."""

    prompt: str
    typed: str


def steps() -> list[Step]:
    """What a person types in the README's block about an empty folder."""
    section = README.read_text().partition("\nIn an empty folder:\n")[2]
    return steps_of(section.partition("```console\n")[2].partition("```")[0])


def steps_of(block: str) -> list[Step]:
    """What a person types where a page shows this: commands, and answers to what they ask."""
    found: list[Step] = []
    for line in block.splitlines():
        if line.startswith(PROMPT):
            found.append(Step(PROMPT, line.removeprefix(PROMPT)))
        elif asked := _ASKED.match(line):
            found.append(Step(asked[1], asked[2]))
    return found


def record(folder: Path, env: Mapping[str, str], taken: list[Step]) -> list[Cells]:
    """Type the steps in a folder; returns what the terminal showed, with the pauses of a film."""
    with Screen(folder, env={**env, **_quiet()}, command=_SHELL, columns=COLUMNS) as screen:
        for step in taken:
            screen.until(step.prompt)
            screen.type(step.typed)
        screen.until(f"\n{PROMPT}")
        raw = screen.raw
    return placed(_film(raw, taken))


def _film(raw: str, taken: list[Step]) -> list[Piece]:
    """What was shown and when. The terminal echoes what is typed, so it is found behind its prompt."""
    film: list[Piece] = []
    seconds, at = 0.0, 0
    for step in taken:
        typed = f"{step.prompt}{step.typed}\r\n"
        end = raw.index(typed, at)
        film += pieces(seconds, raw[at:end] + step.prompt)
        lines = raw.count("\n", at, end)
        seconds += min(_PAUSE_SECONDS + lines * _LINE_SECONDS, _PAUSE_SECONDS_MAX)
        for key in step.typed:
            seconds += _KEY_SECONDS
            film.append(Piece(seconds, key, "typed"))
        seconds += _ENTER_SECONDS
        film.append(Piece(seconds, "\n"))
        at = end + len(typed)
    return film + pieces(seconds, raw[at:])


def _quiet() -> dict[str, str]:
    """A plain prompt, colours, and no trace in the shell's history."""
    return {"PS1": PROMPT, "HISTFILE": "/dev/null", "TERM": "xterm", "LANG": "C.UTF-8"}


def main() -> None:
    """Write the picture."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    kept["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        kept["XDG_CONFIG_HOME"] = f"{folder}/config"
        place = Path(folder) / "payments"
        place.mkdir()
        cells = record(place, kept, steps())
    IMAGE.write_text(draw(cells, title=TITLE, description="\n".join(step.typed for step in steps())))
    print(f"{IMAGE.relative_to(ROOT)}: {IMAGE.stat().st_size / 1000:.0f} kB, {cells[-1].seconds:.0f} s")


if __name__ == "__main__":
    main()
