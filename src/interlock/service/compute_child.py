"""A child process that runs slow computations, so that they do not block the server's event loop.

It reads a function and its arguments from the socket that is its standard input, and answers with the result or the
exception. It ends when the server that started it closes the socket. Each computation has a limit of processor time.
The kernel ends a child that exceeds it (SIGPROF), because nothing else can interrupt a library in native code.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import struct
from io import BufferedRWPair
from typing import Any

HEADER = struct.Struct("!I")
CPU_SECONDS_MAX = 6.0
_NICE = 5


def main() -> None:
    """Compute until the server is gone."""
    os.nice(_NICE)  # Where processors are scarce, the server's loop goes first.
    with socket.socket(fileno=0) as server, server.makefile("rwb") as stream:
        while (message := _read(stream)) is not None:
            answer = _answer(message)
            stream.write(HEADER.pack(len(answer)))
            stream.write(answer)
            stream.flush()


def rebuilt(kind: type[Exception], arguments: tuple[Any, ...], fields: dict[str, Any]) -> Exception:
    """An exception as it was; not by its constructor, which may want other arguments."""
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(fields)
    return error


def _read(stream: BufferedRWPair) -> bytes | None:
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    (length,) = HEADER.unpack(header)
    message = stream.read(length)
    return message if len(message) == length else None


def _answer(message: bytes) -> bytes:
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS_MAX)
    try:
        function, arguments = pickle.loads(message)  # noqa: S301 - from the server that started this process
        return pickle.dumps((True, function(*arguments)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - the server decides what any exception means
        return _told(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _told(error: Exception) -> bytes:
    try:
        told = (type(error), error.args, error.__dict__)
        return pickle.dumps((False, told), pickle.HIGHEST_PROTOCOL)
    except Exception:  # noqa: BLE001 - an exception that cannot be pickled is sent as text
        return pickle.dumps((False, (RuntimeError, (repr(error),), {})), pickle.HIGHEST_PROTOCOL)


if __name__ == "__main__":
    main()
