"""Sessions on stores that several servers share: one link is one session, and what one server ends is over on all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from interlock.kernel.ids import new_id
from interlock.rooms.identity.queries import list_principals, list_sessions
from interlock.rooms.identity.refusals import LinkOver, SessionOver, SignInRefused
from interlock.rooms.identity.sessions import ForgetSessions
from interlock.service.service import Service
from interlock.service.sessions import (
    Opened,
    Vouched,
    end,
    make_link,
    open_for,
    open_with_key,
    open_with_link,
    see,
)
from interlock.service.settings import settings_from
from interlock.store import store_for
from tests.harness.in_process_api import InProcessApi, open_api


@contextlib.asynccontextmanager
async def another_server(url: str) -> AsyncIterator[Service]:
    service = Service(store_for(url), settings_from(store=url))
    await service.open(sweeping=False)
    try:
        yield service
    finally:
        await service.close()


@pytest.fixture
async def servers(durable_url: str) -> AsyncIterator[tuple[InProcessApi, Service]]:
    """Two servers on one durable store."""
    async with open_api(store_for(durable_url)) as api, another_server(durable_url) as other:
        yield api, other


async def test_of_many_who_use_one_link_at_once_one_signs_in(servers: tuple[InProcessApi, Service]) -> None:
    api, other = servers
    caller = (await api.service.keyring.known(await api.person("ada"), recent_will_do=False)).caller
    for _ in range(5):
        link = await make_link(api.service, caller)
        tries = [open_with_link(each, link.token) for each in (api.service, other) for _ in range(4)]
        outcomes = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(not isinstance(each, BaseException) for each in outcomes) == 1
        assert sum(isinstance(each, LinkOver) for each in outcomes) == 7
    found, _ = await list_sessions(other.store, "default", principal="ada", limit=100)
    assert len(found) == 5


async def test_what_one_server_ends_is_over_on_the_other(servers: tuple[InProcessApi, Service]) -> None:
    api, other = servers
    ada = await open_with_key(api.service, await api.person("ada"))
    assert (await see(other, ada.token)).session == ada.session
    await end(other, ada.token)
    with pytest.raises(SessionOver):
        await see(api.service, ada.token)


async def test_the_same_person_signs_in_for_the_first_time_on_two_servers_at_once(
    servers: tuple[InProcessApi, Service],
) -> None:
    api, other = servers
    who = Vouched(provider="corp", subject="s1", name="ada")
    tries = [open_for(each, who, just_in_time=True) for each in (api.service, other) for _ in range(4)]
    opened = await asyncio.gather(*tries)
    assert len({each.session.id for each in opened}) == 8
    found, cursor = await list_sessions(api.service.store, "default", limit=5)
    rest, _ = await list_sessions(api.service.store, "default", before=cursor, limit=5)
    newest_first = [each.session.id for each in (*found, *rest)]
    assert newest_first == sorted((each.session.id for each in opened), reverse=True)
    assert await api.service.kernel.run(ForgetSessions()) == 0


async def test_of_many_answers_to_one_sign_in_on_two_servers_one_opens_a_session(
    servers: tuple[InProcessApi, Service],
) -> None:
    api, other = servers
    who = Vouched(provider="corp", subject="s1", name="ada")
    for _ in range(3):
        chosen = new_id("ses")
        tries = [
            open_for(each, who, just_in_time=True, session_id=chosen)
            for each in (api.service, other)
            for _ in range(4)
        ]
        outcomes = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(not isinstance(each, BaseException) for each in outcomes) == 1
        assert sum(isinstance(each, SignInRefused) for each in outcomes) == 7


async def test_one_account_is_one_person_whatever_two_servers_hear_it_called(
    servers: tuple[InProcessApi, Service],
) -> None:
    api, other = servers
    named = [Vouched(provider="corp", subject="s1", name=name) for name in ("ada", "lovelace", "countess")]
    tries = [open_for(each, who, just_in_time=True) for who in named for each in (api.service, other)]
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    opened = [each for each in outcomes if isinstance(each, Opened)]
    assert len({each.session.principal for each in opened}) == 1
    assert all(isinstance(each, Opened | SignInRefused) for each in outcomes)
    people, _ = await list_principals(api.service.store, "default", limit=10)
    assert len([each for each in people if each.provider == "corp"]) == 1
