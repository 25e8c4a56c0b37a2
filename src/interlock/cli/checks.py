"""Checks of `interlock doctor` about work, runs, grants, relays, records and the store."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from interlock.cli.connection import listing, typed
from interlock.cli.doctor import EXAMINED_MAX, Finding
from interlock.cli.job_page import is_call
from interlock.cli.output import counted, safe
from interlock.sdk.outcomes import Forbidden, NotFound
from interlock.wire.admission import Limits, Run
from interlock.wire.grants import GrantLedger
from interlock.wire.jobs import Job

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock
    from interlock.wire.events import Progress, Webhook


UNCLAIMED_LONG = timedelta(minutes=5)
UNSETTLED_LONG = timedelta(minutes=1)


def examine_work(client: Interlock) -> Iterator[Finding]:
    """Every finding about work."""
    now = datetime.now(UTC)
    failed = _jobs(client, "FAILED")
    yield from dead_letters([job for job in failed if not is_call(job)])
    yield from calls_in_doubt([job for job in failed if is_call(job)])
    yield from unsettled_leases(_jobs(client, "RUNNING"), now)
    yield from unclaimed_topics(_jobs(client, "PENDING"), now)


def dead_letters(failed: Sequence[Job]) -> Iterator[Finding]:
    """Which jobs failed for good, and must be retried or cancelled by a person?"""
    if failed:
        oldest = min(failed, key=_changed)
        yield Finding(
            level="note",
            about="dead letters",
            text=f"{counted(len(failed), 'job')} failed for good, the oldest {oldest.id} ({safe(oldest.topic)})",
            since=_changed(oldest),
            next_step=f"interlock job {oldest.id} says why; interlock retry {oldest.id}, or interlock cancel",
        )


def calls_in_doubt(failed: Sequence[Job]) -> Iterator[Finding]:
    """Which gated calls have an unknown outcome that a person must find out?"""
    if failed:
        oldest = min(failed, key=_changed)
        whether = f"whether {'it' if len(failed) == 1 else 'they'} happened is not known"
        yield Finding(
            level="note",
            about="calls",
            text=f"{counted(len(failed), 'gated call')} in doubt ({whether}), "
            f"the oldest {oldest.id} ({safe(oldest.topic)})",
            since=_changed(oldest),
            next_step=f"interlock effect call:{oldest.id} says what to ask, and how to record the answer",
        )


def unsettled_leases(running: Sequence[Job], now: datetime) -> Iterator[Finding]:
    """Whose worker is gone, and no sweep has noticed?"""
    ended = [job for job in running if job.lease_expires_at and job.lease_expires_at < now - UNSETTLED_LONG]
    if ended:
        yield Finding(
            level="wrong",
            about="leases",
            text=f"{counted(len(ended), 'lease')} ran out without being settled",
            since=min(job.lease_expires_at for job in ended if job.lease_expires_at),
            next_step="keep one `interlock serve` running; it settles them within seconds",
        )


def unclaimed_topics(pending: Sequence[Job], now: datetime) -> Iterator[Finding]:
    """Which topics have work that no worker takes, and which jobs may not run although they were released?"""
    waiting: dict[str, list[Job]] = defaultdict(list)
    for job in pending:
        if job.held_up is not None:
            yield Finding(
                level="wrong",
                about="work",
                text=f"{job.id} is held up: {safe(job.held_up)}",
                since=_changed(job),
                next_step="correct the policy (`interlock policy evaluate` explains it); it is then tried again",
            )
        elif is_call(job):
            continue  # no worker may take it: it waits until its caller calls again
        elif (job.not_before or _changed(job)) < now - UNCLAIMED_LONG:
            waiting[job.topic].append(job)
    for topic, jobs in sorted(waiting.items()):
        yield Finding(
            level="wrong",
            about="work",
            text=f"{counted(len(jobs), 'job')} of {safe(topic)} released, and no worker takes it",
            since=min(job.not_before or _changed(job) for job in jobs),
            next_step=f"start a worker for it: interlock worker --topic {safe(topic)} --exec CMD",
        )


def _changed(job: Job) -> datetime:
    return job.updated_at or job.submitted_at or datetime.now(UTC)


def _jobs(client: Interlock, state: str) -> tuple[Job, ...]:
    page = listing(client, "jobs", limit=EXAMINED_MAX, cursor=None, query={"state": state})
    return tuple(typed(item, Job) for item in page.items)


RECLAIMED_LATE = timedelta(minutes=1)


def examine_runs(client: Interlock) -> Iterator[Finding]:
    """Every finding about runs."""
    limits = client.limits()
    page = listing(client, "workflow-runs", limit=EXAMINED_MAX, cursor=None, query={"state": "lost"})
    yield from miscounted_slots(limits)
    yield from lost_slots([typed(item, Run) for item in page.items], datetime.now(UTC))


def miscounted_slots(limits: Limits) -> Iterator[Finding]:
    """Does the gate count as many runs as there are? Both were read at one moment."""
    if limits.active != limits.running:
        yield Finding(
            level="wrong",
            about="runs",
            text=f"the gate counts {counted(limits.active, 'active run')}, but there are {limits.running}",
            next_step="report it with `interlock audit --json`; ending runs and starting new ones goes on",
        )
    else:
        waiting = f", {counted(limits.waiting, 'start')} waiting" if limits.waiting else ""
        yield Finding(level="ok", about="runs", text=f"{counted(limits.active, 'run')} active{waiting}")


def lost_slots(lost: list[Run], now: datetime) -> Iterator[Finding]:
    """Whose holder is gone, and no sweep has noticed? By the clock it is lost; only a sweep notes its end."""
    unnoticed = [run for run in lost if run.ended_at is None and run.slot_expires_at]
    late = [run for run in unnoticed if (run.slot_expires_at or now) < now - RECLAIMED_LATE]
    if late:
        yield Finding(
            level="wrong",
            about="runs",
            text=f"{counted(len(late), 'slot')} ran out without being taken back",
            since=min(run.slot_expires_at for run in late if run.slot_expires_at),
            next_step="keep one `interlock serve` running; it takes them back within seconds",
        )


_PAGE = 200
_PAGES_MAX = 5000
_FATES = ("open", "claimed", "expired", "revoked")


def examine_grants(client: Interlock) -> Iterator[Finding]:
    """Is every use that was issued open, claimed, expired or revoked, and every claimed one recorded?"""
    try:
        total, uneven, older = _add_up(client)
    except Forbidden:
        yield Finding(
            level="note", about="grants", text="not examined", next_step="pass an auditor's or admin's key"
        )
        return
    fates = ", ".join(f"{total[fate]} {fate}" for fate in _FATES)
    of = f" of the newest {total['grants']} grants" if older else ""
    text = f"{counted(total['issued'], 'use')}{of} issued: {fates}"
    if not uneven and total["issued"] == sum(total[fate] for fate in _FATES):
        yield Finding(level="ok", about="grants", text=text)
        return
    yield Finding(
        level="wrong",
        about="grants",
        text=f"{text}; the records of {', '.join(uneven[:5]) or 'some grant'} do not add up: "
        "they were changed outside Interlock",
        next_step=f"interlock audit --subject {uneven[0]}" if uneven else "interlock audit",
    )


def _add_up(client: Interlock) -> tuple[Counter[str], list[str], bool]:
    """The ledger page by page, the grants that do not add up, and whether there are older ones than were looked at."""
    total: Counter[str] = Counter()
    uneven: list[str] = []
    cursor: str | None = None
    for _ in range(_PAGES_MAX):
        answer = client.call("GET", "grants", "ledger", query={"limit": _PAGE, "cursor": cursor})
        page = typed(answer, GrantLedger)
        total.update({name: getattr(page, name) for name in ("grants", "issued", *_FATES)})
        uneven += page.uneven
        cursor = page.next_cursor
        if cursor is None:
            break
    return total, uneven, cursor is not None


UNATTENDED_LONG = timedelta(minutes=1)


def examine_relays(client: Interlock) -> Iterator[Finding]:
    """Every finding about events on their way out; nothing for a caller who may not see webhooks."""
    try:
        webhooks, relays = client.webhooks(limit=200).items, client.relays()
    except Forbidden:
        return
    now = datetime.now(UTC)
    yield from failing_webhooks(webhooks)
    yield from undelivered(webhooks)
    for name, progress in _every(webhooks, relays.broker):
        yield from unattended(name, progress, now)
    if relays.broker and relays.broker.failures:
        yield Finding(
            level="wrong",
            about="broker",
            text=f"it takes no events: {safe(relays.broker.error or '')}",
            since=relays.broker.failing_since,
            next_step="check INTERLOCK_NATS_URL and the broker; what it missed is sent when it is back",
        )


def failing_webhooks(webhooks: Sequence[Webhook]) -> Iterator[Finding]:
    """Which receivers take nothing?"""
    for webhook in webhooks:
        if webhook.progress and webhook.progress.failures:
            yield Finding(
                level="wrong",
                about="webhooks",
                text=f"{webhook.id} ({safe(webhook.url)}) takes nothing: {safe(webhook.progress.error or '')}",
                since=webhook.progress.failing_since,
                next_step=f"correct the receiver; interlock webhook test {webhook.id} tries it at once",
            )


def undelivered(webhooks: Sequence[Webhook]) -> Iterator[Finding]:
    """Which events were never delivered, and must be sent again by a person?"""
    for webhook in webhooks:
        if webhook.dead:
            yield Finding(
                level="note",
                about="webhooks",
                text=f"{webhook.id} has {counted(webhook.dead, 'dead letter')}",
                next_step=f"interlock webhook letters {webhook.id}",
            )


def unattended(name: str, progress: Progress, now: datetime) -> Iterator[Finding]:
    """Is there anything to send, and no server that sends it?"""
    since = progress.moved_at or now
    if progress.state == "unattended" and progress.behind and now - since > UNATTENDED_LONG:
        yield Finding(
            level="wrong",
            about="relays",
            text=f"{name} is {counted(progress.behind, 'event')} behind, and no server relays to it",
            since=since,
            next_step="keep one `interlock serve` running, without INTERLOCK_RELAY=false",
        )


def _every(webhooks: Sequence[Webhook], broker: Progress | None) -> Iterator[tuple[str, Progress]]:
    yield from ((webhook.id, webhook.progress) for webhook in webhooks if webhook.progress)
    if broker:
        yield "the broker", broker


def examine_records(client: Interlock) -> Iterator[Finding]:
    """Did anything that was looked at so far, or since the server started, turn out to be unreadable?"""
    broken = client.get_health().unreadable_records
    if broken:
        yield Finding(
            level="wrong",
            about="records",
            text=f"{counted(broken, 'stored record')} cannot be read: the database was changed outside Interlock",
            next_step="the service's log names them; find out who, and put them back from a copy of the store",
        )


_MIB = 1024 * 1024
ROOM_BYTES_SCARCE = 256 * _MIB
ROOM_BYTES_MIN = 16 * _MIB
_TOLERANCE_SECONDS = 5.0


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """A store that has taken a write, or why it has not."""

    place: str
    free_bytes: int | None = None
    trouble: str | None = None


def examine_store(client: Interlock) -> Iterator[Finding]:
    """Does the store take writes, is its clock right, and were fences raised?"""
    yield from _examine_writes(client)
    yield from _examine_clock(client)


def _examine_writes(client: Interlock) -> Iterator[Finding]:
    """Does it take a write, and for how long will it?"""
    try:
        checked = typed(client.call("GET", "store", "check"), Checked)
    except (Forbidden, NotFound):
        # A server of an earlier version, or a caller who may not.
        yield Finding(
            level="note",
            about="store",
            text="whether it takes writes was not examined",
            next_step="pass a key with the role operate or admin",
        )
    else:
        yield room_left(checked)


def room_left(checked: Checked) -> Finding:
    """Whether it takes writes, and how much room is left where it is."""
    if checked.trouble is not None:
        return Finding(
            level="wrong",
            about="store",
            text=f"it takes no writes, so nothing can be decided: {safe(checked.trouble)}",
        )
    taken = f"the store at {safe(checked.place)} takes writes"
    room = checked.free_bytes
    if room is None:
        return Finding(level="ok", about="store", text=taken)
    if room >= ROOM_BYTES_SCARCE:
        return Finding(level="ok", about="store", text=f"{taken}, and has room")
    return Finding(
        level="wrong" if room < ROOM_BYTES_MIN else "note",
        about="store",
        text=f"{taken}, and its disk is nearly full: {room / _MIB:.0f} MiB left",
        next_step="free some space there, or move the store; when the disk is full nothing can be decided",
    )


def _examine_clock(client: Interlock) -> Iterator[Finding]:
    """Does the store's clock agree with the machine's, and were fences raised?"""
    health = client.get_health()
    ahead = health.clock_ahead_seconds
    if abs(ahead) <= _TOLERANCE_SECONDS:
        yield Finding(level="ok", about="clock", text="the store's clock and the machine's agree")
    else:
        yield _wrong_clock(ahead)
    often = (
        f", raised {counted(health.fence_epoch, 'time')} after a restore or failover"
        if health.fence_epoch
        else ""
    )
    yield Finding(
        level="ok",
        about="fences",
        text=f"epoch {health.fence_epoch}{often}",
        since=health.fences_raised_at,
    )


def _wrong_clock(ahead_seconds: float) -> Finding:
    way = "ahead of" if ahead_seconds > 0 else "behind"
    distance = timedelta(seconds=round(abs(ahead_seconds)))
    return Finding(
        level="wrong",
        about="clock",
        text=f"the store's clock is {distance} {way} the machine's, so permits and deadlines go wrong",
        next_step="set the machine's clock right; if it is right, SQLite: interlock doctor --repair-clock; "
        "PostgreSQL: set the clock of the database's machine right",
    )
