"""Running one command: output passed through as it comes, digests kept, signals forwarded, time bounded.

The command gets a process group of its own, so that a signal or the timeout reaches all that it started; and a session
of its own, so that asking at the terminal fails at once: in the background of ours it would be stopped. It ends with
us, also if we are killed (orphans.py).
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time

import msgspec

from interlock.codec.canonical import digest
from interlock.execution.effective import Effective
from interlock.execution.orphans import dying_with_parent, watched
from interlock.execution.pumping import Pump
from interlock.execution.signals import Signals, signal_group

TIMED_OUT = 124  # as timeout(1) says it
_GRACE_SECONDS = 5.0
_LOOK_SECONDS = 0.05


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
