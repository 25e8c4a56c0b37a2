"""What happened to a request, in words: submitted, notified, opened, voted, escalated, decided, claimed, done."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from interlock.console.shown import listed
from interlock.wire.approvals import ApprovalRequest
from interlock.wire.events import AuditEntry

_WORDS = {
    "submit": "submitted it",
    "vote": "said yes",
    "approve": "approved it",
    "reject": "rejected it",
    "withdraw": "withdrew their yes",
    "escalate": "asked more people",
    "edit": "changed the request",
    "refresh": "put it on the current policy",
    "comment": "commented",
    "ask": "asked the submitter",
    "ask_again": "asked people again",
    "claim": "took it",
    "claim_held_up": "could not be given it",
    "complete": "finished it",
    "deny": "denied it",
    "doubt": "left it in doubt",
    "fail": "reported a failure",
    "release": "gave it back",
    "lose": "took it back: its worker stopped renewing",
    "replay": "offered it again",
    "answer": "answered it",
    "retry": "let it run again",
    "cancel": "cancelled it",
    "expire": "let it expire",
}


# What the log calls an author who is nobody: a sweep, or a step of a run.
_ITSELF = "interlock"
# Told from the request's escalations, which name the groups.
_ESCALATED = "escalate"


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a timeline."""

    at: datetime | None
    actor: str
    words: str
    more: str = ""


def timeline_of(request: ApprovalRequest, history: Iterable[AuditEntry]) -> list[Moment]:
    """The oldest first. Who opened the request is not audited; it is told from those who looked."""
    moments = [moment_of(entry) for entry in history if entry.action != _ESCALATED]
    later = {group for each in request.escalations if each.happened for group in each.groups}
    first = [group for group in request.approval.groups if group not in later]
    told = listed(first or request.approval.groups) or "every reviewer"
    moments.append(Moment(at=request.approval.requested_at, actor="Interlock", words=f"notified {told}"))
    moments += [Moment(at=each.first_at, actor=each.principal, words="opened it") for each in request.viewers]
    moments += [
        Moment(at=each.at, actor="Interlock", words=f"notified {listed(each.groups)} too")
        for each in request.escalations
        if each.happened
    ]
    return sorted(moments, key=lambda moment: moment.at or datetime.min.replace(tzinfo=UTC))


def moment_of(entry: AuditEntry) -> Moment:
    """An audit entry in words; one that was refused says why."""
    action = entry.action.removesuffix("_refused")
    words = _WORDS.get(action) or action.replace(".", " ").replace("_", " ")
    details = entry.details
    reason = details.get("reason") or details.get("error") or ""
    if entry.outcome not in (None, "done", "ok", ""):
        words = f"tried: {words} ({str(entry.outcome).replace('_', ' ')})"
    via = "in the console" if details.get("via") == "console" else ""
    more = " · ".join(str(part) for part in (reason, via) if part)
    actor = entry.actor if entry.actor not in (None, "", _ITSELF) else "Interlock"
    return Moment(at=entry.at, actor=actor, words=words, more=more)
