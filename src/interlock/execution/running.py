"""Running one command: output passed through as it comes, digests kept, signals forwarded, time bounded.

The command gets a process group of its own, so that a signal or the timeout reaches all that it started.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from types import FrameType
from typing import IO, Any

import msgspec

from interlock.codec.canonical import digest
from interlock.execution.effective import Effective

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
TIMED_OUT = 124  # as timeout(1) says it
_GRACE_SECONDS = 5.0
# Something the command left behind may keep its pipes open; what it still says is no longer waited for.
_DRAIN_SECONDS = 1.0
_CHUNK = 1 << 16


class NotStarted(Exception):
    """The command could not be started, so it surely did nothing."""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended. `output_digest` is over the digests of both streams."""

    exit_code: int
    duration_ms: int
    output_digest: str
    stdout_bytes: int
    stderr_bytes: int
    timed_out: bool = False
    signal: int | None = None


def run(command: Effective, *, stdout: int = 1, stderr: int = 2) -> Ran:
    """Run it to its end, writing what it says to these descriptors. Raises `NotStarted`."""
    started = time.monotonic()
    with _forwarding() as follow:
        child = _start(command)
        follow(child)
        pump = _Pump(child, command.stdin, {child.stdout: stdout, child.stderr: stderr})
        timed_out = pump.until_ended(started + command.timeout_seconds)
        pump.drain()
    code = child.wait()
    out, err = pump.digests()
    return Ran(
        exit_code=TIMED_OUT if timed_out else code if code >= 0 else 128 - code,
        duration_ms=round((time.monotonic() - started) * 1000),
        output_digest=digest("output/v1", {"stdout": out.hexdigest(), "stderr": err.hexdigest()}),
        stdout_bytes=pump.sizes[0],
        stderr_bytes=pump.sizes[1],
        timed_out=timed_out,
        signal=-code if code < 0 else None,
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
            process_group=0,
        )
    except (OSError, ValueError) as error:
        raise NotStarted(f"{command.argv[0]} could not be started: {error}") from error


@contextlib.contextmanager
def _forwarding() -> Generator[Callable[[subprocess.Popen[bytes]], None]]:
    """Pass signals on to the command's group while it runs; what becomes of us is what becomes of it.

    It begins before the command does: one that comes in between is passed on once there is somebody to get it. A
    signal that whoever started us (nohup, a shell in the background) had us ignore is ignored by the command too.
    """
    children: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def forward(number: int, _: FrameType | None) -> None:
        if children:
            _signal_group(children[0], number)
        else:
            early.append(number)

    def follow(child: subprocess.Popen[bytes]) -> None:
        children.append(child)
        for number in early:
            _signal_group(child, number)

    heard = [number for number in FORWARDED if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, forward) for number in heard}
    try:
        yield follow
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _signal_group(child: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


class _Pump:
    """Moves bytes between the command and us until it ends."""

    def __init__(
        self, child: subprocess.Popen[bytes], stdin: bytes | None, streams: dict[IO[bytes] | None, int]
    ) -> None:
        self._child = child
        self._streams = [(source, to) for source, to in streams.items() if source is not None]
        self._hashes = [hashlib.sha256() for _ in self._streams]
        self.sizes = [0 for _ in self._streams]
        self._selector = selectors.DefaultSelector()
        self._deaf: set[int] = set()
        for place, (source, _) in enumerate(self._streams):
            os.set_blocking(source.fileno(), False)
            self._selector.register(source, selectors.EVENT_READ, place)
        self._left = memoryview(stdin or b"")
        if child.stdin is not None:
            os.set_blocking(child.stdin.fileno(), False)
            self._selector.register(child.stdin, selectors.EVENT_WRITE, None)

    def until_ended(self, deadline: float) -> bool:
        """Pump until the command ends; past the deadline its group is ended. Whether that was so."""
        timed_out = False
        while self._child.poll() is None:
            self._step(min(0.05, max(0.0, deadline - time.monotonic())))
            if time.monotonic() >= deadline:
                if timed_out:
                    _signal_group(self._child, signal.SIGKILL)
                    self._child.wait()
                else:
                    _signal_group(self._child, signal.SIGTERM)
                timed_out, deadline = True, time.monotonic() + _GRACE_SECONDS
        if timed_out:
            _signal_group(self._child, signal.SIGKILL)
        return timed_out

    def drain(self) -> None:
        """Take what is still in the pipes."""
        until = time.monotonic() + _DRAIN_SECONDS
        while self._readers() and time.monotonic() < until:
            self._step(max(0.0, until - time.monotonic()))
        self._selector.close()
        for stream in (self._child.stdin, self._child.stdout, self._child.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def digests(self) -> list[Any]:
        return self._hashes

    def _readers(self) -> bool:
        return any(key.data is not None for key in self._selector.get_map().values())

    def _step(self, seconds: float) -> None:
        if not self._selector.get_map():
            time.sleep(min(seconds, 0.01))
            return
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                self._feed()
            else:
                self._take(key.data)

    def _take(self, place: int) -> None:
        source, to = self._streams[place]
        try:
            chunk = os.read(source.fileno(), _CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            self._selector.unregister(source)
            return
        self._hashes[place].update(chunk)
        self.sizes[place] += len(chunk)
        self._pass_on(to, chunk)

    def _pass_on(self, to: int, chunk: bytes) -> None:
        # Whoever read our output may have left; the command goes on, and so does its record.
        if to in self._deaf:
            return
        left = memoryview(chunk)
        try:
            while left:
                left = left[os.write(to, left) :]
        except BlockingIOError:
            time.sleep(0.001)
            self._pass_on(to, bytes(left))
        except OSError:
            self._deaf.add(to)

    def _feed(self) -> None:
        stdin = self._child.stdin
        if stdin is None:
            return
        try:
            self._left = (
                self._left[os.write(stdin.fileno(), self._left[:_CHUNK]) :] if self._left else self._left
            )
        except BlockingIOError:
            return
        except OSError:
            self._left = memoryview(b"")
        if not self._left:
            self._selector.unregister(stdin)
            stdin.close()
