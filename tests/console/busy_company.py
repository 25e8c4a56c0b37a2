"""A day at the company, for pages that show what many did: jobs in every state, leases, collisions, effects, runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import httpx2

from interlock import Interlock, InterlockError
from tests.harness.console_site import ConsoleSite

FILE = "repo:billing/invoice.py"
HASH = f"sha256:{'ab' * 32}"
Form = dict[str, str | float | bool]


def call(site: ConsoleSite, key: str, method: Any, *segments: str, **body: object) -> dict[str, Any]:
    """Call a route as whoever has `key`; the rest is the body."""
    return site.client(key).call(method, *segments, body=body)


def take(site: ConsoleSite) -> Any:
    """The worker takes a small payment, which is submitted for it."""
    job = site.submit(5_000, to="Vendor")
    (held,) = site.client(site.payouts).claim_jobs(["finance.**"])
    assert held.id == job.id
    return held


def dead_letter(site: ConsoleSite, error: object = "the bank refused") -> str:
    """A payment that the worker said can never work."""
    job = take(site)
    call(site, site.payouts, "POST", "jobs", job.id, "fail", fence=job.fence, error=error, retryable=False)
    return job.id


def lease(site: ConsoleSite, key: str, resource: str = FILE, **options: object) -> dict[str, Any]:
    return call(site, key, "POST", "leases", resource=resource, **{"ttl_seconds": 600, **options})


def stand_in_line(site: ConsoleSite, key: str, resource: str, purpose: str) -> threading.Thread:
    """Somebody waits for a resource, until the server ends."""

    def wait() -> None:
        body: Mapping[str, object] = {"resource": resource, "purpose": purpose, "wait_seconds": 60}
        with Interlock(site.url, key=key) as client:
            try:
                client.call("POST", "leases", body=body, hold_seconds=70)
            except (InterlockError, OSError):
                return

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def edited_while_leased(site: ConsoleSite) -> tuple[str, dict[str, Any]]:
    """Ann changes the file that the agent holds; the conflict's id, and the lease."""
    held = lease(site, site.billing_bot, purpose="fix rounding")
    touched = call(
        site,
        site.ann,
        "POST",
        "targets",
        FILE,
        "touch",
        version="v2",
        previous_version="v1",
        summary="by hand",
    )
    return touched["conflict_id"], held


def moved_under_a_draft(site: ConsoleSite) -> tuple[str, str]:
    """The target of a request that waits is changed; the conflict's id, and the job's."""
    job = site.submit(target={"key": "ledger:2026-11", "version": "v7"})
    touched = call(site, site.payouts, "POST", "targets", "ledger:2026-11", "touch", version="v8")
    return touched["conflict_id"], job.id


def effect(site: ConsoleSite, action_id: str) -> dict[str, Any]:
    """The worker begins an effect."""
    return call(site, site.payouts, "POST", "effects", action_id, "begin", request_hash=HASH, ttl_seconds=600)


def in_doubt(site: ConsoleSite, action_id: str) -> None:
    """The worker began it and cannot tell whether it happened."""
    fence = effect(site, action_id)["fence"]
    call(
        site, site.payouts, "POST", "effects", action_id, "fail",
        fence=fence, error="connection reset", safe_to_retry=False,
    )  # fmt: skip


def committed(site: ConsoleSite, action_id: str) -> None:
    fence = effect(site, action_id)["fence"]
    call(site, site.payouts, "POST", "effects", action_id, "commit", fence=fence, result={"id": "po_88"})


def person(site: ConsoleSite, name: str, *roles: str) -> str:
    """Somebody new; returns their key."""
    made = call(site, site.ann, "POST", "principals", name, "keys", kind="person", roles=list(roles))
    return made["key"]


def busy_day(site: ConsoleSite) -> list[str]:
    """A bit of everything; the addresses of the pages that show it."""
    dead = dead_letter(site, {"message": "account closed", "code": "AC04"})
    running = take(site)
    call(
        site, site.payouts, "POST", "jobs", running.id, "renew",
        fence=running.fence, checkpoint={"step": 2, "last": "checked the IBAN"},
    )  # fmt: skip
    edited, held = edited_while_leased(site)
    moved, waiting = moved_under_a_draft(site)
    call(
        site, site.billing_bot, "POST", "leases", held["lease_id"], "checkpoint",
        fence=held["fence"], done=["read the tests"], open_questions=["half up or half even?"],
    )  # fmt: skip
    in_doubt(site, "refund:4711")
    committed(site, "payout:2026-11/acme")
    call(site, site.billing_bot, "POST", "workflows", "nightly", "runs", ttl_seconds=600)
    return [
        "/console/jobs",
        "/console/jobs?state=FAILED",
        f"/console/jobs/{dead}",
        f"/console/jobs/{running.id}",
        f"/console/jobs/{waiting}",
        "/console/board",
        f"/console/board/{held['lease_id']}",
        "/console/conflicts",
        f"/console/conflicts/{edited}",
        f"/console/conflicts/{moved}",
        "/console/effects",
        "/console/effects/refund:4711",
        "/console/effects/payout:2026-11%2Facme",
    ]


# With these, what cannot be delivered is a dead letter at once.
DEAD_AT_ONCE = {
    "INTERLOCK_WEBHOOK_ALLOW_PRIVATE": "127.0.0.0/8",
    "INTERLOCK_WEBHOOK_ATTEMPTS_MAX": "1",
    "INTERLOCK_WEBHOOK_RETRY_BASE_SECONDS": "0.1",
}


# Every list there is, and some with their filters.
LISTS = (
    "/console/inbox",
    "/console/inbox?show=all",
    "/console/inbox?topic=finance.payment.execute",
    "/console/jobs?q=billing",
    "/console/conflicts?state=open",
    "/console/effects?state=AMBIGUOUS",
    "/console/grants",
    "/console/runs",
    "/console/runs?workflow=report",
    "/console/workflows",
    "/console/policy",
    "/console/audit",
    "/console/audit?actor=billing-bot",
    "/console/traffic",
    "/console/deliveries",
    "/console/people",
    "/console/people?tab=keys",
    "/console/people?tab=sessions",
    "/console/people/ann",
    "/console/settings",
)


def long_history(site: ConsoleSite) -> list[str]:
    """Something for every list there is; the addresses of every page that lists something.

    The site is started with `DEAD_AT_ONCE`.
    """
    pages = busy_day(site)
    ann = site.client(site.ann)
    ann.define_workflow("report", [{"id": "ask", "kind": "approval"}])
    run = site.client(site.payouts).start_run("report", input={"month": "2030-01"})
    grant = call(site, site.ann, "POST", "grants", task="deploy", uses=5, expires_in="1h", reason="hotfix")
    call(site, site.payouts, "POST", "grants", "claim", task="deploy", execution_id="deploy-1")
    form = {"api_key": site.bob}
    assert (
        httpx2.post(f"{site.url}/console/sign-in", data=form, headers={"origin": site.url}).status_code == 303
    )
    hook = call(site, site.ann, "POST", "webhooks", url="http://127.0.0.1:9/events")
    waiting = site.submit().id
    while not ann.call("GET", "webhooks", hook["id"], "dead-letters")["items"]:
        time.sleep(0.05)  # nobody listens there
    return [
        *pages,
        *LISTS,
        f"/console/approvals/{waiting}",
        f"/console/approvals/{waiting}/edit",
        f"/console/grants/{grant['id']}",
        f"/console/runs/{run.run_id}",
        f"/console/deliveries/{hook['id']}",
    ]
