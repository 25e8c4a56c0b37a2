"""One claimant of the grants benchmark, a process of its own: `python -m bench.claimant TASK PLACE [KEY]`.

Reads how many seconds to claim for from stdin, a line each, and answers each with a JSON line: the seconds that
every won claim took, and how many ended in a fault.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench.line import Line, Refused
from interlock.kernel.ids import new_id

CLIENT = "client:"
BARE = "bare:"


class Claimed(NamedTuple):
    """How a claimant fared: `faults` are claims that could not be decided in time."""

    seconds: list[float]
    faults: int


def main(task: str, place: str, key: str = "") -> None:
    """Answer until stdin ends."""
    claim_for = _way_to(task, place, key)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(claim_for(float(line))), flush=True)


def _way_to(task: str, place: str, key: str) -> Callable[[float], Claimed]:
    if place.startswith("http"):
        return _through_service(task, place, key)
    if place.startswith(CLIENT):
        return _through_client(task, place.removeprefix(CLIENT))
    if place.startswith(BARE):
        return _bare(task, place.removeprefix(BARE))
    return _embedded(task, place) if place.startswith("sqlite") else _lock_file(task, Path(place))


def _lock_file(task: str, log: Path) -> Callable[[float], Claimed]:
    """The rival: a log that is scanned and appended to, synced, by the process that made the lock file."""
    from bench.lock_file import TimedOut, claim

    return lambda seconds: _until(seconds, lambda: claim(log, task, new_id("exec")), TimedOut)


def _embedded(task: str, place: str) -> Callable[[float], Claimed]:
    """As `interlock exec` asks its own store, without the effect that it begins with it."""
    import msgspec

    from interlock.kernel.refusal import Fault
    from interlock.rooms.grants.claims import ClaimGrant
    from interlock.rooms.grants.model import GrantUse
    from interlock.service.local_kernel import LocalKernel

    kernel, nothing = LocalKernel(place), msgspec.Raw(b"{}")

    def claim() -> bool:
        command = ClaimGrant(caller=kernel.caller, task=task, args=nothing, execution_id=new_id("exec"))
        return isinstance(kernel.run(command), GrantUse)

    return lambda seconds: _until(seconds, claim, Fault)


def _bare(task: str, place: str) -> Callable[[float], Claimed]:
    """The same statements on the same file, and nothing decided."""
    from bench.bare_claim import BareClaim
    from interlock.kernel.storage import LockTimeout

    bare = BareClaim(Path(place.removeprefix("sqlite:///")), task)
    return lambda seconds: _until(seconds, bare.claim, LockTimeout)


def _through_client(task: str, place: str) -> Callable[[float], Claimed]:
    """As a program calls `il.claim_grant` on a store of its own: the whole service in its process."""
    from interlock import Interlock, InterlockError

    il = Interlock(store=place)
    il.claim_grant(task)  # The first call opens the store.
    return lambda seconds: _until(seconds, lambda: il.claim_grant(task).claimed, InterlockError)


def _until(seconds: float, claim: Callable[[], bool], fault: type[Exception]) -> Claimed:
    took: list[float] = []
    faults = 0
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        try:
            won = claim()
        except fault:
            faults += 1
            continue
        if not won:
            raise SystemExit("the grants of the benchmark ran out")
        took.append(time.perf_counter() - began)
    return Claimed(took, faults)


def _through_service(task: str, url: str, key: str) -> Callable[[float], Claimed]:
    """Over one kept connection, with as little of the machine as a caller can do with."""
    line = Line(url, {"Authorization": f"Bearer {key}"})

    def claim() -> bool:
        return bool(
            line.post("/api/v1/grants/claim", {"task": task, "execution_id": new_id("exec")})["claimed"]
        )

    return lambda seconds: _until(seconds, claim, Refused)


if __name__ == "__main__":
    main(*sys.argv[1:])
