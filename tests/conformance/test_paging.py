"""Pages of a list: every record once, newest first, whatever lies between them that cannot be read or is not wanted."""

from __future__ import annotations

import hashlib
import itertools
from datetime import UTC, datetime

import msgspec
import pytest

from interlock.api.pages import moment_and_id
from interlock.kernel.pages import page_of
from interlock.kernel.storage import Store
from interlock.rooms.grants.model import GRANT_USES, SIGNERS, GrantUse, Signer
from interlock.rooms.grants.queries import list_signers, list_uses
from interlock.rooms.jobs.inbox_queries import Sought, search_jobs
from interlock.rooms.jobs.model import JOBS, Job, JobState, Verdict
from interlock.rooms.policy.action import Action
from tests.conformance.test_stores import carrying, changes
from tests.harness.store_places import Place
from tests.kernel.counter_room import CHORES, Chore

NOW = datetime(2030, 1, 1, tzinfo=UTC)
WANTED, UNWANTED, BROKEN = "+-!"
# Oldest first. Nothing, one page, and gaps at the beginning, in the middle and at the end, longer than any page.
STORIES = (
    "",
    "+",
    "+++",
    "++++++",
    "+!",
    "!+",
    "+!!!!!!!!!!",
    "+!!!!!!!!!!+",
    "!!!+",
    "+-",
    "+----------+",
    "-!-!+-!-!",
)


async def tell(place: Place, store: Store, story: str) -> list[str]:
    """Store one record for each sign, under a tenant of the story's own; the wanted ones, newest first."""
    signs = [(f"c{number:03}", sign) for number, sign in enumerate(story)]
    chores = [Chore(tenant=story, id=name, version=1, taken_by=sign) for name, sign in signs]
    await store.transact(carrying(changes(*((CHORES, chore) for chore in chores)), batch_id=f"batch_{story}"))
    broken = ", ".join(f"'{name}'" for name, sign in signs if sign == BROKEN) or "''"
    await place.rows(f"UPDATE jobs SET body = 'broken' WHERE tenant = '{story}' AND id IN ({broken})")
    return [name for name, sign in reversed(signs) if sign == WANTED]


async def turn_pages(store: Store, tenant: str, limit: int) -> list[list[str]]:
    """The ids on every page, to the last."""
    pages: list[list[str]] = []
    before: str | None = None
    for _ in range(20):
        page = await page_of(
            store,
            CHORES,
            "jobs.list_jobs",
            {"tenant": tenant},
            before,
            limit,
            keep=lambda chore: chore.taken_by != UNWANTED,
        )
        pages.append([chore.id for chore in page.items])
        before = page.next_cursor
        if before is None:
            return pages
    raise AssertionError(f"the list has no end: {pages}")


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_a_list_shows_every_record_once_whatever_lies_between(shared_place: Place, limit: int) -> None:
    store = shared_place.store()
    await store.open()
    try:
        for story in STORIES:
            wanted = await tell(shared_place, store, story)
            pages = await turn_pages(store, story, limit)
            assert list(itertools.chain.from_iterable(pages)) == wanted, story
            assert all(len(page) <= limit for page in pages), story
        # A page goes on looking until it is full, but not for ever.
        assert await turn_pages(store, "+----------+", 2) == [["c011", "c000"]]
        await tell(shared_place, store, 600 * BROKEN + "+")
        assert len(await turn_pages(store, 600 * BROKEN + "+", 1)) == 1
    finally:
        await store.close()


async def test_a_page_is_filled_up_and_the_last_one_says_so(store: Store) -> None:
    chores = [Chore(tenant="t", id=f"c{number}", version=1, taken_by=WANTED) for number in range(4)]
    await store.transact(carrying(changes(*((CHORES, chore) for chore in chores))))
    assert await turn_pages(store, "t", 2) == [["c3", "c2"], ["c1", "c0"]]
    assert await turn_pages(store, "t", 3) == [["c3", "c2", "c1"], ["c0"]]
    assert await turn_pages(store, "t", 4) == [["c3", "c2", "c1", "c0"]]


async def test_uses_and_signers_are_listed_newest_first_whatever_their_ids(store: Store) -> None:
    uses = [use(number) for number in (1, 9, 10, 11)]
    signers = [signer(name, day) for name, day in (("c", 1), ("a", 2), ("d", 2), ("b", 3))]
    stored = [*((GRANT_USES, each) for each in uses), *((SIGNERS, each) for each in signers)]
    await store.transact(carrying(changes(*stored)))

    first = await list_uses(store, "t", "gnt_1", before=None, limit=3)
    rest = await list_uses(store, "t", "gnt_1", before=int(first.next_cursor or 0), limit=3)
    newest = await list_signers(store, "t", before=None, limit=2)
    oldest = await list_signers(store, "t", before=moment_and_id(newest.next_cursor), limit=2)

    assert [each.use for each in (*first.items, *rest.items)] == [11, 10, 9, 1]
    assert rest.next_cursor is None
    assert [each.person for each in (*newest.items, *oldest.items)] == ["b", "d", "a", "c"]
    assert oldest.next_cursor is None


def use(number: int) -> GrantUse:
    return GrantUse(
        tenant="t",
        id=hashlib.sha256(str(number).encode()).hexdigest(),
        version=1,
        grant_id="gnt_1",
        task="deploy",
        execution_id=f"run-{number}",
        use=number,
        fence=number,
        claimed_by="bot",
        claimed_at=datetime(2030, 1, 1, tzinfo=UTC),
        args_digest="",
    )


def signer(name: str, day: int) -> Signer:
    return Signer(
        tenant="t",
        id=f"SHA256:{name}",
        version=1,
        person=name,
        public_key="",
        added_at=datetime(2030, 1, day, tzinfo=UTC),
        added_by="root",
    )


async def test_words_and_the_beginning_of_an_id_are_found_whatever_lies_before(store: Store) -> None:
    jobs = [job(f"job_{number:032x}", "Acme" if number % 100 == 0 else "Zed") for number in range(1, 301)]
    await store.transact(carrying(changes(*((JOBS, each) for each in jobs))))

    async def found(*words: str, limit: int = 2) -> list[list[str]]:
        pages: list[list[str]] = []
        before: str | None = None
        while not pages or before is not None:
            page = await search_jobs(store, "t", Sought(words=words), now=NOW, before=before, limit=limit)
            pages.append([each.id for each in page.items])
            before = page.next_cursor
        return pages

    assert await found("acme") == [[jobs[299].id, jobs[199].id], [jobs[99].id]]
    assert await found(jobs[0].id) == [[jobs[0].id]]
    assert await found(jobs[31].id[:-1], limit=20) == [[each.id for each in reversed(jobs[31:47])]]
    assert await found("acme", jobs[99].id) == [[jobs[99].id]]


def job(job_id: str, to: str) -> Job:
    return Job(
        tenant="t", id=job_id, version=1, state=JobState.PENDING, job_hash="h", policy_snapshot="p",
        action=Action(topic="pay", payload=msgspec.Raw(msgspec.json.encode({"to": to}))),
        verdict=Verdict(decision="allow"), submitted_by="bot", submitted_at=NOW, updated_at=NOW,
    )  # fmt: skip
