"""What people look for: the requests that wait for a reviewer, most urgent first, and jobs by words, newest first.

The store skips requests of other groups and topics; the rule that `ApproveJob` uses decides whether a request waits
for this reviewer. A word that looks like the beginning of a job's id is looked up by id.

Each page reads a bounded number of rows, however many there are. So it may have fewer items than were asked for, or
none, and still say where to go on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from interlock.kernel.ids import new_id
from interlock.kernel.pages import NEWEST, Records, readable, rows_for_page
from interlock.kernel.record import Params, merge_reads, micros
from interlock.kernel.storage import Row, Store
from interlock.kernel.world import World
from interlock.rooms.identity.model import Principal
from interlock.rooms.jobs.approvals import WhyNot, eligibility_reads, is_reviewer, why_not
from interlock.rooms.jobs.discussion import remarks
from interlock.rooms.jobs.model import DISCUSSIONS, GROUP_MARK, JOBS, Approval, Job, JobState
from interlock.rooms.jobs.queries import count_waiting_on, listing_of, submitted_for, votes_needed
from interlock.rooms.policy.matching import topic_test

COUNTED_MAX = 1000
BLOCKED_MAX = 100
SOON = timedelta(hours=1)
SEARCHED_BYTES_MAX = 16 * 1024

WINDOW = 10_000
_ROWS_A_LOOK = 200
_LOOKS_A_PAGE = 8
_LOOKS_A_COUNT = 10
_PATTERNS_MAX = 8
_ESCAPE = "!"

Order = Literal["urgency", "newest"]
# When a request should be decided by, in microseconds, and its job's id: where it stands in either order.
Place = tuple[int, str]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the requests that wait are wanted. All `words` must occur in a request."""

    mine: bool = True
    topic: str | None = None
    env: str | None = None
    by: str | None = None
    words: tuple[str, ...] = ()


class WaitingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that waits for people, where it stands, and why it does not wait for the caller."""

    job: Job
    approval: Approval
    place: Place
    why_not: WhyNot | None
    votes_needed: int
    submitted_for: str | None


class Found(msgspec.Struct, frozen=True):
    """One page; `after` is where to go on, or None at the end."""

    items: list[WaitingRequest]
    after: Place | None


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests wait for a reviewer, and how many of them end soon; and whether there may be more of each."""

    waiting: int = 0
    is_waiting_cut: bool = False
    soon: int = 0
    is_soon_cut: bool = False


async def list_inbox(
    store: Store,
    who: Principal,
    wanted: Wanted,
    *,
    order: Order,
    now: datetime,
    after: Place | None,
    limit: int,
) -> Found:
    """The requests that wait, for `who` or for any reviewer, in an order."""
    if wanted.mine and not is_reviewer(who):
        return Found([], None)
    walk = _Walk(store, who, wanted, order, now, after)
    items: list[WaitingRequest] = []
    for look in range(_LOOKS_A_PAGE):
        items += await walk.look(_ROWS_A_LOOK if look else limit + 1)
        if walk.is_over or len(items) > limit or (walk.is_full and items):
            break
    if len(items) > limit:
        return Found(items[:limit], items[limit - 1].place)
    return Found(items, None if walk.is_over else walk.after)


async def count_attention(store: Store, who: Principal, now: datetime) -> Attention:
    """How many requests wait for `who`, each counted up to `COUNTED_MAX`."""
    if not is_reviewer(who):
        return Attention()
    walk = _Walk(store, who, Wanted(), "urgency", now, None)
    waiting = soon = 0
    for _ in range(_LOOKS_A_COUNT):
        found = await walk.look(_ROWS_A_LOOK)
        waiting += len(found)
        soon += sum(each.job.ends_at is not None and each.job.ends_at <= now + SOON for each in found)
        if walk.is_over or waiting >= COUNTED_MAX:
            break
    # A request to be decided later than that does not end soon, and neither do those behind it.
    may_be_sooner = not walk.is_over and walk.after[0] <= micros(now + SOON)
    return Attention(
        waiting=min(waiting, COUNTED_MAX),
        is_waiting_cut=not walk.is_over or waiting > COUNTED_MAX,
        soon=min(soon, COUNTED_MAX),
        is_soon_cut=may_be_sooner or soon > COUNTED_MAX,
    )


async def count_requests(store: Store, tenant: str, *, now: datetime, limit: int) -> int:
    """How many requests of a tenant wait for people as of `now`, counted up to `limit`."""
    given = {"tenant": tenant, "limit": limit}
    rows = await store.query("jobs.due_requests", {**given, "now": micros(now)})
    due = readable(JOBS, (row[0] for row in rows))
    expired = sum(job.state_at(now) is not JobState.APPROVAL for job in due)
    stored = (await store.query("jobs.count_requests", {**given, "limit": limit + expired}))[0][0]
    return max(0, int(stored) - expired)


async def count_open_questions(store: Store, job: Job) -> int:
    """How many questions about a request nobody has answered."""
    discussion = await store.get(DISCUSSIONS, job.tenant, job.id)
    return sum(remark.is_open for remark in remarks(job, discussion)) if discussion else 0


async def count_blocked(store: Store, jobs: Sequence[Job]) -> dict[str, int]:
    """By job, how many others wait for it: jobs for the same target, and its run; up to `BLOCKED_MAX` each."""
    keys = {job.action.target.key: job.tenant for job in jobs if job.action.target}
    on_target = {
        key: await count_waiting_on(store, tenant, key, limit=BLOCKED_MAX + 1) for key, tenant in keys.items()
    }
    return {
        job.id: min(
            BLOCKED_MAX,
            (on_target[job.action.target.key] - 1 if job.action.target else 0) + (job.run_id is not None),
        )
        for job in jobs
    }


class _Walk:
    """Goes through the requests that wait, look by look, each within a window.

    `after` is how far it came. `is_over`: there is nothing behind that. `is_full`: the last look ended because of the
    size of what it found.
    """

    def __init__(
        self, store: Store, who: Principal, wanted: Wanted, order: Order, now: datetime, after: Place | None
    ) -> None:
        self.after: Place = after or ((-(2**62), "") if order == "urgency" else (0, NEWEST))
        self.is_over = self.is_full = False
        self._store = store
        self._who = who
        self._by = "urgency" if order == "urgency" else "age"
        self._world = World(now, new_id)
        self._is_wanted = _test_of(wanted)
        self._mine = wanted.mine
        self._params = _params_of(who, wanted)

    async def look(self, rows_max: int) -> list[WaitingRequest]:
        """What is wanted of the next `rows_max` requests, as far as they fit a page."""
        params = {**self._params, **self._from(), "limit": rows_max}
        rows, self.is_full = await rows_for_page(self._store, f"jobs.list_requests_by_{self._by}", params)
        found = await self._judge(rows)
        if self.is_full or len(rows) == rows_max:
            self.after = (int(rows[-1][1]), str(rows[-1][2]))
        else:
            await self._end_window()
        return found

    def _from(self) -> Params:
        at, job_id = self.after
        return {
            "after_id": job_id,
            "window": WINDOW,
            **({"after_at": at} if self._by == "urgency" else {}),
        }

    async def _end_window(self) -> None:
        """Everything in the window was found: go on behind it, if there is anything."""
        last = {**self._from(), "window": WINDOW - 1, "tenant": self._who.tenant}
        rows = await self._store.query(f"jobs.end_of_window_by_{self._by}", last)
        self.is_over = not rows
        if rows:
            self.after = (int(rows[0][0]), str(rows[0][1]))

    async def _judge(self, rows: Sequence[Row]) -> list[WaitingRequest]:
        places = {str(row[2]): (int(row[1]), str(row[2])) for row in rows}
        jobs = [job for job in readable(JOBS, (row[0] for row in rows)) if self._is_wanted(job)]
        now = self._world.now
        waiting = [
            (job, job.approval) for job in jobs if job.approval and job.state_at(now) is JobState.APPROVAL
        ]
        await self._meet([job for job, _ in waiting])
        found = [self._entry(job, approval, places[job.id]) for job, approval in waiting]
        return [each for each in found if each.why_not is None or not self._mine]

    async def _meet(self, jobs: Sequence[Job]) -> None:
        """Load those whom the rule looks at, each once."""
        keys = merge_reads([eligibility_reads(job) for job in jobs]).see
        new = [key for key in keys if not self._world.knows(key)]
        self._world.admit({key: await self._store.get(*key) for key in new}, owned=())

    def _entry(self, job: Job, approval: Approval, place: Place) -> WaitingRequest:
        return WaitingRequest(
            job=job,
            approval=approval,
            place=place,
            why_not=why_not(self._world, job, approval, self._who),
            votes_needed=votes_needed(self._world, job, approval),
            submitted_for=submitted_for(self._world, job),
        )


def _params_of(who: Principal, wanted: Wanted) -> Params:
    patterns = patterns_of(who.groups if wanted.mine else None)
    is_exact = wanted.topic is not None and "*" not in wanted.topic
    return {
        "tenant": who.tenant,
        "topic": wanted.topic if is_exact else "",
        **{f"group_{number}": pattern for number, pattern in enumerate(patterns, start=1)},
    }


def _test_of(wanted: Wanted) -> Callable[[Job], bool]:
    fits_topic = topic_test(wanted.topic) if wanted.topic else None
    words = tuple(word.casefold() for word in wanted.words)

    def test(job: Job) -> bool:
        return (
            (fits_topic is None or fits_topic(job.action.topic))
            and (wanted.env is None or job.action.env == wanted.env)
            and (wanted.by is None or job.submitted_by == wanted.by)
            and (not words or has_words(job, words))
        )

    return test


def has_words(job: Job, words: Sequence[str]) -> bool:
    """Whether each word occurs in what names a request or in a payload that is not large."""
    action = job.action
    labels = (f"{name}={value}" for name, value in {**action.labels, **job.system_labels}.items())
    payload = bytes(action.payload)
    is_small = len(payload) <= SEARCHED_BYTES_MAX
    texts = [
        job.id, action.topic, action.env, job.submitted_by, action.target.key if action.target else "",
        *labels, payload.decode(errors="replace") if is_small else "",
    ]  # fmt: skip
    text = "\n".join(texts).casefold()
    return all(word in text for word in words)


_ROWS_A_SEARCH = 500
_LOOKS_A_SEARCH = 10
_BEGINNING_OF_ID = re.compile(r"job_[0-9a-f]{1,32}")


class Sought(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are looked for: every word occurs in what names them. `topic` may be a pattern."""

    words: tuple[str, ...] = ()
    topic: str | None = None
    state: JobState | None = None


async def search_jobs(
    store: Store, tenant: str, sought: Sought, *, now: datetime, before: str | None, limit: int
) -> Records[Job]:
    """The jobs that are sought, newest first."""
    words = tuple(word.casefold() for word in sought.words)
    first = max((word for word in words if _BEGINNING_OF_ID.fullmatch(word)), key=len, default="")
    is_exact = sought.topic is not None and "*" not in sought.topic
    name, params = listing_of(tenant, sought.state, sought.topic if is_exact else None, now)
    fits_topic = topic_test(sought.topic) if sought.topic else None
    place = min(before or NEWEST, f"{first}{NEWEST}") if first else before or NEWEST
    count, items = _ROWS_A_SEARCH, list[Job]()
    for _ in range(_LOOKS_A_SEARCH):
        rows, is_full = await rows_for_page(store, name, {**params, "before": place, "limit": count})
        found = readable(JOBS, (row[0] for row in rows))
        is_last = not is_full and len(rows) < count
        if not found and not is_last:
            count *= 2  # The cursor cannot be read from these rows either, so look further from here.
            continue
        items += [
            job
            for job in found
            if sought.state in (None, job.state_at(now))
            and (fits_topic is None or fits_topic(job.action.topic))
            and _is_named(job, words, first)
        ]
        if len(items) > limit:
            return Records(items[:limit], items[limit - 1].id)
        if is_last or (found and found[-1].id < first):
            return Records(items, None)
        place = found[-1].id
    return Records(items, place)


def _is_named(job: Job, words: Sequence[str], first: str) -> bool:
    return job.id.startswith(first) and (not words or has_words(job, words))


def patterns_of(groups: Iterable[str] | None) -> tuple[str | None, ...]:
    """Patterns for LIKE that together find every text with one of these groups; with None, every text.

    They may find other texts too: SQLite ignores case, a mark may be part of a name, and a person in very many groups
    is shown everything. They only skip what is surely not for this person; the rule decides.
    """
    found = ["%"] if groups is None else [f"%{GROUP_MARK}{_escaped(group)}{GROUP_MARK}%" for group in groups]
    if len(found) > _PATTERNS_MAX:
        found = ["%"]
    return (*found, *[None] * (_PATTERNS_MAX - len(found)))


def _escaped(group: str) -> str:
    for sign in (_ESCAPE, "%", "_"):
        group = group.replace(sign, _ESCAPE + sign)
    return group
