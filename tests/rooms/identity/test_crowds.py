"""However many calls come at once with one key, its owner is looked up once, and never from before a change."""

from __future__ import annotations

import asyncio

import pytest

from interlock.kernel.record import Params
from interlock.kernel.storage import Row
from interlock.rooms.identity.refusals import Unauthenticated
from interlock.service.keyring import Keyring
from interlock.store.memory import MemoryStore
from tests.harness.in_process_api import InProcessApi, VirtualClock, open_api


class SlowStore(MemoryStore):
    """A store whose plain reads wait for a sign, and are counted."""

    def __init__(self) -> None:
        super().__init__(clock=VirtualClock())
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.asked = 0

    async def query(self, name: str, params: Params, *, bytes_max: int | None = None) -> list[Row]:
        self.asked += name == "identity.caller_by_key"
        await self.go_on.wait()
        return await super().query(name, params, bytes_max=bytes_max)


async def crowd(keyring: Keyring, key: str, count: int = 50) -> list[asyncio.Task[object]]:
    """A number of calls that all wait for the key's owner."""
    calls: list[asyncio.Task[object]] = [
        asyncio.create_task(keyring.known(key, recent_will_do=True)) for _ in range(count)
    ]
    await asyncio.sleep(0)
    return calls


def waiting(store: SlowStore, api: InProcessApi) -> Keyring:
    """A keyring that remembers nobody, and a store that does not answer for now."""
    store.go_on.clear()
    store.asked = 0
    return Keyring(api.service.store)


async def test_a_crowd_with_one_key_costs_one_look_up() -> None:
    store = SlowStore()
    async with open_api(store) as api:
        keyring = waiting(store, api)
        calls = await crowd(keyring, api.admin)
        store.go_on.set()
        assert len(set(map(id, await asyncio.gather(*calls)))) == 1
        assert store.asked == 1


async def test_a_crowd_with_a_wrong_key_is_refused_as_one() -> None:
    store = SlowStore()
    async with open_api(store) as api:
        keyring = waiting(store, api)
        calls = await crowd(keyring, api.admin[:-1] + "?")
        store.go_on.set()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {Unauthenticated}
        with pytest.raises(Unauthenticated):
            await keyring.known(api.admin[:-1] + "?", recent_will_do=True)


async def test_a_look_up_from_before_a_change_is_not_joined_after_it() -> None:
    store = SlowStore()
    async with open_api(store) as api:
        keyring = waiting(store, api)
        before = await crowd(keyring, api.admin, 2)
        keyring.forget()
        after = await crowd(keyring, api.admin, 2)
        store.go_on.set()
        await asyncio.gather(*before, *after)
        assert store.asked == 2


async def test_one_caller_that_leaves_takes_nobody_along() -> None:
    store = SlowStore()
    async with open_api(store) as api:
        keyring = waiting(store, api)
        first, second = await crowd(keyring, api.admin, 2)
        first.cancel()
        store.go_on.set()
        assert await second
        assert store.asked == 1


async def test_what_there_is_no_room_for_is_refused_before_its_key_is_looked_up() -> None:
    store = SlowStore()
    async with open_api(store) as api:
        api.service.keyring.forget()
        store.asked = 0
        api.service.kernel._waiting._count_max = 0
        seen = await api.call("POST", "jobs", api.admin, {"topic": "read", "payload": {}})
        assert (seen.status, seen.word) == (503, "overloaded")
        assert int(seen.headers["retry-after"]) >= 1
        assert store.asked == 0
        assert (await api.call("GET", "jobs", api.admin)).status == 200
