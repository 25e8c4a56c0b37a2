"""A payer that dies: runs one payment under `once`, and kills itself before its nth statement.

Started as a process, it loads everything and then waits; each line on its standard input, `N ACTION_ID`, is one
payer: a fork that is killed with SIGKILL before statement N, or runs to its end. Its answer is one line: how many
statements it saw if it ended by itself, or `killed`.

Statements are those of the SDK's own path from `once` to its end and of the payment itself.
"""

from __future__ import annotations

import http.client
import os
import signal
import sys
from types import FrameType
from typing import Any

from interlock import Interlock
from interlock.sdk import base, calls, client, flow, once, session, transports
from interlock.sdk.operations import shared

PARTS = (base, calls, client, flow, once, session, transports, shared)
FILES = {part.__file__ for part in PARTS} | {__file__}


def charge(port: int, amount: int, *, downstream_key: str = "") -> dict[str, Any]:
    """Ask the remote side for money."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", f"/{downstream_key}")
    answer = connection.getresponse()
    said = answer.read().decode()
    connection.close()
    return {"said": said, "amount": amount}


class Reaper:
    """Kills this process before its nth statement."""

    def __init__(self, fatal: int) -> None:
        self.fatal = fatal
        self.seen = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            self.seen += 1
            if self.seen == self.fatal:
                os.kill(os.getpid(), signal.SIGKILL)
        return self


def pay(url: str, key: str, port: int, action_id: str, fatal: int) -> int:
    """One payment; returns how many statements it took."""
    with Interlock(url, key) as il:
        reaper = Reaper(fatal)
        sys.settrace(reaper)
        il.once(action_id, charge, port, 100, ttl=2)
        sys.settrace(None)
    return reaper.seen


def main() -> None:
    url, key, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    for line in sys.stdin:
        fatal, action_id = line.split()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            seen = pay(url, key, port, action_id, int(fatal))
            os.write(writing, str(seen).encode())
            os._exit(0)
        os.close(writing)
        _, status = os.waitpid(child, 0)
        answer = os.read(reading, 100).decode()
        os.close(reading)
        print(answer if os.WIFEXITED(status) and answer else "killed", flush=True)


if __name__ == "__main__":
    main()
