"""A claimant as a process of its own: reads claims from stdin, writes each answer to stdout, a JSON line each.

    python -m tests.races.grants.claimant_program URL|STORE|client:STORE [KEY]

It asks a server, the store as `interlock exec` does, or the store through `il.claim_grant`. A claim with `"stop": true`
stops the process (SIGSTOP) inside its own decision, where only an embedded claimant has one; a claim with
`"die": true` kills it there.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from interlock import NO_RETRIES, Interlock, InterlockError
from interlock.kernel.refusal import Fault
from interlock.rooms.grants.claims import ClaimGrant, NotClaimed
from interlock.service.local_kernel import LocalKernel

CLIENT = "client:"


def main(place: str, key: str | None = None) -> None:
    """Answer claims until stdin ends."""
    claim_at = _way_to(place, key)
    print(json.dumps({"ready": os.getpid()}), flush=True)
    for line in sys.stdin:
        claim: dict[str, Any] = json.loads(line)
        number = signal.SIGSTOP if claim.pop("stop", False) else None
        number = signal.SIGKILL if claim.pop("die", False) else number
        if number:
            _interrupt(number)
        print(json.dumps(claim_at(claim)), flush=True)


def _way_to(place: str, key: str | None) -> Callable[[dict[str, Any]], dict[str, Any]]:
    if place.startswith("http"):
        return _through(Interlock(place, key, retry=NO_RETRIES))
    if place.startswith(CLIENT):
        return _through(Interlock(store=place.removeprefix(CLIENT), retry=NO_RETRIES))
    return _on_store(place)


def _through(client: Interlock) -> Callable[[dict[str, Any]], dict[str, Any]]:
    client.get_health()

    def claim_at(claim: dict[str, Any]) -> dict[str, Any]:
        try:
            found = client.claim_grant(claim.pop("task"), **claim)
        except InterlockError as error:
            return {"error": error.code}
        return {"claimed": found.claimed, "grant_id": found.grant_id, "use": found.use}

    return claim_at


def _on_store(place: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    store = LocalKernel(place)

    def claim_at(claim: dict[str, Any]) -> dict[str, Any]:
        task, execution_id = claim["task"], claim["execution_id"]
        try:
            found = store.run(
                ClaimGrant(caller=store.caller, task=task, args=msgspec.Raw(b"{}"), execution_id=execution_id)
            )
        except Fault as fault:
            return {"error": type(fault).__name__}
        if isinstance(found, NotClaimed):
            return {"claimed": False, "grant_id": None, "use": None}
        return {"claimed": True, "grant_id": found.grant_id, "use": found.use}

    return claim_at


def _interrupt(number: int) -> None:
    """Let the next consumption end in a signal to this process, once."""
    claiming: Any = importlib.import_module("interlock.rooms.grants.claims")
    consume = claiming.consume

    def interrupted(*args: Any) -> Any:
        claiming.consume = consume
        used = consume(*args)
        signal.raise_signal(number)  # to this very thread, so that it goes no further
        return used

    claiming.consume = interrupted


if __name__ == "__main__":
    main(*sys.argv[1:])
