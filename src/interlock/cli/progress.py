"""How far long work has come, on stderr: one line that is drawn again on a terminal, a line now and then elsewhere.

Own code: one line of text does not need rich, which takes 115 ms to import, five times what the argument parser takes.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Generator
from typing import TextIO, TypeAlias

from interlock.cli import output
from interlock.cli.options import wants_json

Tell: TypeAlias = Callable[[str, int, int], object]

_CELLS = 20
_COLUMNS = 80  # of a terminal that does not say how many it has
_ELSEWHERE_SECONDS = 5.0  # how often a line is written that stays
_QUICK_SECONDS = 1.0  # work that takes less writes no line
_DRAWN_SECONDS = 0.1
_TOLD_SECONDS = 2.0  # what has taken less says nothing about what is left


class Progress:
    """Told how many steps of some work are done, it shows them. Use it in a `with` block, which ends with a clear line.

    Where no terminal is, quick work says nothing: what fails at once is told in one line, and what succeeds in none.

    `is_even` says that all steps take about as long, so that the time which is left can be estimated. `elsewhere`
    replaces the lines that are written where no terminal is.
    """

    def __init__(
        self,
        about: str,
        *,
        is_even: bool = True,
        is_shown: bool = True,
        elsewhere: Tell | None = None,
        quick_seconds: float | None = None,
        stream: TextIO | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._about = about
        self._is_even = is_even
        self._is_shown = is_shown
        self._elsewhere = elsewhere
        self._stream = stream or sys.stderr
        self._now = now
        self._draws = is_shown and self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._quick_seconds = _QUICK_SECONDS if quick_seconds is None else quick_seconds
        self._began: float | None = None
        self._said_at = float("-inf")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.wipe()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show that `done` of `total` steps are done, and what is being done now."""
        now = self._now()
        if self._began is None:
            self._began = now
        if done >= total:
            self.wipe()
            return
        pause, quick = (_DRAWN_SECONDS, 0) if self._draws else (_ELSEWHERE_SECONDS, self._quick_seconds)
        if not self._is_shown or now - self._said_at < pause or now - self._began < quick:
            return
        self._said_at = now
        counts = f"{done} of {total}{self._left(now - self._began, done, total)}"
        if self._draws:
            self._draw(f"{self._about}  {self._bar(done, total)}  {counts}  {what}")
        elif self._elsewhere:
            self._elsewhere(what, done, total)
        else:
            self._write(f"{self._about}: {counts}: {what}\n")

    def wipe(self) -> None:
        """Clear the line that was drawn, so that something else can be written there."""
        if output.wipe_line == self.wipe:
            output.wipe_line = None
            self._write("\r\x1b[K")

    def _draw(self, text: str) -> None:
        with contextlib.suppress(OSError):
            columns = os.get_terminal_size(self._stream.fileno()).columns or _COLUMNS
            text = text if len(text) < columns else f"{text[: max(0, columns - 2)]}…"
        self._write(f"\r{output.safe(text)}\x1b[K")
        output.wipe_line = self.wipe

    def _bar(self, done: int, total: int) -> str:
        full = _CELLS * min(done, total) // max(1, total)
        has_blocks = (self._stream.encoding or "").lower().replace("-", "") == "utf8"
        whole, rest = ("█", "░") if has_blocks else ("#", ".")
        return whole * full + rest * (_CELLS - full)

    def _left(self, took: float, done: int, total: int) -> str:
        if not self._is_even or done < 1 or took < _TOLD_SECONDS:
            return ""
        return f", about {output.lasting(took * max(0, total - done) / done)} left"

    def _write(self, text: str) -> None:
        # Whether progress can be shown does not change how the work ends.
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


def progress_of(args: Namespace, about: str, *, is_even: bool = True) -> Progress:
    """Progress as a command's options ask for it: none with `--quiet`, and none for a program."""
    is_shown = not (getattr(args, "quiet", False) or wants_json(args))
    return Progress(about, is_even=is_even, is_shown=is_shown)


@contextlib.contextmanager
def showing_migrations(args: Namespace) -> Generator[None]:
    """Show how far a store has come that has to be brought to this version's schema when it is opened.

    A command without `--quiet` shows it only on a terminal: elsewhere its stderr is for what went wrong.
    """
    if not hasattr(args, "quiet") and not sys.stderr.isatty():
        yield
        return
    with progress_of(args, UPDATING, is_even=False) as progress, told_of_migrations(progress):
        yield


UPDATING = "updating the store"


@contextlib.contextmanager
def told_of_migrations(tell: Tell) -> Generator[None]:
    """Have this told of every statement of a migration, while a store is opened."""
    from interlock.kernel.storage import MIGRATION_STEPS

    token = MIGRATION_STEPS.set(tell)
    try:
        yield
    finally:
        MIGRATION_STEPS.reset(token)
