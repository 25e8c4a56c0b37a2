"""Moving bytes between a command and whoever started us, without ever standing still for either of them.

What is not taken from us is not taken from the command, which then waits, as it would without us in between; its time
runs on meanwhile.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import select
import selectors
import stat
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from typing import IO

_CHUNK = 1 << 16
# What a pipe, a socket or a terminal that is ready takes at once. More could make us wait in the middle.
_SURE_BYTES = 4096
# Something the command left behind may keep its pipes open; what it still says is no longer waited for.
_DRAIN_SECONDS = 1.0
_LOOK_SECONDS = 0.05
# Somebody else may fill what was ready before we do.
_PAUSE_SECONDS = 0.001


class Stream:
    """One of the command's outputs: what it said, and what of it is still to be passed on."""

    def __init__(self, source: IO[bytes], to: int) -> None:
        self.source = source
        self.to = to
        self.hash = hashlib.sha256()
        self.size = 0
        self.left = memoryview(b"")
        self.is_open = True
        self.unheard: str | None = None
        self._is_heard = True
        self._at_once = _at_once(to)
        self._room = select.poll()
        self._room.register(to, select.POLLOUT)
        os.set_blocking(source.fileno(), False)

    def take(self) -> int:
        """Read what the command says; returns how much that was."""
        try:
            chunk = os.read(self.source.fileno(), _CHUNK)
        except BlockingIOError:
            return 0
        self.is_open = bool(chunk)
        self.hash.update(chunk)
        self.size += len(chunk)
        self.left = memoryview(chunk if self._is_heard else b"")
        return len(chunk)

    def pass_on(self) -> None:
        """Write what finds room. Whoever reads us may have gone; the command goes on, and so does its record.

        `unheard` is why the rest could not be written, if it was not that nobody reads it.
        """
        try:
            while self.left and self._room.poll(0):
                self.left = self.left[os.write(self.to, self.left[: self._at_once]) :]
        except BlockingIOError:
            time.sleep(_PAUSE_SECONDS)
        except OSError as error:
            self._is_heard = False
            self.left = memoryview(b"")
            self.unheard = None if isinstance(error, BrokenPipeError) else error.strerror

    def unread(self) -> int:
        """How much is in the pipe now."""
        found = fcntl.ioctl(self.source.fileno(), termios.FIONREAD, bytes(4))
        return int.from_bytes(found, sys.byteorder)


class Pump:
    """Both outputs of a command, and its stdin."""

    def __init__(self, child: subprocess.Popen[bytes], stdin: bytes | None, to: tuple[int, int]) -> None:
        sources = (child.stdout, child.stderr)
        self.streams = [Stream(source, to) for source, to in zip(sources, to, strict=True) if source]
        self._stdin = child.stdin
        self._stdin_left = memoryview(stdin or b"")
        if child.stdin is not None:
            os.set_blocking(child.stdin.fileno(), False)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to move, and nothing will come."""
        return self._stdin is None and not any(stream.is_open or stream.left for stream in self.streams)

    def step(self, seconds: float) -> None:
        """Move what can be moved, and wait for at most so long if nothing can."""
        with selectors.PollSelector() as selector:
            for stream in self.streams:
                if stream.left:
                    selector.register(stream.to, selectors.EVENT_WRITE, stream.pass_on)
                elif stream.is_open:
                    selector.register(stream.source, selectors.EVENT_READ, stream.take)
            if self._stdin is not None:
                selector.register(self._stdin, selectors.EVENT_WRITE, self._feed)
            moved = selector.select(seconds)
        for key, _ in moved:
            key.data()

    def drain(self, is_over: Callable[[], bool]) -> None:
        """Take what the ended command had said, and pass it on however slowly it is taken, unless it is over."""
        owed = [(stream, stream.size + stream.unread()) for stream in self.streams]
        until = time.monotonic() + _DRAIN_SECONDS
        while True:
            late = time.monotonic() >= until
            if late and is_over():
                break
            for stream, size in owed:
                stream.is_open = stream.is_open and not (late and stream.size >= size)
            if not any(stream.is_open or stream.left for stream in self.streams):
                break
            self.step(_LOOK_SECONDS)
        self._close()

    def _feed(self) -> None:
        if self._stdin is None:
            return
        try:
            if self._stdin_left:
                self._stdin_left = self._stdin_left[
                    os.write(self._stdin.fileno(), self._stdin_left[:_CHUNK]) :
                ]
        except BlockingIOError:
            return
        except OSError:
            self._stdin_left = memoryview(b"")
        if not self._stdin_left:
            self._stdin.close()
            self._stdin = None

    def _close(self) -> None:
        for stream in (self._stdin, *(stream.source for stream in self.streams)):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _at_once(descriptor: int) -> int:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return _CHUNK
    is_file = stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not os.isatty(descriptor))
    return _CHUNK if is_file else _SURE_BYTES
