"""The inbox over HTTP: what waits for the caller, the most urgent first, and how much needs attention."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from interlock.api.calls import Asked
from interlock.api.jobs import job_fields
from interlock.api.operations import Operation, Reply
from interlock.api.pages import PageQuery, moment_and_id
from interlock.api.problem import invalid
from interlock.kernel.codec.strict import JsonFault
from interlock.kernel.storage import Store
from interlock.rooms.conflicts.queries import count_open
from interlock.rooms.effects.queries import count_ambiguous
from interlock.rooms.identity.model import Principal
from interlock.rooms.jobs import inbox_queries
from interlock.rooms.jobs.inbox_queries import COUNTED_MAX, WaitingRequest, Wanted
from interlock.rooms.jobs.queries import count_dead_of
from interlock.rooms.policy.matching import topic_problem
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire import approvals as wire

Word = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]


class InboxQuery(PageQuery, frozen=True, kw_only=True):
    mine: Annotated[
        bool, msgspec.Meta(description="Only what the caller may decide now and has not yet.")
    ] = True
    topic: Annotated[Word, msgspec.Meta(description="A topic, or a pattern with `*` and `**`.")] | None = None
    env: Word | None = None
    by: Annotated[Word, msgspec.Meta(description="Who submitted it.")] | None = None
    q: (
        Annotated[
            str,
            msgspec.Meta(
                max_length=200,
                description="Words that must all occur in the id, topic, env, submitter, target, labels or a payload "
                "of 16 KiB at most.",
            ),
        ]
        | None
    ) = None
    order: Annotated[
        Literal["urgency", "newest"],
        msgspec.Meta(
            description="`urgency`: by when they end, as if what is critical ended 24 hours sooner, what is high "
            "4 hours sooner, and what a run waits for 1 hour sooner."
        ),
    ] = "urgency"


async def listed(call: Asked[InboxQuery, None]) -> Reply:
    query, store, who = call.query, call.services.store, call.caller.who
    now = call.services.now()
    wanted = _wanted(query)
    after = moment_and_id(query.cursor)
    found = await inbox_queries.list_inbox(
        store, who, wanted, order=query.order, now=now, after=after, limit=query.limit
    )
    cursor = f"{found.after[0]}-{found.after[1]}" if found.after else None
    items = await _items(store, found.items, now)
    return Reply(200, wire.Inbox(items=items, next_cursor=cursor, counts=await _count(store, who, now)))


async def counted(call: Asked[None, None]) -> Reply:
    return Reply(200, await _count(call.services.store, call.caller.who, call.services.now()))


def _wanted(query: InboxQuery) -> Wanted:
    if query.topic is not None and (problem := topic_problem(query.topic)) is not None:
        raise invalid(JsonFault("query/topic", problem))
    words = tuple((query.q or "").split())
    return Wanted(mine=query.mine, topic=query.topic, env=query.env, by=query.by, words=words)


async def _items(store: Store, waiting: list[WaitingRequest], now: datetime) -> tuple[wire.InboxItem, ...]:
    blocked = await inbox_queries.count_blocked(store, [each.job for each in waiting])
    return tuple(
        [
            wire.InboxItem(
                **job_fields(each.job, now),
                job_id=each.job.id,
                votes_needed=each.votes_needed,
                mine=each.why_not is None,
                why_not=each.why_not.value if each.why_not else None,
                ends_at=each.job.ends_at,
                submitted_for=each.submitted_for,
                blocks=blocked[each.job.id],
                open_questions=await inbox_queries.count_open_questions(store, each.job),
            )
            for each in waiting
        ]
    )


async def _count(store: Store, who: Principal, now: datetime) -> wire.InboxCounts:
    tenant, limit = who.tenant, COUNTED_MAX + 1
    mine = await inbox_queries.count_attention(store, who, now)
    of_tenant = {
        "waiting": await inbox_queries.count_requests(store, tenant, now=now, limit=limit),
        "conflicts_open": await count_open(store, tenant, limit=limit),
        "effects_ambiguous": await count_ambiguous(store, tenant, now=now, limit=limit),
        "dead_letters": await count_dead_of(store, tenant, limit=limit),
    }
    is_cut = {"waiting_for_me": mine.is_waiting_cut, "expiring_soon": mine.is_soon_cut}
    is_cut |= {name: number > COUNTED_MAX for name, number in of_tenant.items()}
    return wire.InboxCounts(
        waiting_for_me=mine.waiting,
        expiring_soon=mine.soon,
        **{name: min(number, COUNTED_MAX) for name, number in of_tenant.items()},
        at_least=tuple(name for name, is_more in is_cut.items() if is_more),
    )


_TAG = "Approvals"
_READERS = ("submit", "review", "operate", "audit", "admin")

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="list_inbox", method="GET", path="/api/v1/inbox", tag=_TAG, roles=_READERS,
        summary="What waits for the caller's decision, the most urgent first",
        query=InboxQuery, answers={200: wire.Inbox}, answer=listed,
    ),
    Operation(
        id="count_inbox", method="GET", path="/api/v1/inbox/counts", tag=_TAG, roles=_READERS,
        summary="How much needs attention",
        answers={200: wire.InboxCounts}, answer=counted,
    ),
)  # fmt: skip
