"""`interlock doctor`: looks for problems; each finding says since when, and what to do about it.

With `--after-restore` or `--repair-clock` it makes the repairs that only an operator at the store can make.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from interlock.cli.approvals import too_few_people, way_to_more_people
from interlock.cli.connection import connected, listing, typed
from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Parser, finished, given, login_of, quietly, wants_json
from interlock.cli.output import counted, exactly, painted, safe, say, say_json, when
from interlock.cli.progress import progress_of
from interlock.sdk.outcomes import Conflict, Forbidden, NotFound, UnexpectedAnswer
from interlock.wire.jobs import Approval, Job
from interlock.wire.policy import Policy

if TYPE_CHECKING:
    from interlock.kernel.store_state import Repaired
    from interlock.sdk.client import Interlock

_EXPLAINED = """\
The store's clock is {ahead} ahead of this machine's. Time in a store never goes back by itself.
First make sure that this machine's clock is right: it now says {wall}.
With --yes, in one transaction:
  - times that the wrong clock wrote (from {since} on, {records}) are moved back by
    {ahead}, so that what had ten seconds left still has ten seconds left;
  - what ends later than that and was given before the clock went wrong ends earlier by as much;
  - audit entries keep the times they have, ids and fences stay as they are and go on growing;
  - an audit entry says what was done. Servers may keep running: their next decision goes by the new time."""


def run_upkeep(args: Namespace) -> int:
    """Do to the store what the options say, and print what was done."""
    if given(args, "url") and login_of(args) is None:
        option = "--after-restore" if args.after_restore else "--repair-clock"
        raise Failed(
            f"{option} works on the store itself; leave --url out, and name it with --store", Exit.USAGE
        )
    return _after_restore(args) if args.after_restore else _repair_clock(args)


def _after_restore(args: Namespace) -> int:
    from interlock.cli.init import on_store
    from interlock.service.operator import raise_fences

    state = on_store(args, lambda service: raise_fences(service, "interlock doctor --after-restore"))
    if wants_json(args):
        say_json({"epoch": state.epoch, "fence_floor": state.fence_floor})
    else:
        say(
            f"fences are in epoch {state.epoch}: every one from now on is greater than {state.fence_floor}, "
            "and so than all that were handed out before"
        )
    return Exit.DONE


def _repair_clock(args: Namespace) -> int:
    from interlock.cli.init import on_store
    from interlock.service.operator import NothingToRepair, repair_clock

    try:
        found = on_store(args, lambda service: repair_clock(service, only_look=not args.yes))
    except NothingToRepair as nothing:
        raise Failed(str(nothing), Exit.USAGE) from nothing
    if wants_json(args):
        say_json(_facts(found, is_done=args.yes))
    elif found is None:
        say("the store's clock is not ahead of this machine's; there is nothing to repair")
    elif args.yes:
        say(f"the store's clock was set back by {found.ahead}; {found.records} records were moved with it")
    else:
        say(_explanation(found), "", "Nothing was changed. To do it: interlock doctor --repair-clock --yes")
    return Exit.DONE if found is None or args.yes else Exit.ERROR


def _facts(found: Repaired | None, *, is_done: bool) -> dict[str, Any]:
    if found is None:
        return {"repaired": False, "ahead_seconds": 0.0, "records": 0}
    seconds = found.ahead.total_seconds()
    return {"repaired": is_done, "ahead_seconds": seconds, "records": found.records}


def _explanation(found: Repaired) -> str:
    return _EXPLAINED.format(
        ahead=found.ahead,
        wall=exactly(datetime.now(UTC)),
        since=exactly(found.since),
        records=counted(found.records, "record"),
    )


_MARKS = {"ok": ("✓", "green"), "note": ("!", "yellow"), "wrong": ("✗", "red")}


def declare_doctor() -> Parser:
    """The options of `interlock doctor`."""
    parser = Parser(
        "interlock doctor",
        description="Look for problems: an unreachable store, no policy, requests that too few people can decide,\n"
        "jobs that no worker takes. Exit code 1 if a problem is found.",
        examples=(
            "interlock doctor",
            "interlock doctor --url http://127.0.0.1:8700 --json",
            "interlock doctor --after-restore",
            "interlock doctor --repair-clock --yes",
        ),
    )
    upkeep = parser.add_mutually_exclusive_group()
    upkeep.add_argument(
        "--after-restore",
        action="store_true",
        help="the store was put back to an older state: make every fence from now on greater than all before",
    )
    upkeep.add_argument(
        "--repair-clock",
        action="store_true",
        help="a SQLite store's clock is ahead of this machine's: say what setting it back would do; --yes does it",
    )
    parser.add_argument("--yes", action="store_true", help="do what --repair-clock says")
    quietly(parser)
    return finished(parser, run_doctor)


def run_doctor(args: Namespace) -> int:
    """Examine a deployment, and print what was found."""
    if args.after_restore or args.repair_clock:
        return run_upkeep(args)
    findings, ended = _findings(args)
    wrong = [finding for finding in findings if finding.level == "wrong"]
    if wants_json(args):
        from msgspec import to_builtins

        from interlock.cli.output import say_json

        say_json({"wrong": len(wrong), "findings": to_builtins(findings)})
    else:
        _say(findings)
    return ended


def _findings(args: Namespace) -> tuple[list[Finding], Exit]:
    """What was found, and how the command ends: 6 if nothing could be examined."""
    try:
        with progress_of(args, "doctor", is_even=False) as progress, connected(args) as client:
            findings = list(examine(client, progress))
    except Failed as failed:
        if failed.exit is Exit.USAGE:
            raise
        return [Finding(level="wrong", about="service", text=failed.detail)], failed.exit
    is_wrong = any(finding.level == "wrong" for finding in findings)
    return findings, Exit.ERROR if is_wrong else Exit.DONE


def _say(findings: list[Finding]) -> None:
    width = max(len(finding.about) for finding in findings)
    for finding in findings:
        mark, style = _MARKS[finding.level]
        since = f" (since {exactly(finding.since)}, {when(finding.since)})" if finding.since else ""
        say(f"{painted(mark, style)} {finding.about:<{width}}  {finding.text}{since}")
        if finding.next_step:
            say(f"  {'':<{width}}  {painted('→', 'dim')} {finding.next_step}")
    wrong = sum(finding.level == "wrong" for finding in findings)
    say(
        "",
        painted(f"{counted(wrong, 'problem')} found", "red")
        if wrong
        else painted("no problems found", "green"),
    )


T = TypeVar("T")

EXAMINED_MAX = 1000
WAITS_LONG = timedelta(hours=1)
CLOSED_LATE = timedelta(minutes=1)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing found: `ok`, a `note` worth reading, or `wrong`."""

    level: Literal["ok", "note", "wrong"]
    about: str
    text: str
    since: datetime | None = None
    next_step: str = ""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A principal, as far as the questions go."""

    name: str
    kind: str
    roles: tuple[str, ...]
    owner: str | None = None
    keys_live: int = 0
    created_at: datetime | None = None


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """What was read; `people_able` by job, `members` None for a caller who may not see them."""

    now: datetime
    policy: Policy
    waiting: tuple[Job, ...]
    people_able: Mapping[str, int | None]
    expired: tuple[Job, ...]
    released: tuple[Job, ...]
    members: tuple[Member, ...] | None


def examine(client: Interlock, tell: Callable[[str, int, int], object]) -> Iterator[Finding]:
    """Every finding, one question after the other, and how far that is. Raises if the service is out of reach."""
    from interlock.cli import checks

    parts: tuple[tuple[str, Callable[[Interlock], Iterator[Finding]]], ...] = (
        ("does it answer", _answers),
        ("the store", checks.examine_store),
        ("policy, approvals and people", _examine_decisions),
        ("jobs", checks.examine_work),
        ("runs", checks.examine_runs),
        ("grants", checks.examine_grants),
        ("webhooks", checks.examine_relays),
        ("records", checks.examine_records),
    )
    for done, (about, part) in enumerate(parts):
        tell(about, done, len(parts))
        yield from part(client)


def _answers(client: Interlock) -> Iterator[Finding]:
    client.get_health()
    yield Finding(level="ok", about="store", text="it answers, and its schema is one that this version knows")


def _examine_decisions(client: Interlock) -> Iterator[Finding]:
    seen = _read(client)
    for question in QUESTIONS:
        yield from question(seen)


def policy_in_force(seen: Examined) -> Iterator[Finding]:
    """Is there a policy, and does it enforce?"""
    policy = seen.policy
    if policy.activated_at is None:
        yield Finding(
            level="wrong",
            about="policy",
            text="none is in force, so everything is denied",
            next_step="interlock policy apply FILE",
        )
    elif isinstance(policy.document, dict) and policy.document.get("mode") == "observe":  # pyright: ignore[reportUnknownMemberType]
        yield Finding(
            level="note",
            about="policy",
            text=f"{policy.snapshot} only observes: nothing is enforced",
            since=policy.activated_at,
            next_step="interlock policy observed shows what it would stop; `mode: enforce` enforces it",
        )
    else:
        yield Finding(
            level="ok", about="policy", text=f"{policy.snapshot} is enforced", since=policy.activated_at
        )


def waiting_approvals(seen: Examined) -> Iterator[Finding]:
    """How many requests wait for people, and since when?"""
    if not seen.waiting:
        yield Finding(level="ok", about="approvals", text="nothing waits for a decision")
        return
    oldest = min(_asked_at(job) or seen.now for job in seen.waiting)
    yield Finding(
        level="note" if seen.now - oldest > WAITS_LONG else "ok",
        about="approvals",
        text=f"{counted(len(seen.waiting), 'request')} waiting for a decision, the oldest",
        since=oldest,
        next_step="interlock approvals",
    )


def overdue_approvals(seen: Examined) -> Iterator[Finding]:
    """Is anything past its end that no sweep has closed? What was closed was changed after its end."""
    late = [
        approval.expires_at
        for job in seen.expired
        if (approval := job.approval) and approval.expires_at and job.updated_at
        if job.updated_at < approval.expires_at < seen.now - CLOSED_LATE
    ]
    if late:
        yield Finding(
            level="note",
            about="sweeps",
            text=f"{counted(len(late), 'request')} past the end and not closed yet (it counts as expired)",
            since=min(late),
            next_step="keep one `interlock serve` running; it closes them within seconds",
        )


def drifted_approvals(seen: Examined) -> Iterator[Finding]:
    """Which requests cannot be approved because the policy moved on?"""
    drifted = [
        job
        for job, approval in _asked(seen)
        if approval.binding == "strict" and approval.policy_snapshot != seen.policy.snapshot
    ]
    if drifted:
        yield Finding(
            level="wrong",
            about="drift",
            text=f"{counted(len(drifted), 'request')} asked under an earlier policy cannot be approved",
            since=seen.policy.activated_at,
            next_step=_each("interlock refresh", drifted),
        )


def undecidable_approvals(seen: Examined) -> Iterator[Finding]:
    """Which requests need more people than there are? Those that want the same of people are told together."""
    alike: dict[tuple[str, str], list[tuple[Job, Approval]]] = {}
    for job, approval in _asked(seen):
        if why := too_few_people(approval, seen.people_able.get(job.id)):
            alike.setdefault((why, way_to_more_people(approval)), []).append((job, approval))
    for (why, next_step), asked in alike.items():
        oldest, approval = asked[-1]
        others = f" (and {len(asked) - 1} more like it)" if len(asked) > 1 else ""
        yield Finding(
            level="wrong",
            about="people",
            text=f"{oldest.id} {why}{others}",
            since=approval.requested_at,
            next_step=next_step,
        )


def stuck_jobs(seen: Examined) -> Iterator[Finding]:
    """Which released jobs does no worker take?"""
    offered = [job for job in seen.released if job.executor != "caller"]  # the others wait for their callers
    stuck = [job for job in offered if job.updated_at and seen.now - job.updated_at > WAITS_LONG]
    if stuck:
        yield Finding(
            level="note",
            about="jobs",
            text=f"{counted(len(stuck), 'released job')} not taken for more than an hour, the first",
            since=min(job.updated_at for job in stuck if job.updated_at),
            next_step="look at what should run them, or withdraw them: interlock jobs --state PENDING",
        )
    else:
        yield Finding(
            level="ok", about="jobs", text=f"{counted(len(seen.released), 'job')} released, none stuck"
        )


def keys_and_owners(seen: Examined) -> Iterator[Finding]:
    """Does an admin have a key, and is the owner of each agent known?"""
    if seen.members is None:
        yield Finding(level="note", about="keys", text="not examined", next_step="pass an admin's key")
        return
    holders = [member for member in seen.members if member.keys_live]
    if not any("admin" in member.roles for member in holders):
        yield Finding(
            level="note",
            about="keys",
            text="no key has the role admin; only a person who can open the store can change keys or policy",
            next_step="interlock key create NAME --kind person --roles admin,review",
        )
    yield from _agents_without_owner(holders, seen.members)
    yield Finding(level="ok", about="keys", text=f"{counted(len(holders), 'principal')} with a live key")


def _agents_without_owner(holders: Sequence[Member], known: Sequence[Member]) -> Iterator[Finding]:
    """An unknown owner may be a typing error. Then the real owner is not kept from approving."""
    names = {member.name for member in known}
    is_whole = len(known) < EXAMINED_MAX
    for member in holders:
        if member.kind != "agent" or "submit" not in member.roles:
            continue
        if member.owner is None:
            why = "has no owner, so the person who runs it may approve its requests"
        elif is_whole and member.owner not in names:
            slip = "if that is misspelt, its real owner may approve its requests"
            why = f"is owned by {safe(member.owner)}, who is unknown here; {slip}"
        else:
            continue
        yield Finding(
            level="note",
            about="keys",
            text=f"agent {safe(member.name)} {why}",
            since=member.created_at,
            next_step=f"interlock key create {safe(member.name)} --kind agent --roles … --owner NAME",
        )


QUESTIONS: tuple[Callable[[Examined], Iterator[Finding]], ...] = (
    policy_in_force,
    waiting_approvals,
    overdue_approvals,
    drifted_approvals,
    undecidable_approvals,
    stuck_jobs,
    keys_and_owners,
)


def _read(client: Interlock) -> Examined:
    try:
        members = _items(client, Member, "principals")
    except Forbidden:
        members = None
    waiting = _items(client, Job, "approvals", state="pending")
    return Examined(
        now=datetime.now(UTC),
        policy=client.get_policy(),
        waiting=waiting,
        people_able={job.id: _people_able(client, job.id) for job in waiting},
        expired=_items(client, Job, "approvals", state="expired"),
        released=_items(client, Job, "jobs", state="PENDING"),
        members=members,
    )


def _items(client: Interlock, kind: type[T], *segments: str, state: str | None = None) -> tuple[T, ...]:
    query = {"state": state} if state else {}
    page = listing(client, *segments, limit=EXAMINED_MAX, cursor=None, query=query)
    return tuple(typed(item, kind) for item in page.items)


def _people_able(client: Interlock, job_id: str) -> int | None:
    """How many may decide it; None if it was decided since, or cannot be read, which other questions find."""
    try:
        return client.get_approval(job_id).people_able
    except (Conflict, NotFound, UnexpectedAnswer):
        return None


def _asked(seen: Examined) -> Iterator[tuple[Job, Approval]]:
    return ((job, job.approval) for job in seen.waiting if job.approval is not None)


def _asked_at(job: Job) -> datetime | None:
    return job.approval.requested_at if job.approval else None


def _each(command: str, jobs: Sequence[Job]) -> str:
    first = f"{command} {jobs[0].id}"
    return first if len(jobs) == 1 else f"{first} (and {len(jobs) - 1} more: interlock approvals)"
