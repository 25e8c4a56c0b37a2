"""The README's `pay`, by a process that kills itself before its nth statement.

Started as a process, it loads everything and then waits; each line on its standard input, `N INVOICE`, is one
payer: a fork that is killed with SIGKILL before statement N, or calls `pay` to its end. Its answer is one line of
JSON: how many statements it saw and how the call ended, or null if it was killed.

Statements are those of the gate: of the SDK's path through it, of its holding, and of the payment itself.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from interlock import Interlock, InterlockError
from interlock.sdk import calls, flow, gate, gate_decorator, gated_call, hold, results, session
from interlock.sdk.operations import jobs, work
from interlock.sdk.operations import jobs as waiting
from tests.crash.killed_statements import StatementKiller

PARTS = (calls, flow, gate, gated_call, gate_decorator, hold, results, session, jobs, waiting, work)
FILES = {part.__file__ for part in PARTS} | {__file__}
LEASE_SECONDS = 2


def payment(il: Interlock, port: int, **options: Any) -> Callable[[str, int], str]:
    """`pay` of the README, with a bank on a port of this machine."""

    @il.gate(
        "finance.payment.execute",
        env="production",
        key=lambda invoice, **_: invoice,
        lease=LEASE_SECONDS,
        **options,
    )
    def pay(invoice: str, amount_cents: int) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", f"/{invoice}")
        said = connection.getresponse().read().decode()
        connection.close()
        return f"{said} {amount_cents}"

    return pay


def call(il: Interlock, port: int, invoice: str, fatal: int) -> dict[str, Any]:
    """One call; how many statements it took and how it ended."""
    killer = StatementKiller(FILES, fatal)
    pay = payment(il, port)
    threading.settrace(killer)
    sys.settrace(killer)
    try:
        ended = {"returned": pay(invoice, 100)}
    except InterlockError as outcome:
        ended = {"raised": type(outcome).__name__}
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    return {"statements": killer.seen, **ended}


def main() -> None:
    place, key, port = sys.argv[1], sys.argv[2] or None, int(sys.argv[3])
    for line in sys.stdin:
        fatal, invoice = line.split()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            is_server = place.startswith("http")
            il = Interlock(place, key) if is_server else Interlock(store=place)
            os.write(writing, json.dumps(call(il, port, invoice, int(fatal))).encode())
            os._exit(0)
        os.close(writing)
        os.waitpid(child, 0)
        print(os.read(reading, 1000).decode() or "null", flush=True)
        os.close(reading)


if __name__ == "__main__":
    main()
