"""Sessions over HTTP: everybody sees and ends their own, admins those of their tenant, and links sign in once."""

from __future__ import annotations

import pytest

from interlock.rooms.identity.refusals import LinkOver
from interlock.service.sessions import Opened, end, open_with_key, open_with_link
from tests.harness.in_process_api import Stage


async def signed_in(stage: Stage, key: str) -> Opened:
    return await open_with_key(stage.service, key, client="10.0.0.7", user_agent="Browser/1\n" + "x" * 500)


async def ids(stage: Stage, path: str, key: str) -> list[str]:
    return [each["session_id"] for each in (await stage.get(path, key))["items"]]


async def test_people_see_their_own_sessions_newest_first(stage: Stage) -> None:
    ada, bob = await stage.person("ada"), await stage.person("bob")
    first, second = await signed_in(stage, ada), await signed_in(stage, ada)
    await signed_in(stage, bob)
    [newest, oldest] = (await stage.get("sessions", ada))["items"]
    assert [newest["session_id"], oldest["session_id"]] == [second.session.id, first.session.id]
    assert (newest["live"], newest["over"], newest["by"], newest["client"]) == (True, None, "key", "10.0.0.7")
    assert len(newest["user_agent"]) == 200
    assert first.token not in str(newest)
    assert first.session.digest not in str(oldest)


async def test_sessions_of_others_are_for_admins(stage: Stage) -> None:
    ada, bob = await stage.person("ada"), await stage.person("bob")
    hers, his = await signed_in(stage, ada), await signed_in(stage, bob)
    for path in ("sessions?principal=bob", "sessions?all=true"):
        assert (await stage.call("GET", path, ada)).word == "forbidden"
    assert await ids(stage, "sessions?principal=ada", ada) == [hers.session.id]
    assert await ids(stage, "sessions?principal=bob", stage.admin) == [his.session.id]
    assert await ids(stage, "sessions?all=true", stage.admin) == [his.session.id, hers.session.id]


async def test_a_list_of_sessions_is_paged(stage: Stage) -> None:
    ada = await stage.person("ada")
    opened = [(await signed_in(stage, ada)).session.id for _ in range(5)]
    seen: list[str] = []
    cursor = ""
    while True:
        page = await stage.get(f"sessions?limit=2{cursor}", ada)
        seen += [each["session_id"] for each in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == opened[::-1]
    assert (await stage.call("GET", "sessions?cursor=job_1", ada)).status == 400


async def test_a_session_says_why_it_is_over(stage: Stage) -> None:
    ada = await stage.person("ada")
    await end(stage.service, (await signed_in(stage, ada)).token)
    await signed_in(stage, ada)
    stage.clock.advance(31 * 60)
    await stage.sweep()
    [idle, ended] = (await stage.get("sessions", ada))["items"]
    assert (idle["live"], "idle" in idle["over"]) == (False, True)
    assert (ended["live"], ended["over"], ended["ended_by"]) == (False, "the session was ended", "ada")


async def test_ending_a_session_is_for_its_owner_and_for_admins_of_its_tenant(stage: Stage) -> None:
    ada, bob = await stage.person("ada"), await stage.person("bob")
    stranger = await stage.person("eve", "admin", tenant="other")
    session = (await signed_in(stage, ada)).session.id
    assert (await stage.call("POST", f"sessions/{session}/end", bob)).word == "forbidden"
    assert (await stage.call("POST", f"sessions/{session}/end", stranger)).word == "not_found"
    assert (await stage.call("POST", "sessions/ses_gone/end", stage.admin)).word == "not_found"
    ended = await stage.call("POST", f"sessions/{session}/end", ada)
    assert (ended.status, ended.document["live"], ended.document["ended_by"]) == (200, False, "ada")
    again = await stage.call("POST", f"sessions/{session}/end", stage.admin)
    assert again.document["ended_by"] == "ada"
    assert await ids(stage, "sessions?all=true", stranger) == []


async def test_a_link_signs_its_maker_in_once(stage: Stage) -> None:
    ada = await stage.person("ada")
    made = await stage.call("POST", "sign-in-links", ada)
    assert made.status == 201
    assert made.document["path"] == f"/console/sign-in?link={made.document['token']}"
    opened = await open_with_link(stage.service, made.document["token"])
    assert opened.session.principal == "ada"
    with pytest.raises(LinkOver):
        await open_with_link(stage.service, made.document["token"])


async def test_a_repeat_shows_the_same_link_and_its_token_is_kept_nowhere(stage: Stage) -> None:
    ada, bob = await stage.person("ada"), await stage.person("ada")
    first = await stage.call("POST", "sign-in-links", ada, idempotency_key="k1")
    again = await stage.call("POST", "sign-in-links", ada, idempotency_key="k1")
    assert (again.body, again.headers["idempotency-replayed"]) == (first.body, "true")
    other_key = await stage.call("POST", "sign-in-links", bob, idempotency_key="k1")
    assert (other_key.status, other_key.word) == (409, "conflict")
    secret = first.document["token"].removeprefix(first.document["link_id"] + "_")
    stored = stage.service.store._bodies.values()  # type: ignore[attr-defined]
    assert stored
    assert not [body for body in stored if secret.encode() in body]
