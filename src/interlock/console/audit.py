"""The audit log: who did what to what, a line for each, newest first, with everything noted about it on demand."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from interlock.console.visit import PageRoute, Visit
from interlock.wire.events import AuditEntry
from interlock.wire.fields import Page
from interlock.wire.http import Response

_FILTERS = ("actor", "action", "subject")
_DONE = (None, "", "done", "ok")
_REFUSED = "_refused"

# What a principal did, as it stands before what they did it to.
_VERBS = {
    "submit": "submitted",
    "vote": "said yes to",
    "approve": "approved",
    "reject": "rejected",
    "withdraw": "withdrew their yes to",
    "escalate": "asked more people about",
    "edit": "changed",
    "refresh": "put on the current policy",
    "comment": "commented on",
    "ask": "asked the submitter about",
    "ask_again": "asked people again about",
    "claim": "took",
    "claim_held_up": "could not be given",
    "complete": "finished",
    "deny": "denied",
    "doubt": "left in doubt",
    "fail": "reported a failure of",
    "release": "gave back",
    "lose": "took back",
    "replay": "offered again",
    "answer": "answered",
    "retry": "let run again",
    "cancel": "cancelled",
    "expire": "let expire",
    "effect_doubt": "left in doubt the effect",
    "effect_begin": "began the effect",
    "effect_commit": "carried out the effect",
    "effect_fail": "reported a failure of the effect",
    "effect_resolve": "settled the effect",
    "grant_issue": "issued the grant",
    "grant_claim": "used the grant",
    "grant_revoke": "revoked the grant",
    "grant_expire": "let expire the grant",
    "grant_terms_set": "set the terms of grants for",
    "lease_acquire": "took the lease on",
    "lease_release": "gave back the lease on",
    "lease_lost": "lost the lease on",
    "lease_terms_set": "set the terms of leases for",
    "conflict_resolve": "resolved the conflict",
    "target_touch": "touched",
    "policy_activate": "put a policy in force",
    "policy_roll_back": "went back to an earlier policy",
    "limit_set": "set the limit of",
    "limit_clear": "cleared the limit of",
    "workflow_define": "defined the workflow",
    "workflow_delete": "deleted the workflow",
    "run_start": "started the run",
    "run_renew": "renewed the run",
    "run_lose": "lost the run",
    "run_delete": "deleted the run",
    "run_completed": "completed the run",
    "run_failed": "reported a failure of the run",
    "run_cancelled": "cancelled the run",
    "principal_set": "changed the roles or groups of",
    "principal_remove": "removed",
    "key_issue": "issued an API key for",
    "key_revoke": "revoked an API key of",
    "session.opened": "signed in",
    "session.ended": "ended the session",
    "session.refused": "tried to sign in",
    "session_end": "ended the session",
    "sign_in_link.made": "made a sign-in link",
    "sign_in_link": "made a sign-in link",
    "webhook_add": "added the webhook",
    "webhook_rotate": "made a new secret for the webhook",
    "webhook_remove": "removed the webhook",
    "webhook_redeliver": "sent again an event to the webhook",
    "signer_add": "added the signer",
    "signer_revoke": "revoked the signer",
    "permit_key_create": "made the signing key",
    "permit_key_rotate": "replaced the signing key",
    "fences_raise": "raised every fence of",
    "clock_repair": "repaired the clock of",
}
# Where the page of a thing is, by how its id begins and, for names of principals, by what was done.
_PAGES_BY_ID = (
    ("job_", "list_jobs", "/console/jobs/"),
    ("cnf_", "get_conflict", "/console/conflicts/"),
    ("wh_", "get_webhook", "/console/deliveries/"),
)
_ABOUT_PRINCIPALS = ("principal_set", "key_issue", "key_revoke")


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as one line: who did what to which record, or was refused. Without an actor, it was Interlock itself."""

    n: int | None
    at: datetime | None
    actor: str
    action: str
    verb: str
    subject: str
    page: str | None
    is_about_another: bool
    refusal: str
    why: str
    facts: dict[str, Any]


async def show(visit: Visit) -> Response:
    filters = visit.query.given(*_FILTERS)
    cursor = visit.query.one("cursor")
    found = await visit.api.ask("list_audit", Page[AuditEntry], query={**filters, **visit.paging})
    return await visit.page(
        "audit.html",
        lines=[line_of(visit, entry) for entry in found.items],
        next_cursor=found.next_cursor,
        filters=filters,
        # A narrowed log is looked through from the start, so it is not fetched again with every event.
        is_live=not filters and not cursor,
        actions=sorted(_VERBS),
    )


def line_of(visit: Visit, entry: AuditEntry) -> Line:
    """An entry in words."""
    name = entry.action.removesuffix(_REFUSED)
    is_refused = name != entry.action or entry.outcome not in _DONE
    said = entry.details.get("reason") or entry.details.get("why") or entry.details.get("error") or ""
    facts = {
        "outcome": entry.outcome,
        "version": entry.subject_version,
        "rule": entry.rule,
        "hash": entry.hash,
        "request": entry.request_id,
        **entry.details,
    }
    return Line(
        n=entry.n,
        at=entry.at,
        actor=entry.actor or "",
        action=entry.action,
        verb=_VERBS.get(name) or name.replace(".", " ").replace("_", " "),
        subject=entry.subject or "",
        page=_page_of(visit, name, entry.subject or ""),
        is_about_another=entry.subject not in (entry.actor, "policy", "", None),
        refusal=_refusal(entry) if is_refused else "",
        why=str(said),
        facts={key: value for key, value in facts.items() if value is not None},
    )


def _refusal(entry: AuditEntry) -> str:
    """Why it was refused: the code, unless that says no more than that it was."""
    word = str(entry.outcome or "")
    return "refused" if word in ("done", "refused", "") else f"refused: {word.replace('_', ' ')}"


def _page_of(visit: Visit, action: str, subject: str) -> str | None:
    if action in _ABOUT_PRINCIPALS and visit.may("get_principal"):
        return f"/console/people/{subject}"
    for start, operation, page in _PAGES_BY_ID:
        if subject.startswith(start) and visit.may(operation):
            return page + subject
    return None


PAGES = (PageRoute(path="/console/audit", answer=show, operation="list_audit"),)
