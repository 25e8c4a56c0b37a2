"""Waits as a person does: until a server is `up`, or until somebody is `asked` on the store of this folder."""

from __future__ import annotations

import contextlib
import sys
import time
import urllib.request

from interlock import Interlock

PATIENCE_SECONDS = 90


def has_come(what: str, port: str) -> bool:
    """Whether it is so by now."""
    with contextlib.suppress(OSError):
        if what == "asked":
            with Interlock(store="sqlite:///.interlock/interlock.db") as il:
                return bool(il.approvals(state="pending").items)
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
        return True
    return False


def main(what: str, port: str) -> None:
    """Wait; end with 1 if it never comes."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not has_come(what, port):
        if time.monotonic() > until:
            raise SystemExit(f"never {what}")
        time.sleep(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
