"""A service on a SQLite file that others share: it decides for them, and they for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from interlock.grants.claiming import ClaimGrant
from interlock.grants.model import GRANT_USES, GrantUse
from interlock.grants.rules import IssueGrant
from interlock.identity.model import Caller
from interlock.kernel import lane
from interlock.kernel.ids import new_id
from interlock.outbox.rules import EVENTS_TOPIC
from interlock.runtime.requests import REQUESTS
from interlock.runtime.service import Service, open_service
from interlock.runtime.settings import settings_from
from interlock.store.sqlite import SqliteStore
from interlock.store.sqlite.driver import connect
from tests.conformance.asking import PATIENCE, SPENT, WON, Scene


@pytest.fixture
async def service(scene: Scene) -> AsyncIterator[Service]:
    async with open_service(settings_from({}, store=scene.url), sweeping=False) as service:
        yield service


@pytest.fixture
def caller(scene: Scene) -> Caller:
    return scene.first.caller


def claim_by(caller: Caller) -> ClaimGrant:
    return ClaimGrant(caller=caller, task="t", args=msgspec.Raw(b"{}"), execution_id=new_id("exec"))


async def test_what_others_ask_for_is_decided_with_the_next_batch_and_heard_of(
    scene: Scene, service: Service, caller: Caller
) -> None:
    scene.issue(1)
    claim, others = claim_by(caller), scene.holder.others
    request = REQUESTS.encode([claim], lambda _: None)
    assert request is not None
    assert others.ask(request)
    with service.kernel.wakes.subscribe(EVENTS_TOPIC) as news:
        issued = await service.kernel.run(
            IssueGrant(caller=caller, grant_id=new_id("gnt"), task="other", standing=True)
        )
        assert await news.wait(PATIENCE)
    assert issued.task == "other"
    assert others.is_told()
    assert claim.found(lambda key: None) is None
    known = await service.store.get(GRANT_USES, "default", claim.reads().own[0].id)
    assert isinstance(known, GrantUse)
    assert known.execution_id == claim.execution_id
    others.drop()


async def test_guests_alone_are_news_too(scene: Scene, service: Service, caller: Caller) -> None:
    """The batch itself announces nothing."""
    scene.issue(1)
    request = REQUESTS.encode([claim_by(caller)], lambda _: None)
    assert request is not None
    assert scene.holder.others.ask(request)
    nothing_left = ClaimGrant(caller=caller, task="none", args=msgspec.Raw(b"{}"), execution_id="x")
    with service.kernel.wakes.subscribe(EVENTS_TOPIC) as news:
        await service.kernel.run(nothing_left)
        assert await news.wait(PATIENCE)
    assert scene.holder.count(SPENT) == 1
    scene.holder.others.drop()


@pytest.mark.parametrize("count", [1, 3])
async def test_others_decide_a_batch_whole(
    scene: Scene, service: Service, caller: Caller, count: int
) -> None:
    scene.issue(count)
    holder = scene.holder
    holder.begin()
    claims = [asyncio.create_task(service.kernel.run(claim_by(caller))) for _ in range(count)]
    await asyncio.to_thread(holder.sees, 1)
    before = holder.count("batches")
    holder.decide()
    holder.commit()
    uses = await asyncio.gather(*claims)
    assert len({use.grant_id for use in uses if isinstance(use, GrantUse)}) == count
    assert holder.count("batches") == before + 1
    assert (holder.count(WON), holder.count(SPENT)) == (count, count)


async def test_whoever_won_in_another_s_commit_hears_of_it_though_the_rest_of_its_batch_has_to_wait(
    scene: Scene, service: Service, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "_ACQUIRE_SECONDS_MAX", 1.0)
    scene.issue(1)
    holder = scene.holder
    holder.begin()
    claims = [asyncio.create_task(service.kernel.run(claim_by(caller), acquire_seconds=1.0)) for _ in "12"]
    await asyncio.to_thread(holder.sees, 1)
    (request,) = holder.others.requests()
    assert len(REQUESTS.decode(request.body)) == 2
    holder.decide()
    holder.file._database.execute("COMMIT")
    stopped = connect(str(scene.path))  # whoever comes next does not go on
    stopped.execute("BEGIN IMMEDIATE")
    holder.lock.pass_on()
    ended = await asyncio.gather(*claims, return_exceptions=True)
    stopped.close()
    assert sorted(type(each).__name__ for each in ended) == ["GrantUse", "LockBusy"]
    assert (holder.count(WON), holder.count(SPENT)) == (1, 1)


async def test_a_batch_asks_again_after_each_turn_at_the_lock(
    scene: Scene, service: Service, caller: Caller
) -> None:
    scene.issue(2)
    holder = scene.holder
    holder.begin()
    first = asyncio.create_task(service.kernel.run(claim_by(caller), acquire_seconds=PATIENCE))
    await asyncio.to_thread(holder.sees, 1)
    (before,) = holder.others.requests()
    second = asyncio.create_task(service.kernel.run(claim_by(caller), acquire_seconds=PATIENCE))
    while (now := holder.others.requests()) == [before] or not now:
        await asyncio.sleep(0.01)
    holder.decide()
    holder.commit()
    uses = await asyncio.gather(first, second)
    assert len({use.grant_id for use in uses if isinstance(use, GrantUse)}) == 2
    assert (holder.count(WON), holder.count(SPENT)) == (2, 2)


async def test_a_service_that_closes_leaves_no_request(scene: Scene, caller: Caller) -> None:
    scene.issue(1)
    holder = scene.holder
    async with open_service(settings_from({}, store=scene.url), sweeping=False) as service:
        holder.begin()
        claim = asyncio.create_task(service.kernel.run(claim_by(caller), acquire_seconds=0.3))
        await asyncio.to_thread(holder.sees, 1)
    assert claim.done()
    assert claim.exception() is not None
    assert holder.others.requests() == []
    holder.end()
    assert holder.count(SPENT) == 0


async def test_a_service_for_which_others_decide_everything_hears_of_what_they_commit(
    scene: Scene, service: Service, caller: Caller
) -> None:
    scene.issue(1)
    holder, store = scene.holder, service.store
    assert isinstance(store, SqliteStore)
    assert store._watcher is not None
    store._watcher.cancel()  # as if it never found the store idle
    await service.kernel.run(IssueGrant(caller=caller, grant_id=new_id("gnt"), task="other"))
    await asyncio.sleep(0.1)
    holder.begin()
    with service.kernel.wakes.subscribe(EVENTS_TOPIC) as news:
        claim = asyncio.create_task(service.kernel.run(claim_by(caller)))
        await asyncio.to_thread(holder.sees, 1)
        holder.decide()
        holder.commit()
        assert isinstance(await claim, GrantUse)
        assert await news.wait(1.0)
