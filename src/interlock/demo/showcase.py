"""`interlock demo --open`: a company in the middle of its day, on a server that stays until you end it.

Everything in it came about as it would in earnest: agents submitted, people voted, a worker failed, two agents met over
one file. So every page of the console has something to show.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

from interlock.cli.output import painted, say
from interlock.demo.server import Actor, DemoBroken, DemoServer
from interlock.demo.story import Answer

POLICY = """\
version: v1
default: deny
rules:
  - id: reading-is-free
    when: {topic: knowledge.read}
    decision: allow
  - id: small-payments-run
    when: {topic: finance.payment.execute}
    if: has(payload.amount_cents) && payload.amount_cents <= 10000
    decision: allow
  - id: payments-need-two-of-finance
    when: {topic: finance.payment.execute, env: production}
    decision: require_human
    approval:
      quorum: 2
      groups: [finance]
      expires_in: 4h
      grace: 30s
      escalate: [{after: 2h, groups: [finance-leads]}]
  - id: deploys-need-a-person
    when: {topic: deploy.service, env: production}
    decision: require_human
    approval: {expires_in: 1h}
  - id: mail-to-customers-needs-a-person
    when: {topic: customer.notify, channel: external}
    decision: require_human
    approval: {expires_in: 24h}
  - id: anything-in-staging
    when: {env: staging}
    decision: allow
"""


def show() -> None:
    """Start the server, fill its store, print how to sign in, and stay until Ctrl-C."""
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    with DemoServer() as server:
        ann = fill(server)
        link = _made(ann.post("sign-in-links"))
        say(
            "A server runs on a temporary store, with a day's worth of requests, conflicts and runs.",
            "",
            f"   sign in as ann, once:  {painted(server.url + link['path'], 'bold')}",
            f"   ann's API key:         {ann.key}",
            "",
            "Ctrl-C ends it and leaves nothing behind.",
        )
        ended.wait()


def fill(server: DemoServer) -> Actor:
    """A company's day; returns ann, who may see everything and decides."""
    _made(server.admin.put_policy(POLICY))
    everything = ("review", "operate", "audit", "admin", "submit")
    ann = server.add_principal("ann", roles=everything, groups=["finance"])
    bob = server.add_principal("bob", groups=["finance"])
    server.add_principal("lea", groups=["finance-leads"])
    server.add_principal("mia", roles=("review", "submit"))
    agent = ("submit", "work")
    billing = server.add_principal("billing-bot", kind="agent", roles=agent, owner="mia")
    release = server.add_principal("release-bot", kind="agent", roles=agent, owner="bob")
    worker = server.add_principal("payouts", kind="worker", roles=agent)
    _payments(billing, worker, ann, bob)
    _deploys(release, ann)
    _work_on_shared_files(billing, release, ann)
    _runs(server, worker)
    _grants_and_effects(ann, worker)
    return ann


def _payments(billing: Actor, worker: Actor, ann: Actor, bob: Actor) -> None:
    for number, (to, cents) in enumerate((("Globex", 4_200), ("Initech", 9_900), ("Umbrella", 7_350))):
        _made(billing.post("jobs", _payment(to, cents, f"inv-{2030 + number}")))
    for held in _made(worker.post("jobs/claim", {"topics": ["finance.payment.execute"], "max": 3}))["jobs"][
        :2
    ]:
        _made(worker.post(f"jobs/{held['id']}/complete", {"fence": held["fence"], "result": {"paid": True}}))
    dead = _made(billing.post("jobs", _payment("Hooli", 6_000, "inv-2034") | {"max_attempts": 1}))
    for held in _made(worker.post("jobs/claim", {"topics": ["finance.payment.execute"], "max": 5}))["jobs"]:
        if held["id"] == dead["id"]:
            failed = {
                "fence": held["fence"],
                "error": "the bank refused the account number",
                "retryable": False,
            }
            _made(worker.post(f"jobs/{held['id']}/fail", failed))
    first = _made(billing.post("jobs", _payment("Acme", 25_000, "inv-2041", evidence=_EVIDENCE)))
    _made(bob.post(f"approvals/{first['id']}/approve", {"reason": "matches order 1177"}))
    _made(ann.post(f"approvals/{first['id']}/ask", {"text": "Is this the same invoice as last month?"}))
    answer = {"text": "No: last month was inv-1998, for October."}
    _made(billing.post(f"approvals/{first['id']}/comment", answer))
    _made(billing.post("jobs", _payment("Stark Industries", 1_250_000, "inv-2042") | {"priority": "high"}))
    refused = _made(billing.post("jobs", _payment("Wonka", 88_000, "inv-2043")))
    _made(bob.post(f"approvals/{refused['id']}/reject", {"reason": "we cancelled that order in October"}))


_EVIDENCE = [
    {
        "title": "Invoice inv-2041",
        "kind": "markdown",
        "content": "| Item | EUR |\n|---|---|\n| Hosting, November | 200.00 |\n| Support | 50.00 |\n",
    },
    {
        "title": "Order 1177",
        "kind": "json",
        "content": '{"order": 1177, "limit": "300.00 EUR", "signed_by": "lea"}',
    },
]


def _payment(to: str, cents: int, invoice: str, **more: object) -> dict[str, object]:
    payload = {
        "to": to,
        "amount_cents": cents,
        "currency": "EUR",
        "invoice": invoice,
        "due": "2026-12-01T12:00:00Z",
    }
    target = {"key": f"invoice:{invoice}"}
    return {
        "topic": "finance.payment.execute",
        "env": "production",
        "payload": payload,
        "target": target,
    } | more


def _deploys(release: Actor, ann: Actor) -> None:
    deploy = {"service": "api", "version": "4f2c91", "previous": "77ab03", "changes": 12}
    body = {"topic": "deploy.service", "env": "production", "payload": deploy, "labels": {"team": "platform"}}
    _made(release.post("jobs", body | {"target": {"key": "service:api", "version": "77ab03"}}))
    touched = {"version": "81d0aa", "previous_version": "77ab03", "summary": "hotfix by hand, ticket 512"}
    _made(ann.post("targets/service:api/touch", touched))
    mail = {"subject": "Your invoice for November", "recipients": 812, "template": "invoice-v3"}
    _made(release.post("jobs", {"topic": "customer.notify", "channel": "external", "payload": mail}))
    _made(release.post("jobs", body | {"env": "staging"}))


def _work_on_shared_files(billing: Actor, release: Actor, ann: Actor) -> None:
    held = _made(
        billing.post("leases", {"resource": "repo:billing/invoice.py", "purpose": "ticket 4711: VAT of 19 %"})
    )
    done = {
        "fence": held["fence"],
        "done": ["tests written"],
        "open_questions": ["is the old rate still needed?"],
    }
    _made(billing.post(f"leases/{held['lease_id']}/checkpoint", done))
    _made(release.post("leases", {"resource": "repo:api/routes.py", "purpose": "rename an endpoint"}))
    change = {"version": "b7c2", "summary": "fixed the VAT by hand"}
    _made(ann.post("targets/repo:billing%2Finvoice.py/touch", change))


def _runs(server: DemoServer, worker: Actor) -> None:
    _made(server.admin.put("limits/nightly-report", {"max_concurrent_runs": 2}))
    for _ in range(5):
        worker.post("workflows/nightly-report/runs", {"ttl_seconds": 3600})
    for _ in range(3):
        worker.post("workflows/reconcile-ledger/runs", {"ttl_seconds": 3600})
    _made(server.admin.put("workflows/month-end", {"steps": _MONTH_END}))
    _made(worker.post("workflows/month-end/runs", {"input": {"month": "2026-11"}, "ttl_seconds": 3600}))


_MONTH_END = [
    {"id": "figures", "topic": "knowledge.read"},
    {"id": "agree", "kind": "approval", "groups": ["finance"], "depends_on": ["figures"]},
    {"id": "publish", "topic": "customer.notify", "depends_on": ["agree"]},
]


def _grants_and_effects(ann: Actor, worker: Actor) -> None:
    grant = {"task": "db.migrate", "uses": 2, "expires_in": "8h", "reason": "release 4f2c91"}
    _made(ann.post("grants", grant | {"pins": {"database": "billing"}}))
    claim = {"task": "db.migrate", "args": {"database": "billing"}, "execution_id": "migrate-1"}
    _made(worker.post("grants/claim", claim))
    begun = _made(
        worker.post("effects/refund:2039/begin", {"request_hash": "sha256:" + "0" * 64, "ttl_seconds": 60})
    )
    unclear = {"fence": begun["fence"], "error": "the bank did not answer", "safe_to_retry": False}
    _made(worker.post("effects/refund:2039/fail", unclear))


def _made(answer: Answer) -> dict[str, Any]:
    if answer.status >= 400:
        raise DemoBroken(f"the demo's data could not be made: {answer.status} {answer.word}: {answer.body}")
    return answer.body
