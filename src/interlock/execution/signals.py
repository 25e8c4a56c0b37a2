"""Signals that come while a command is ours to run: whoever sends them means the command.

Kept until it runs, passed on to its group while it does. Around it, while something is asked of Interlock, they stop
us as they would have without a command.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Generator
from types import FrameType

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class Stopped(KeyboardInterrupt):
    """Somebody wants no more waiting for what is asked of Interlock."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


class Signals:
    """To whom they go. `passed_on` counts those that the command, or what it left behind, was sent."""

    def __init__(self) -> None:
        self._kept: list[int] = []
        self._group: int | None = None
        self._stops_us = False
        self.passed_on = 0

    def hear(self, number: int, _: FrameType | None) -> None:
        """Take one as it comes."""
        if self._stops_us:
            raise Stopped(number)
        if self._group is None:
            self._kept.append(number)
        else:
            self.passed_on += 1
            signal_group(self._group, number)

    def pass_on_to(self, group: int) -> None:
        """Let a command that has started have what came before it, and all that comes."""
        self._group = group
        while self._kept:
            signal_group(group, self._kept.pop(0))

    @contextlib.contextmanager
    def stopping(self) -> Generator[None]:
        """Raise `Stopped` for what comes in this block."""
        self._stops_us = True
        try:
            yield
        finally:
            self._stops_us = False


@contextlib.contextmanager
def hearing() -> Generator[Signals]:
    """Hear signals; one that stops us ends us as it would have.

    What whoever started us (nohup, a shell in the background) had us ignore is ignored by the command too. Only that
    a child ended is not: the exit code of one that is ignored is thrown away, and reads as 0.
    """
    signals = Signals()
    heard = [number for number in PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signals.hear) for number in heard}
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    stopped: Stopped | None = None
    try:
        yield signals
    except Stopped as error:
        stopped = error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if stopped is not None:
            signal.raise_signal(stopped.number)


def signal_group(group: int, number: int) -> None:
    """Signal all that a command started, if any of it is left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
