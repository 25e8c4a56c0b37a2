"""Events through both clients: read, waited for, read on; and webhooks looked after."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock import AsyncInterlock, Interlock, InterlockError
from interlock.wire.events import Event
from tests.harness.server import InterlockServer
from tests.sdk.approval_team import POLICY

ROLES = "submit,review,operate,audit,admin"


class Watched:
    """A service, somebody who makes things happen, and clients of both kinds that look on."""

    def __init__(self, url: str | None, key: str | None, store: str | None) -> None:
        self.actor = Interlock(url, key, store=store)
        self.blocking = Interlock(url, key, store=store)
        self._options = (url, key, store)
        self.actor.apply_policy(POLICY)

    def submit(self, count: int) -> list[str]:
        return [self.actor.submit("read.page", {"n": n}).id for n in range(count)]

    def waiting(self) -> AsyncInterlock:
        url, key, store = self._options
        return AsyncInterlock(url, key, store=store)

    def close(self) -> None:
        self.actor.close()
        self.blocking.close()


@pytest.fixture(params=["embedded", "server"])
def watched(
    request: pytest.FixtureRequest, tmp_path: Path, serve: Callable[..., InterlockServer]
) -> Iterator[Watched]:
    store = f"sqlite:///{tmp_path}/interlock.db"
    if request.param == "server":
        server = serve(store)
        made = Watched(server.url, server.create_key("root", kind="person", roles=ROLES).key, None)
    else:
        made = Watched(None, None, store)
    yield made
    made.close()


def released(events: list[Event]) -> list[str]:
    return [event.subject for event in events if event.type == "dev.interlock.job.released"]


def test_reading_on_finds_every_event_once_and_in_order(watched: Watched) -> None:
    jobs = watched.submit(5)
    after, seen = 0, list[Event]()
    while (page := watched.blocking.events(after=after, limit=2)).items:
        assert len(page.items) <= 2
        seen += page.items
        after = page.next_after
    positions = [int(event.position) for event in seen]
    assert positions == sorted(set(positions))
    assert released(seen) == jobs
    assert after == positions[-1]


def test_without_a_position_the_newest_are_given_oldest_first(watched: Watched) -> None:
    jobs = watched.submit(3)
    page = watched.blocking.events(types=["job.released"], limit=2)
    assert [event.subject for event in page.items] == jobs[1:]


def test_a_blocking_client_that_waits_has_the_event_when_it_happens(watched: Watched) -> None:
    head = watched.blocking.events().next_after
    jobs: list[str] = []
    acting = threading.Timer(0.3, lambda: jobs.extend(watched.submit(1)))
    acting.start()
    page = watched.blocking.events(after=head, types=["job.*"], wait_seconds=30)
    acting.join()
    assert released(list(page.items)) == jobs


def test_an_async_client_that_waits_has_the_event_when_it_happens(watched: Watched) -> None:
    async def wait() -> tuple[list[str], list[str]]:
        async with watched.waiting() as il:
            head = (await il.events()).next_after
            coming = asyncio.create_task(il.events(after=head, types=["job.*"], wait_seconds=30))
            await asyncio.sleep(0.3)
            jobs = await asyncio.to_thread(watched.submit, 1)
            return released(list((await coming).items)), jobs

    found, jobs = asyncio.run(wait())
    assert found == jobs


def test_waiting_in_vain_gives_nothing_and_the_same_position(watched: Watched) -> None:
    watched.submit(1)
    head = watched.blocking.events().next_after
    page = watched.blocking.events(after=head, wait_seconds=0.2)
    assert (page.items, page.next_after) == ((), head)


def test_a_webhook_is_added_rotated_listed_and_removed(watched: Watched) -> None:
    il = watched.blocking
    made = il.add_webhook("https://example.com/hook", types=["job.*"], description="a book", key="once")
    again = il.add_webhook("https://example.com/hook", types=["job.*"], description="a book", key="once")
    assert made.secret is not None
    assert (again.id, again.secret) == (made.id, made.secret)
    rotated = il.rotate_webhook(made.id)
    assert rotated.secret not in (None, made.secret)
    (listed,) = il.webhooks().items
    assert (listed.id, listed.types, listed.description, listed.secret) == (
        made.id,
        ("job.*",),
        "a book",
        None,
    )
    il.remove_webhook(made.id)
    assert il.webhooks().items == ()
    with pytest.raises(InterlockError, match="wh_"):
        il.rotate_webhook(made.id)
