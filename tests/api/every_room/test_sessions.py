"""Sessions over HTTP: everybody sees and ends their own, admins those of their tenant, and links sign in once."""

from __future__ import annotations

import pytest

from interlock.rooms.identity.refusals import LinkOver
from interlock.service.sessions import Opened, end, open_with_key, open_with_link
from tests.harness.in_process_api import InProcessApi


async def signed_in(api: InProcessApi, key: str) -> Opened:
    return await open_with_key(api.service, key, client="10.0.0.7", user_agent="Browser/1\n" + "x" * 500)


async def ids(api: InProcessApi, path: str, key: str) -> list[str]:
    return [each["session_id"] for each in (await api.get(path, key))["items"]]


async def test_people_see_their_own_sessions_newest_first(api: InProcessApi) -> None:
    ada, bob = await api.person("ada"), await api.person("bob")
    first, second = await signed_in(api, ada), await signed_in(api, ada)
    await signed_in(api, bob)
    [newest, oldest] = (await api.get("sessions", ada))["items"]
    assert [newest["session_id"], oldest["session_id"]] == [second.session.id, first.session.id]
    assert (newest["live"], newest["over"], newest["by"], newest["client"]) == (True, None, "key", "10.0.0.7")
    assert len(newest["user_agent"]) == 200
    assert first.token not in str(newest)
    assert first.session.digest not in str(oldest)


async def test_sessions_of_others_are_for_admins(api: InProcessApi) -> None:
    ada, bob = await api.person("ada"), await api.person("bob")
    hers, his = await signed_in(api, ada), await signed_in(api, bob)
    for path in ("sessions?principal=bob", "sessions?all=true"):
        assert (await api.call("GET", path, ada)).word == "forbidden"
    assert await ids(api, "sessions?principal=ada", ada) == [hers.session.id]
    assert await ids(api, "sessions?principal=bob", api.admin) == [his.session.id]
    assert await ids(api, "sessions?all=true", api.admin) == [his.session.id, hers.session.id]


async def test_a_list_of_sessions_is_paged(api: InProcessApi) -> None:
    ada = await api.person("ada")
    opened = [(await signed_in(api, ada)).session.id for _ in range(5)]
    seen: list[str] = []
    cursor = ""
    while True:
        page = await api.get(f"sessions?limit=2{cursor}", ada)
        seen += [each["session_id"] for each in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == opened[::-1]
    assert (await api.call("GET", "sessions?cursor=job_1", ada)).status == 400


async def test_a_session_says_why_it_is_over(api: InProcessApi) -> None:
    ada = await api.person("ada")
    await end(api.service, (await signed_in(api, ada)).token)
    await signed_in(api, ada)
    api.clock.advance(31 * 60)
    await api.sweep()
    [idle, ended] = (await api.get("sessions", ada))["items"]
    assert (idle["live"], "idle" in idle["over"]) == (False, True)
    assert (ended["live"], ended["over"], ended["ended_by"]) == (False, "the session was ended", "ada")


async def test_ending_a_session_is_for_its_owner_and_for_admins_of_its_tenant(api: InProcessApi) -> None:
    ada, bob = await api.person("ada"), await api.person("bob")
    stranger = await api.person("eve", "admin", tenant="other")
    session = (await signed_in(api, ada)).session.id
    assert (await api.call("POST", f"sessions/{session}/end", bob)).word == "forbidden"
    assert (await api.call("POST", f"sessions/{session}/end", stranger)).word == "not_found"
    assert (await api.call("POST", "sessions/ses_gone/end", api.admin)).word == "not_found"
    ended = await api.call("POST", f"sessions/{session}/end", ada)
    assert (ended.status, ended.document["live"], ended.document["ended_by"]) == (200, False, "ada")
    again = await api.call("POST", f"sessions/{session}/end", api.admin)
    assert again.document["ended_by"] == "ada"
    assert await ids(api, "sessions?all=true", stranger) == []


async def test_a_link_signs_its_maker_in_once(api: InProcessApi) -> None:
    ada = await api.person("ada")
    made = await api.call("POST", "sign-in-links", ada)
    assert made.status == 201
    assert made.document["path"] == f"/console/sign-in?link={made.document['token']}"
    opened = await open_with_link(api.service, made.document["token"])
    assert opened.session.principal == "ada"
    with pytest.raises(LinkOver):
        await open_with_link(api.service, made.document["token"])


async def test_a_repeat_shows_the_same_link_and_its_token_is_kept_nowhere(api: InProcessApi) -> None:
    ada, bob = await api.person("ada"), await api.person("ada")
    first = await api.call("POST", "sign-in-links", ada, idempotency_key="k1")
    again = await api.call("POST", "sign-in-links", ada, idempotency_key="k1")
    assert (again.body, again.headers["idempotency-replayed"]) == (first.body, "true")
    other_key = await api.call("POST", "sign-in-links", bob, idempotency_key="k1")
    assert (other_key.status, other_key.word) == (409, "conflict")
    secret = first.document["token"].removeprefix(first.document["link_id"] + "_")
    stored = api.service.store._bodies.values()  # type: ignore[attr-defined]
    assert stored
    assert not [body for body in stored if secret.encode() in body]
