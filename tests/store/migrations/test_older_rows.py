"""Stores with rows in them that an older Interlock wrote: after migrating, every row is found as if written today."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any

import msgspec
import pytest

from interlock.kernel.record import Kind, Record, micros
from interlock.rooms.events import queries as outbox
from interlock.rooms.events.model import EVENTS, Event
from interlock.rooms.grants.model import GRANT_USES, SIGNERS, GrantUse, Signer
from interlock.rooms.jobs.model import (
    JOBS,
    Approval,
    ApprovalState,
    EscalationStep,
    Job,
    JobLease,
    JobState,
    Requirement,
    Verdict,
)
from interlock.rooms.leases.model import LEASES, Lease, LeaseMode, LeaseState
from interlock.rooms.policy.action import RANKS, Action, Priority, TargetRef
from interlock.store.catalogue import migrations
from tests.harness.store_places import Place
from tests.store.migrations.conftest import Knows
from tests.store.migrations.schemas import columns
from tests.store.migrations.test_opening import reopened

AT = datetime(2026, 5, 1, 12, 0, 0, 123_456, tzinfo=UTC)
NEWEST = len(migrations("sqlite"))
WORKERS_SINCE, LEASES_SINCE, TARGETS_SINCE, GRANTS_SINCE = 2, 5, 6, 7
UNORDERED_UNTIL = 17

Row = tuple[Kind[Any], Record]


def job(number: int, state: JobState, **fields: Any) -> Row:
    """A job, as it would be stored today."""
    action = Action(topic="work.any", payload=msgspec.Raw(b"{}"), target=fields.pop("target", None))
    moment = AT + timedelta(seconds=number)
    return JOBS, Job(
        tenant="default",
        id=f"job_{number:032x}",
        version=1,
        action=action,
        state=state,
        job_hash=action.hash("default"),
        policy_snapshot=None,
        verdict=Verdict(decision="allow"),
        submitted_by="bot",
        **{"submitted_at": moment, "updated_at": moment, **fields},
    )


def at(moment: datetime) -> dict[str, datetime]:
    """Submitted at this moment."""
    return {"submitted_at": moment, "updated_at": moment}


def approval(state: ApprovalState, requirement: Requirement | None = None, **fields: Any) -> Approval:
    decided = state is not ApprovalState.PENDING
    return Approval(
        state=state,
        requirement=requirement or Requirement(),
        policy_snapshot="sha256:1",
        job_hash="sha256:2",
        requested_at=AT,
        expires_at=AT + timedelta(days=1),
        decided_at=AT + timedelta(hours=1) if decided else None,
        **fields,
    )


def waiting_rows() -> list[Row]:
    """Requests that end in every way there is."""
    steps = (
        EscalationStep(after_seconds=60, groups=("leads", "o'neill")),
        EscalationStep(after_seconds=90, groups=("finance",)),
    )
    escalating = Requirement(groups=("finance", "50%_x"), escalate=steps, on_expiry="escalate")
    anybody = Requirement(escalate=steps, on_expiry="escalate", expires_seconds=600)
    whole = AT.replace(microsecond=0)
    return [
        job(21, JobState.APPROVAL, approval=approval(ApprovalState.PENDING), priority=Priority.CRITICAL),
        job(
            22, JobState.APPROVAL, approval=approval(ApprovalState.PENDING), run_id="run_1", expires_at=whole
        ),
        job(23, JobState.APPROVAL, approval=approval(ApprovalState.PENDING, escalating)),
        job(24, JobState.APPROVAL, approval=approval(ApprovalState.PENDING, anybody), priority=Priority.HIGH),
        job(25, JobState.APPROVAL, approval=approval(ApprovalState.PENDING, escalating, ends_by=whole)),
    ]


def first_rows() -> list[Row]:
    """What could be there from the beginning: jobs that no worker has touched, and events."""
    jobs = [
        job(1, JobState.APPROVAL, approval=approval(ApprovalState.PENDING)),
        job(2, JobState.PENDING, approval=approval(ApprovalState.APPROVED)),
        job(3, JobState.PENDING, priority=Priority.LOW),
        job(4, JobState.PENDING, priority=Priority.CRITICAL),
        job(5, JobState.PENDING, priority=Priority.HIGH, expires_at=AT + timedelta(days=2)),
        job(6, JobState.PENDING, **at(AT.replace(microsecond=0))),
        job(7, JobState.DENIED, approval=approval(ApprovalState.REJECTED)),
        job(8, JobState.CANCELLED),
        job(9, JobState.PENDING, target=TargetRef(key="repo:x", version="v1")),
        job(10, JobState.APPROVAL, target=TargetRef(key="repo:y"), approval=approval(ApprovalState.PENDING)),
    ]
    return [*jobs, *waiting_rows(), *(event(number) for number in range(1, 6))]


def event(number: int) -> Row:
    return EVENTS, Event(
        tenant="default",
        id=f"evt_{number:032x}",
        version=1,
        at=AT,
        type="job.submitted",
        subject=f"job_{number:032x}",
        data={"n": number},
    )


def worked_rows() -> list[Row]:
    """What workers leave: a job that is held, and one that was given up."""
    ends = AT + timedelta(seconds=30)
    lease = JobLease(worker="hand", claimed_at=AT, expires_at=ends, seconds=30, retry_at=ends)
    return [
        job(11, JobState.RUNNING, lease=lease, fence=1, attempt=1),
        job(12, JobState.FAILED, fence=3, attempt=3, finished_at=AT),
        job(13, JobState.PENDING, not_before=ends, attempt=2, offered=2, offered_at=ends),
    ]


def lease_rows() -> list[Row]:
    return [
        (
            LEASES,
            Lease(
                tenant="default",
                id=f"lse_{mode.value}",
                version=1,
                resource=f"repo:{mode.value}",
                mode=mode,
                state=LeaseState.LEASED,
                fence=7,
                owner="bot",
                ttl_seconds=60,
                since=AT,
                expires_at=AT + timedelta(seconds=60),
            ),
        )
        for mode in LeaseMode
    ]


def grant_rows() -> list[Row]:
    """Two uses of a grant, and two keys: one that came on the second."""
    uses: list[Row] = [
        (
            GRANT_USES,
            GrantUse(
                tenant="default",
                id=f"{number:064x}",
                version=1,
                grant_id="gnt_1",
                task="deploy",
                execution_id='run "use":7',
                use=number,
                fence=number,
                claimed_by="bot",
                claimed_at=AT,
                args_digest="sha256:1",
            ),
        )
        for number in (1, 2)
    ]
    signers: list[Row] = [
        (
            SIGNERS,
            Signer(
                tenant="default",
                id=f"SHA256:{name}",
                version=1,
                person=name,
                public_key="AAAA",
                added_at=added_at,
                added_by="root",
            ),
        )
        for name, added_at in (("ada", AT), ("eve", AT.replace(microsecond=0)))
    ]
    return [*uses, *signers]


def rows_of(schema: int) -> list[Row]:
    """What may be there under a schema."""
    worked = worked_rows() if schema >= WORKERS_SINCE else []
    leased = lease_rows() if schema >= LEASES_SINCE else []
    return [*first_rows(), *worked, *leased, *(grant_rows() if schema >= GRANTS_SINCE else [])]


async def write(place: Place, rows: Sequence[Row]) -> None:
    """Insert rows with the columns that the tables have now, as a version without newer columns did."""
    known = await columns(place)
    for kind, record in rows:
        names = ("tenant", "id", "version", "body", *kind.columns)
        values = dict(zip(names, kind.row(record), strict=True))
        there = [name for name in names if name in known[kind.table]]
        spelled = ", ".join(_literal(values[name]) for name in there)
        await place.rows(f"INSERT INTO {kind.table} ({', '.join(there)}) VALUES ({spelled})")


def _literal(value: str | int | None) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


async def migrated(place: Place, knows: Knows, older: int) -> list[Row]:
    """A store with rows of an older schema, opened by today's program."""
    knows(lambda every: every[:older])
    await reopened(place)
    rows = rows_of(older)
    await write(place, rows)
    knows(lambda every: every)
    await reopened(place)
    return rows


@pytest.mark.parametrize("older", range(1, NEWEST))
async def test_every_column_of_an_older_row_says_what_its_record_says(
    empty_place: Place, program_knows: Knows, older: int
) -> None:
    for kind, record in await migrated(empty_place, program_knows, older):
        names = list(kind.columns)
        sql = f"SELECT body, {', '.join(names)} FROM {kind.table} WHERE id = '{record.id}'"
        ((body, *found),) = await empty_place.rows(sql)
        assert kind.decode(body) == record
        expected = dict(zip(names, kind.row(record)[4:], strict=True))
        assert dict(zip(names, found, strict=True)) == expected, record.id


@pytest.mark.parametrize("body", ["", "not JSON", "{}", '{"use":"x","added_at":"soon"}', "[1]"])
async def test_a_body_that_somebody_broke_does_not_stop_an_upgrade(
    empty_place: Place, program_knows: Knows, body: str
) -> None:
    program_knows(lambda every: every[:UNORDERED_UNTIL])
    await reopened(empty_place)
    await write(empty_place, grant_rows())
    for table in ("grant_uses", "signers"):
        await empty_place.rows(f"UPDATE {table} SET body = {_literal(body)}")
    program_knows(lambda every: every)

    await reopened(empty_place)

    assert [tuple(row) for row in await empty_place.rows("SELECT number FROM grant_uses")] == [(0,), (0,)]
    assert [tuple(row) for row in await empty_place.rows("SELECT added_at FROM signers")] == [(0,), (0,)]


@pytest.mark.parametrize("body", ["", "not JSON", "{}", '{"approval":{"expires_at":"soon"}}', "[1]"])
async def test_a_request_that_somebody_broke_is_on_no_list_after_an_upgrade(
    empty_place: Place, program_knows: Knows, body: str
) -> None:
    program_knows(lambda every: tuple(takewhile(lambda each: each.name != "inbox", every)))
    await reopened(empty_place)
    await write(empty_place, waiting_rows())
    await empty_place.rows(f"UPDATE jobs SET body = {_literal(body)} WHERE id = 'job_{21:032x}'")
    program_knows(lambda every: every)

    await reopened(empty_place)

    found = await empty_place.rows("SELECT id FROM jobs WHERE decide_by IS NOT NULL ORDER BY id")
    assert [row[0] for row in found] == [f"job_{number:032x}" for number in (22, 23, 24, 25)]


@pytest.mark.parametrize("older", [1, 2])
async def test_released_jobs_of_an_older_store_are_claimed_in_their_turn(
    empty_place: Place, program_knows: Knows, older: int
) -> None:
    rows = await migrated(empty_place, program_knows, older)
    store = empty_place.store()
    await store.open()
    try:
        now = micros(AT + timedelta(days=1))
        params = {"tenant": "default", "topic": "work.any", "now": now, "limit": 100}
        found = [JOBS.decode(row[0]).id for row in await store.query("jobs.runnable_jobs", params)]
    finally:
        await store.close()
    waiting = [each for _, each in rows if isinstance(each, Job) and each.runnable_at]
    turns = sorted(waiting, key=lambda each: (RANKS[each.priority], each.runnable_at, each.id))
    assert found == [each.id for each in turns]


@pytest.mark.parametrize("older", [1, 2, 3, NEWEST - 1])
async def test_events_of_an_older_store_have_positions_in_the_order_they_were_written(
    empty_place: Place, program_knows: Knows, older: int
) -> None:
    await migrated(empty_place, program_knows, older)
    store = empty_place.store()
    await store.open()
    try:
        await outbox.sequence(store)
        await write(empty_place, [event(6)])
        await outbox.sequence(store)
        found = await outbox.events_after(store, "default", 0, limit=100)
        head = await outbox.head(store)
    finally:
        await store.close()
    assert [(placed.position, placed.event.data["n"]) for placed in found] == [(n, n) for n in range(1, 7)]
    assert head == 6
