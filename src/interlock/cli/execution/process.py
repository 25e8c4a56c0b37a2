"""Runs one command: passes its output through, computes digests, forwards signals, limits its time.

The command gets its own process group, so that a signal or the timeout reaches everything it started. It also gets
its own session, so that asking a question at the terminal fails at once: in the background of our session it would be
stopped. It ends when this process ends, even by SIGKILL.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import select
import selectors
import signal
import stat
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Generator
from types import FrameType
from typing import IO

import msgspec

from interlock.cli.execution.prepared import Effective
from interlock.kernel.codec.canonical import digest

_CHUNK = 1 << 16
# What a pipe, a socket or a terminal that is ready takes at once. More could make us wait in the middle.
_SURE_BYTES = 4096
# Something the command left behind may keep its pipes open; what it still says is no longer waited for.
_DRAIN_SECONDS = 1.0
_LOOK_SECONDS = 0.05
# Another writer may fill the pipe between the check and the write.
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
        """Write as much as fits. If the reader has gone, the command goes on, and so does its record.

        `unheard` is why the rest could not be written, unless the reader has gone.
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
        """Move what can be moved; if nothing can, wait at most this long."""
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


PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class Stopped(KeyboardInterrupt):
    """A signal asks to stop waiting for an answer of Interlock."""

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

    A signal that our parent (nohup, a shell in the background) had us ignore is ignored by the command too. Only that
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


_SHELL = "/bin/sh"
# The first line is the group; a second one says that the command ended while `exec` was still running.
_WATCH = 'read -r group || exit 0; read -r ended || kill -s KILL -- "-$group"'
_PR_SET_PDEATHSIG = 1
_LEAVING_SECONDS = 1.0


@contextlib.contextmanager
def watched() -> Generator[Callable[[int], None]]:
    """The group that is passed to the yielded function dies with this process, unless the block ends well before."""
    watcher = _watcher()
    lines: list[str] = []

    def tell(line: str) -> None:
        lines.append(line)
        if watcher is not None and watcher.stdin is not None:
            with contextlib.suppress(
                OSError
            ):  # The watching shell was killed; the kernel still kills the command with us.
                watcher.stdin.write(f"{line}\n".encode())
                watcher.stdin.flush()

    try:
        yield lambda group: tell(str(group))
        if lines:
            tell("ended")
    finally:
        if watcher is not None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                watcher.communicate(timeout=_LEAVING_SECONDS)


def dying_with_parent() -> Callable[[], None] | None:
    """What a command calls before it starts, so that the kernel kills it with its parent; None where no kernel does."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes
    import os

    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # It died before it was asked for.
            os.kill(os.getpid(), signal.SIGKILL)

    return bind


def _watcher() -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(  # noqa: S603 - no word from outside
            [_SHELL, "-c", _WATCH],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
        )
    except OSError:
        return None


TIMED_OUT = 124  # as timeout(1) says it
_GRACE_SECONDS = 5.0


class NotStarted(Exception):
    """The command could not be started, so it surely did nothing."""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended. `output_digest` is over the digests of both streams.

    `unheard` is why what it said could not all be passed on; that is not recorded.
    """

    exit_code: int
    duration_ms: int
    output_digest: str
    stdout_bytes: int
    stderr_bytes: int
    timed_out: bool = False
    signal: int | None = None
    unheard: str | None = None


def run(command: Effective, signals: Signals, *, stdout: int = 1, stderr: int = 2) -> Ran:
    """Run it to its end, writing what it says to these descriptors. Raises `NotStarted`."""
    started = time.monotonic()
    with watched() as watch:
        child = _start(command)
        watch(child.pid)
        signals.pass_on_to(child.pid)
        pump = Pump(child, command.stdin, (stdout, stderr))
        timed_out = _await(child, pump, started + command.timeout_seconds)
        ended = time.monotonic()  # how slowly what it said is taken is not its time
        heard = signals.passed_on
        pump.drain(lambda: timed_out or signals.passed_on > heard)
        code = child.wait()
    out, err = pump.streams
    return Ran(
        exit_code=TIMED_OUT if timed_out else code if code >= 0 else 128 - code,
        duration_ms=round((ended - started) * 1000),
        output_digest=digest("output/v1", {"stdout": out.hash.hexdigest(), "stderr": err.hash.hexdigest()}),
        stdout_bytes=out.size,
        stderr_bytes=err.size,
        timed_out=timed_out,
        signal=-code if code < 0 else None,
        unheard=out.unheard or err.unheard,
    )


def _start(command: Effective) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - running what was permitted is what this is for
            command.argv,
            executable=command.program,
            cwd=command.cwd,
            env=command.env,
            stdin=subprocess.DEVNULL if command.stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=dying_with_parent(),  # noqa: PLW1509 - one call into the kernel, which takes no lock
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise NotStarted(f"{command.argv[0]} could not be started: {error}") from error


def _await(child: subprocess.Popen[bytes], pump: Pump, deadline: float) -> bool:
    """Pump until the command ends; past the deadline its group is ended. Whether that was so."""
    timed_out = False
    while child.poll() is None:
        _look(child, pump, min(_LOOK_SECONDS, max(0.0, deadline - time.monotonic())))
        if time.monotonic() >= deadline:
            signal_group(child.pid, signal.SIGKILL if timed_out else signal.SIGTERM)
            if timed_out:
                child.wait()
            timed_out, deadline = True, time.monotonic() + _GRACE_SECONDS
    if timed_out:
        signal_group(child.pid, signal.SIGKILL)
    return timed_out


def _look(child: subprocess.Popen[bytes], pump: Pump, seconds: float) -> None:
    if pump.is_idle:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(seconds)
    else:
        pump.step(seconds)
