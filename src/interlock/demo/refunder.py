"""An agent that dies while it pays, in its own process: `python -m interlock.demo.refunder`.

It finds the service and its key where every client does, in `INTERLOCK_URL` and `INTERLOCK_KEY`.
"""

from __future__ import annotations

import os
import signal

from interlock.sdk.client import Interlock

ACTION = "refund:4711"
TTL_SECONDS = 1


def pay(ticket: str, cents: int, *, downstream_key: str = "") -> None:
    """Call the bank, or not: the process is gone before anybody can tell."""
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Pay once, under the record of the effect."""
    with Interlock() as il:
        il.once(ACTION, pay, "4711", 4_200, ttl=TTL_SECONDS)


if __name__ == "__main__":
    main()
