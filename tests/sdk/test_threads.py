"""One client, many threads: the first answers of a type may come to all of them at once."""

from __future__ import annotations

import subprocess
import sys

from tests.harness.server import clean_env

# A crash takes its process with it, so it is looked for in one of its own.
SCRIPT = """
import sys, threading
import msgspec
from interlock.sdk.calls import decoded
from interlock.sdk.flow import Response

sys.setswitchinterval(1e-6)
answer = Response(status=200, headers={}, body=b'{"inner": {"a": 1, "b": "x"}}')
for turn in range(300):
    inner = msgspec.defstruct(f"Inner{turn}", [("a", "int"), ("b", "str"), ("c", "str | None", None)])
    outer = msgspec.defstruct(f"Outer{turn}", [("inner", inner), ("others", "list[int] | None", None)])
    together = threading.Barrier(8)

    def read():
        together.wait()
        decoded(answer, outer)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("alive")
"""

# Faults as they are have no parts, and would not show it; these do.
FAULTS = """
import sys, threading
import msgspec
from interlock.sdk import outcomes
from interlock.wire.problem import Problem

sys.setswitchinterval(1e-6)
said = {"errors": [{"path": "/a", "place": {"line": 1, "column": 2}}]}
refused = outcomes.InvalidRequest(Problem(status=400, code="invalid_request", fields=said))
for turn in range(600):
    place = msgspec.defstruct(f"Place{turn}", [("line", "int"), ("column", "int | None", None)])
    outcomes.Fault = msgspec.defstruct(f"Fault{turn}", [("place", place), ("path", "str", "")])
    together = threading.Barrier(8)

    def read():
        together.wait()
        assert refused.errors[0].place.column == 2

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("alive")
"""


def test_threads_that_are_refused_at_once_read_why() -> None:
    run = subprocess.run(
        [sys.executable, "-c", FAULTS], capture_output=True, text=True, timeout=120, env=clean_env()
    )
    assert (run.returncode, run.stdout) == (0, "alive\n"), run.stderr


def test_threads_that_get_the_first_answers_of_a_type_at_once_read_them() -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, env=clean_env()
    )
    assert (run.returncode, run.stdout) == (0, "alive\n"), run.stderr
