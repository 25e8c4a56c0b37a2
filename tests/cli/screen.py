"""A command at a real pseudo-terminal: what it shows is read as it comes, what a person types is typed."""

from __future__ import annotations

import codecs
import contextlib
import os
import pty
import re
import select
import signal
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cli.terminal import HANG_SECONDS
from tests.harness.server import clean_env

END_OF_INPUT = "\x04"
INTERRUPT = "\x03"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Screen:
    """One command in a folder. Use it in a `with` block, so that it does not outlive the test.

    `words` are what `interlock` is given; `command` is another program, with the whole of `env` as its environment.
    """

    def __init__(
        self,
        folder: Path,
        *words: str,
        env: Mapping[str, str] | None = None,
        command: Sequence[str] = (),
        columns: int = 0,
    ) -> None:
        environment = dict(env or {}) if command else clean_env(env)
        command = list(command) or [sys.executable, "-m", "interlock.cli.main", *words]
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:  # pragma: no cover - the command replaces this process
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.chdir(folder)
            if columns:
                termios.tcsetwinsize(0, (50, columns))
            os.execvpe(command[0], command, environment)
        self.raw = ""  # with colours, as the terminal got it
        self.text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._read_up_to = 0
        self._code: int | None = None
        self._interrupts = False

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._terminal)

    def until(self, expected: str) -> str:
        """Wait until it shows `expected`; returns what it showed since the last wait, that included."""
        while expected not in self.text[self._read_up_to :]:
            assert self._read(), f"no {expected!r} in:\n{self.text}"
        end = self.text.index(expected, self._read_up_to) + len(expected)
        shown, self._read_up_to = self.text[self._read_up_to : end], end
        return shown

    def type(self, text: str) -> None:
        """Type, with the return key at the end."""
        self.press(f"{text}\n")

    def press(self, keys: str) -> None:
        """Press keys, and no return key.

        Ctrl-C is pressed again after two silent seconds, as a person does: Python misses one that comes after the
        prompt is shown and before it reads.
        """
        os.write(self._terminal, keys.encode())
        self._interrupts = keys == INTERRUPT

    def end(self) -> tuple[int, str]:
        """Wait until it ends; returns its exit code and what it showed since the last wait."""
        while self._read():
            pass
        self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._code, self.text[self._read_up_to :]

    def _read(self) -> bool:
        """Read what there is; False if nobody is left who could show more."""
        while self._interrupts and not select.select([self._terminal], [], [], 2)[0]:
            os.write(self._terminal, INTERRUPT.encode())
        ready, _, _ = select.select([self._terminal], [], [], HANG_SECONDS)
        try:
            content = os.read(self._terminal, 1 << 16) if ready else b""
        except OSError:  # which is how a terminal says so
            content = b""
        self.raw += self._decoder.decode(content)
        self.text = _COLOUR.sub("", self.raw).replace("\r\n", "\n")
        return bool(content)
