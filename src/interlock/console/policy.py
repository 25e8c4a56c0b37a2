"""The policy in force, and an editor that checks, compares, simulates and tests a text before it is applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from interlock.console.client import Refusal, Refused
from interlock.console.shown import changed_lines, pretty
from interlock.console.visit import Notice, PageRoute, Visit, notice_of
from interlock.wire.fields import Page
from interlock.wire.http import Response
from interlock.wire.jobs import Job
from interlock.wire.policy import Evaluation, Policy, PolicyWarning, Simulation

_LAST = 200
_CHANGES_SHOWN = 100
_LINES_AROUND = 2
_HERE = "/console/policy"
_OUTCOMES = {
    "applied": "The policy is in force.",
    "rolled_back": "The earlier policy is in force again.",
}
_MOVED = (
    "The policy in force is no longer the one you began with, so nothing was applied. "
    "See below what your text would change in it now; apply again if that is right."
)


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """The text in the editor, and what was found out about it."""

    text: str
    job: str = ""
    last: str = str(_LAST)
    lines: Sequence[Any] = ()
    remarks: Sequence[PolicyWarning] = ()
    changes: list[tuple[str, str]] | None = None
    simulation: Simulation | None = None
    evaluation: Evaluation | None = None
    is_review: bool = False


async def show(visit: Visit) -> Response:
    notice = visit.outcome(_OUTCOMES)
    tab = visit.query.one("tab")
    if tab == "snapshots":
        return await _snapshots(visit, notice=notice)
    if tab == "observed":
        return await _observed(visit)
    kept = visit.query.one("snapshot")
    draft = None
    if kept:
        policy = await visit.api.ask("get_snapshot", Policy, path={"snapshot": kept})
        draft = Draft(text=_text_of(policy))
    return await _editor(visit, draft, notice=notice)


async def act(visit: Visit) -> Response:
    """What the editor's buttons do. Nothing is stored, unless it is applied."""
    do = visit.form.one("do")
    draft = Draft(
        text=visit.form.text("policy"), job=visit.form.text("job"), last=visit.form.one("last") or str(_LAST)
    )
    try:
        if do == "put":
            return await _put(visit, draft)
        draft, notice = await (_DONE.get(do) or _checked)(visit, draft)
    except Refused as refused:
        return await _refused(visit, draft, refused.refusal)
    return await _editor(visit, draft, notice=notice)


async def roll_back(visit: Visit) -> Response:
    body = {"snapshot": visit.form.one("snapshot")}
    try:
        await visit.api.ask("roll_back_policy", Policy, body=body)
    except Refused as refused:
        return await _snapshots(visit, notice=notice_of(refused.refusal))
    return visit.redirect(_HERE, tab="snapshots", outcome="rolled_back")


async def _checked(visit: Visit, draft: Draft) -> tuple[Draft, Notice | None]:
    found = await _simulated(visit, draft.text, 1)
    in_force = await _in_force(visit)
    said = "The text is a policy."
    if found.snapshot == in_force.snapshot:
        said += " It says the same as the one in force."
    if count := len(found.warnings):
        said += f" {count} warning{'' if count == 1 else 's'}: see below."
    return _remarked(draft, found.warnings), Notice(text=said)


async def _compared(visit: Visit, draft: Draft) -> tuple[Draft, Notice | None]:
    changes = changed_lines(_text_of(await _in_force(visit)), draft.text)
    return msgspec.structs.replace(draft, changes=changes), None


async def _held_against_jobs(visit: Visit, draft: Draft) -> tuple[Draft, Notice | None]:
    last: Any = int(draft.last) if draft.last.isascii() and draft.last.isdigit() else draft.last
    found = await _simulated(visit, draft.text, last)
    return msgspec.structs.replace(_remarked(draft, found.warnings), simulation=found), None


async def _reviewed(visit: Visit, draft: Draft) -> tuple[Draft, Notice | None]:
    """Everything a person should see before the text is put in force."""
    draft, _ = await _compared(visit, draft)
    draft, _ = await _held_against_jobs(visit, draft)
    return msgspec.structs.replace(draft, is_review=True), None


async def _tested(visit: Visit, draft: Draft) -> tuple[Draft, Notice | None]:
    """Ask the text in the editor about one job: a stored one by its id, or one that was pasted."""
    is_in_force = draft.text.strip() == _text_of(await _in_force(visit)).strip()
    body = await _asked_about(visit, draft, None if is_in_force else draft.text)
    evaluation = await visit.api.ask("evaluate_policy", Evaluation, body=body)
    return msgspec.structs.replace(draft, evaluation=evaluation), None


_DONE = {
    "check": _checked,
    "diff": _compared,
    "simulate": _held_against_jobs,
    "test": _tested,
    "apply": _reviewed,
}


async def _put(visit: Visit, draft: Draft) -> Response:
    """Put the text in force, if the policy in force is still the one that the person compared it with."""
    query = {"expecting": visit.form.one("based_on") or None}
    try:
        await visit.api.ask(
            "put_policy", Policy, query=query, body=draft.text.encode(), content_type="application/yaml"
        )
    except Refused as refused:
        if refused.refusal.code != "conflict":
            raise
        draft, _ = await _reviewed(visit, draft)
        notice = Notice(text=_MOVED, is_problem=True, refusal=refused.refusal, status=409)
        return await _editor(visit, draft, notice=notice)
    return visit.redirect(_HERE, outcome="applied")


async def _refused(visit: Visit, draft: Draft, refusal: Refusal) -> Response:
    """A text that is no policy is shown with what is wrong beside each line."""
    found = msgspec.convert(refusal.fields.get("errors", []), list[PolicyWarning])
    errors = [each for each in found if each.line]
    if not errors:
        return await _editor(visit, draft, notice=notice_of(refusal))
    count = f"{len(errors)} problem{'' if len(errors) == 1 else 's'}"
    said = f"The text is not a policy yet: {count} found, the first in line {errors[0].line}: {errors[0].reason}."
    notice = Notice(text=said, is_problem=True, status=refusal.status)
    return await _editor(visit, _remarked(draft, errors), notice=notice)


async def _editor(visit: Visit, draft: Draft | None = None, *, notice: Notice | None = None) -> Response:
    policy = await _in_force(visit)
    source = _text_of(policy)
    return await visit.page(
        "policy.html",
        policy=policy,
        document=policy.document,
        is_observing=policy.document.get("mode") == "observe",
        source=source,
        draft=draft or Draft(text=source),
        since=await _since(visit, source),
        changes_shown=_CHANGES_SHOWN,
        notice=notice,
    )


async def _since(visit: Visit, source: str) -> dict[str, Any] | None:
    """What changed between an earlier policy and the one in force."""
    old = visit.query.one("from")
    if not old or visit.request.method != "GET":
        return None
    kept = await visit.api.ask("get_snapshot", Policy, path={"snapshot": old})
    return {"policy": kept, "changes": changed_lines(_text_of(kept), source)}


async def _snapshots(visit: Visit, *, notice: Notice | None = None) -> Response:
    found = await visit.api.ask("list_snapshots", Page[Policy], query=visit.paging)
    return await visit.page(
        "policy_snapshots.html",
        snapshots=[(kept, len(kept.document.get("rules", ()))) for kept in found.items],
        next_cursor=found.next_cursor,
        in_force=await _in_force(visit),
        notice=notice,
    )


async def _observed(visit: Visit) -> Response:
    found = await visit.api.ask("list_observed", Page[Job], query=visit.paging)
    policy = await _in_force(visit)
    return await visit.page(
        "policy_observed.html",
        jobs=found.items,
        next_cursor=found.next_cursor,
        is_observing=policy.document.get("mode") == "observe",
    )


async def _in_force(visit: Visit) -> Policy:
    return await visit.api.ask("get_policy", Policy)


async def _simulated(visit: Visit, text: str, last: Any) -> Simulation:
    return await visit.api.ask("simulate_policy", Simulation, body={"policy": text, "last": last})


def _text_of(policy: Policy) -> str:
    """A policy as it was written; one that has no text of its own, as it is stored."""
    return policy.source or f"{pretty(policy.document)}\n"


async def _asked_about(visit: Visit, draft: Draft, candidate: str | None) -> dict[str, Any] | bytes:
    """What `evaluate_policy` is sent. A pasted job is sent as it was written, and read strictly there."""
    text = draft.job.strip()
    rest = {"policy": candidate} if candidate is not None else {}
    if not text.startswith("{"):
        if not text:
            raise _cannot("Which job? Give the id of one, or paste one as JSON.")
        job = await visit.api.ask("get_job", Job, path={"job_id": text})
        return {**_action_of(job), **rest}
    try:
        pasted = msgspec.json.decode(text.encode(), type=dict[str, Any])
        if "job_hash" in pasted:
            return {**_action_of(msgspec.convert(pasted, Job)), **rest}
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeEncodeError) as error:
        raise _cannot(f"The job is not JSON that can be read: {error}.") from None
    if candidate is None:
        return text.encode()
    comma = b"," if pasted else b""
    return text[:-1].encode() + comma + b'"policy":' + msgspec.json.encode(candidate) + b"}"


def _action_of(job: Job) -> dict[str, Any]:
    """A stored job, as its submitter would submit it now."""
    labels = {name: value for name, value in job.labels.items() if name not in job.system_labels}
    action: dict[str, Any] = {
        "topic": job.topic,
        "labels": labels,
        "risk": job.risk,
        "priority": job.priority,
    }
    if job.payload is not msgspec.UNSET:
        action["payload"] = job.payload
    action |= {name: value for name, value in (("env", job.env), ("channel", job.channel)) if value}
    if job.submitted_by:
        action["actor"] = {"id": job.submitted_by}
    return action


def _cannot(detail: str) -> Refused:
    return Refused(Refusal(code="invalid_request", status=400, title="Not possible", detail=detail))


def _remarked(draft: Draft, remarks: Sequence[PolicyWarning]) -> Draft:
    return msgspec.structs.replace(draft, remarks=remarks, lines=remarked_lines(draft.text, remarks))


def remarked_lines(text: str, remarks: Sequence[PolicyWarning]) -> list[Mapping[str, Any] | None]:
    """The lines that something is said about, with it, and a few around them; None stands for lines left out."""
    lines = text.split("\n")
    by_line: dict[int, list[PolicyWarning]] = {}
    for each in remarks:
        by_line.setdefault(max(1, min(each.line, len(lines))), []).append(each)
    near = sorted(
        {
            number
            for at in by_line
            for number in range(max(1, at - _LINES_AROUND), min(len(lines), at + _LINES_AROUND) + 1)
        }
    )
    shown: list[Mapping[str, Any] | None] = []
    for number in near:
        if shown and cast("Mapping[str, Any]", shown[-1])["number"] != number - 1:
            shown.append(None)
        shown.append({"number": number, "text": lines[number - 1], "remarks": by_line.get(number, [])})
    return shown


PAGES = (
    PageRoute(path=_HERE, operation="get_policy", answer=show),
    PageRoute(method="POST", path=_HERE, operation="evaluate_policy", answer=act),
    PageRoute(method="POST", path=_HERE + "/rollback", operation="roll_back_policy", answer=roll_back),
)
