"""Principals: what they may do, and who may say so."""

from __future__ import annotations

from tests.harness.in_process_api import InProcessApi


async def test_a_new_key_replaces_the_roles_and_keeps_groups_that_are_not_named(api: InProcessApi) -> None:
    await api.person("ada", "review,submit", groups=("finance",))

    await api.person("ada", "audit")

    ada = next(item for item in (await api.get("principals"))["items"] if item["name"] == "ada")
    assert (ada["roles"], ada["groups"], ada["keys_live"]) == (["audit"], ["finance"], 2)


async def test_a_name_has_one_kind_for_ever(api: InProcessApi) -> None:
    await api.person("ada")

    seen = await api.call("POST", "principals/ada/keys", api.admin, {"kind": "agent", "roles": []})

    assert (seen.status, seen.word) == (409, "conflict")


async def test_only_an_admin_changes_principals(api: InProcessApi) -> None:
    eve = await api.person("eve", "review,operate,audit,submit,work")
    calls = (
        ("POST", "principals/eve/keys", {"kind": "person", "roles": ["admin"]}),
        ("PUT", "principals/eve", {"roles": ["admin"]}),
        ("DELETE", "principals/eve", None),
        ("GET", "principals", None),
        ("GET", "principals/eve", None),
        ("GET", "api-keys", None),
        ("POST", f"api-keys/{eve.split('_')[1]}/revoke", {}),
    )

    for method, path, body in calls:
        seen = await api.call(method, path, eve, body)
        assert (seen.status, seen.word) == (403, "forbidden"), path
    assert (await api.get("principals/me", eve))["roles"] == [
        "review",
        "operate",
        "audit",
        "submit",
        "work",
    ]


async def test_a_role_taken_away_is_gone_from_the_next_request_on(api: InProcessApi) -> None:
    eve = await api.person("eve", "admin")
    assert (await api.call("GET", "principals", eve)).status == 200

    await api.call("PUT", "principals/eve", api.admin, {"roles": []})

    assert (await api.call("GET", "principals", eve)).status == 403
    assert (await api.call("PUT", "principals/eve", eve, {"roles": ["admin"]})).status == 403


async def test_an_admin_reads_one_principal(api: InProcessApi) -> None:
    await api.person("ada", "review")

    seen = await api.get("principals/ada")
    missing = await api.call("GET", "principals/nobody", api.admin)

    assert (seen["name"], seen["kind"], seen["roles"], seen["keys_live"]) == ("ada", "person", ["review"], 1)
    assert (missing.status, missing.word) == (404, "not_found")


async def test_an_unknown_principal_cannot_be_changed(api: InProcessApi) -> None:
    seen = await api.call("PUT", "principals/nobody", api.admin, {"roles": []})

    assert (seen.status, seen.word) == (404, "not_found")


async def test_changes_of_principals_are_audited_with_author_and_request(api: InProcessApi) -> None:
    issued = await api.call(
        "POST",
        "principals/eve/keys",
        api.admin,
        {"kind": "person", "roles": ["review"], "groups": ["finance"]},
        headers={"x-request-id": "req-1"},
    )
    await api.call("PUT", "principals/eve", api.admin, {"groups": []}, headers={"x-request-id": "req-2"})

    entries = (await api.get("audit?subject=eve"))["items"]

    assert [(entry["action"], entry["actor"], entry["request_id"]) for entry in entries] == [
        ("principal_set", "root", "req-2"),
        ("key_issue", "root", "req-1"),
    ]
    assert entries[1]["details"]["key_id"] == issued.document["key_id"]
    assert issued.document["key"] not in str(entries)


async def test_principals_are_listed_by_name_page_by_page(api: InProcessApi) -> None:
    for name in ("d", "a", "c", "b"):
        await api.person(name)

    names: list[str] = []
    cursor = ""
    while cursor is not None:
        page = await api.get(f"principals?limit=2{cursor and '&cursor='}{cursor}")
        names += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"]

    assert names == ["a", "b", "c", "d", "root"]


async def test_a_principal_is_forgotten_once_its_keys_are_revoked_and_its_deeds_are_not(
    api: InProcessApi,
) -> None:
    eve = await api.person("eve", "review")

    early = await api.call("DELETE", "principals/eve", api.admin)
    await api.call("POST", f"api-keys/{eve.split('_')[1]}/revoke", api.admin, {})
    gone = await api.call("DELETE", "principals/eve", api.admin)
    again = await api.call("DELETE", "principals/eve", api.admin)

    assert (early.status, early.word) == (409, "conflict")
    assert (gone.status, again.status) == (200, 404)
    assert "eve" not in [item["name"] for item in (await api.get("principals"))["items"]]
    assert (await api.call("GET", "principals/me", eve)).status == 401
    deeds = [item["action"] for item in (await api.get("audit?subject=eve"))["items"]]
    assert {"key_issue", "key_revoke", "principal_remove"} <= set(deeds)
