"""Jobs and audit entries as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from interlock.cli.output import (
    Cell,
    Table,
    counted,
    exactly,
    listed,
    one_line,
    painted,
    pretty,
    safe,
    say,
    say_fields,
    state_cell,
    when,
)
from interlock.sdk.outcomes import because

if TYPE_CHECKING:
    from interlock.wire.events import AuditEntry
    from interlock.wire.jobs import Approval, Decision, Job

_TELLING = {
    "PENDING": "it may run",
    "RUNNING": "it is running",
    "SUCCEEDED": "done",
    "FAILED": "it failed for good",
    "DENIED": "it will not run",
    "CANCELLED": "it was withdrawn",
    "EXPIRED": "it was not decided in time",
}
# Of a gated call: only its caller runs it, and one that failed may have happened.
_CALL_TELLING = _TELLING | {
    "PENDING": "it may run, and waits for its caller",
    "RUNNING": "its caller runs it",
    "FAILED": "whether it happened is not known; it does not run again until a person records the outcome",
}


def is_call(job: Job) -> bool:
    """Whether it is the job of a gated call."""
    return job.executor == "caller"


def say_submitted(job: Job) -> None:
    """What became of a submitted job, and what to do next."""
    again = " (submitted before under this key)" if job.replayed else ""
    say(f"{job.id}  {painted(job.state, state_cell(job.state).style)}  {telling(job)}{again}")
    if job.state == "APPROVAL":
        say(
            f"  show it   interlock approval {job.id}",
            f"  follow it interlock job {job.id}",
        )


def telling(job: Job) -> str:
    """A job's state in a few words: who must act, or who decided."""
    approval = job.approval
    if job.state == "APPROVAL" and approval is not None:
        return waiting_for(approval)
    words = (_CALL_TELLING if is_call(job) else _TELLING).get(job.state, "")
    if job.state == "PENDING" and approval is not None and approval.in_grace:
        words = f"it may run from {exactly(approval.grace_until)} on, unless the approval is withdrawn"
    is_agreed = approval is None or approval.state == "approved"
    if job.state == "DENIED" and is_agreed:
        return f"{words} ({safe(because(job.decision))})"
    if job.state == "EXPIRED" and is_agreed:
        words = "its time to begin has passed"
    if approval is not None and approval.decided_by:
        verb = "approved" if approval.state == "approved" else "rejected"
        reason = f": {safe(approval.reason)}" if approval.reason else ""
        return f"{words}; {verb} by {safe(approval.decided_by)}{reason}"
    rule = job.decision.rule if job.decision and job.state == "PENDING" else None
    return f"{words} (rule {safe(rule)})" if rule else words


def waiting_for(approval: Approval, votes_needed: int | None = None) -> str:
    """Whom an approval waits for, and until when; `votes_needed` if it is known whose votes still count."""
    missing = max(0, approval.quorum - len(approval.votes)) if votes_needed is None else votes_needed
    whom = f" from {listed(approval.groups)}" if approval.groups else ""
    return f"waiting for {counted(missing, 'approval')}{whom}, expires {when(approval.expires_at)}"


def say_jobs(jobs: Sequence[Job]) -> None:
    """A table of jobs."""
    (
        Table(jobs)
        .column("ID", lambda job: job.id)
        .column("STATE", lambda job: state_cell(job.state))
        .column("TOPIC", lambda job: job.topic, flexible=True)
        .column("ENV", lambda job: job.env or "-", flexible=True, optional=True)
        .column("BY", lambda job: job.submitted_by or "-", flexible=True, optional=True)
        .column("EXECUTOR", lambda job: job.executor, optional=True)
        .column("SUBMITTED", lambda job: when(job.submitted_at), optional=True)
        .say()
    )


def say_job(job: Job) -> None:
    """Everything about one job."""
    say(painted(safe(job.topic), "bold"), "")
    say_fields(
        [
            ("job", job.id),
            ("state", Cell(f"{job.state}: {telling(job)}", state_cell(job.state).style)),
            ("submitted", f"{when(job.submitted_at)} by {safe(job.submitted_by or '-')}"),
            ("env", safe(job.env or "")),
            ("channel", safe(job.channel or "")),
            ("labels", listed([f"{name}={value}" for name, value in job.labels.items()], "")),
            ("risk", listed(job.risk, "")),
            ("priority", "" if job.priority == "normal" else job.priority),
            ("target", target_text(job)),
            ("policy", decision_text(job.decision)),
            (
                "expires",
                "" if job.expires_at is None else f"{when(job.expires_at)} ({exactly(job.expires_at)})",
            ),
            ("run", job.run_id or ""),
            ("executor", f"its caller, {safe(job.submitted_by or '-')}; no worker" if is_call(job) else ""),
            ("attempt", _attempt(job)),
            ("held up", job.held_up or ""),
            ("hash", job.job_hash),
            ("versions", f"{len(job.revisions) + 1}; see --json" if job.revisions else ""),
        ]
    )
    say_payload(job.payload)
    for name, value in (("error", job.error), ("result", job.result), ("result text", job.result_text)):
        if value is not None:
            _say_value(name, value)
    if job.state == "APPROVAL":
        say("", f"decide with: interlock approval {job.id}")
    if job.state == "FAILED" and is_call(job):
        say("", f"find out whether it happened, and say so: interlock effect call:{job.id}")


def say_payload(payload: object) -> None:
    """The exact payload, indented."""
    _say_value("payload", payload)


def _say_value(name: str, value: object) -> None:
    say("", painted(name, "dim"), *(f"  {line}" for line in pretty(value)))


def _attempt(job: Job) -> str:
    """The number of the attempt, which worker holds it, and when the next one may begin."""
    if not job.attempt:
        return ""
    until = f", {job.leased_by} has it until {exactly(job.lease_expires_at)}" if job.leased_by else ""
    rests = job.state == "PENDING" and job.not_before is not None
    after = f", not before {exactly(job.not_before)}" if rests else ""
    most = "" if is_call(job) else f" of {job.max_attempts}"
    return f"{job.attempt}{most}{until}{after}"


def target_text(job: Job) -> str:
    """What a job changes, and the version its submitter saw."""
    if job.target is None:
        return ""
    version = f" at version {safe(job.target.version)}" if job.target.version else ""
    return f"{safe(job.target.key)}{version}"


def decision_text(decision: Decision | None) -> str:
    """What the policy said, and which rule."""
    if decision is None:
        return ""
    is_plain = decision.reason == f"rule {decision.rule!r} matched"
    said = [
        f"rule {decision.rule}" if decision.rule else "",
        f"observed only, would be: {decision.observed}" if decision.observed else "",
        "" if is_plain else decision.reason or "",
    ]
    return f"{decision.decision} ({safe('; '.join(filter(None, said)) or 'no rule matched')})"


def say_entries(entries: Iterable[AuditEntry], *, of_one: bool = False) -> None:
    """A table of audit entries; of one subject, it need not be named again."""
    table = (
        Table(entries)
        .column("WHEN", lambda entry: when(entry.at))
        .column("WHO", lambda entry: entry.actor or "-", flexible=True)
        .column("DID", lambda entry: entry.action)
        .column("OUTCOME", lambda entry: _outcome(entry.outcome or "-"), optional=True)
    )
    if not of_one:
        table.column("TO", lambda entry: entry.subject or "-")
    table.column("DETAILS", _details, flexible=True, optional=True).say()


def _outcome(outcome: str) -> Cell:
    return Cell(safe(outcome), "" if outcome in ("done", "ok", "-") else "yellow")


def _details(entry: AuditEntry) -> str:
    rule = [f"rule {safe(entry.rule)}"] if entry.rule else []
    return "; ".join(
        [*rule, *(f"{safe(name)} {_plain(value)}" for name, value in entry.details.items() if value)]
    )


def _plain(value: object) -> str:
    return safe(value) if isinstance(value, str) else one_line(value)
