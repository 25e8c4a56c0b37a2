"""A command does not outlive the process that runs it, however that process is killed.

Two things see to it. On Linux the kernel kills the command itself together with its parent. And a watcher, a shell in a
session of its own, kills the command's whole group when its pipe ends without a word, on any system with a `/bin/sh`.
If both are killed at once the command may run on; its effect is then never committed and ends as `AMBIGUOUS`.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Generator

_SHELL = "/bin/sh"
# The first line is the group; a second one says that the command ended while somebody was there to see it.
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
            ):  # Somebody killed it; the kernel still kills the command with us.
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
        return subprocess.Popen(  # noqa: S603 - nothing that anybody passed in
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
