"""Principals: what they may do, and who may say so."""

from __future__ import annotations

from tests.harness.in_process_api import Stage


async def test_a_new_key_replaces_the_roles_and_keeps_groups_that_are_not_named(stage: Stage) -> None:
    await stage.person("ada", "review,submit", groups=("finance",))

    await stage.person("ada", "audit")

    ada = next(item for item in (await stage.get("principals"))["items"] if item["name"] == "ada")
    assert (ada["roles"], ada["groups"], ada["keys_live"]) == (["audit"], ["finance"], 2)


async def test_a_name_has_one_kind_for_ever(stage: Stage) -> None:
    await stage.person("ada")

    seen = await stage.call("POST", "principals/ada/keys", stage.admin, {"kind": "agent", "roles": []})

    assert (seen.status, seen.word) == (409, "conflict")


async def test_only_an_admin_changes_principals(stage: Stage) -> None:
    eve = await stage.person("eve", "review,operate,audit,submit,work")
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
        seen = await stage.call(method, path, eve, body)
        assert (seen.status, seen.word) == (403, "forbidden"), path
    assert (await stage.get("principals/me", eve))["roles"] == [
        "review",
        "operate",
        "audit",
        "submit",
        "work",
    ]


async def test_a_role_taken_away_is_gone_from_the_next_request_on(stage: Stage) -> None:
    eve = await stage.person("eve", "admin")
    assert (await stage.call("GET", "principals", eve)).status == 200

    await stage.call("PUT", "principals/eve", stage.admin, {"roles": []})

    assert (await stage.call("GET", "principals", eve)).status == 403
    assert (await stage.call("PUT", "principals/eve", eve, {"roles": ["admin"]})).status == 403


async def test_an_admin_reads_one_principal_and_only_of_their_tenant(stage: Stage) -> None:
    await stage.person("ada", "review")

    seen = await stage.get("principals/ada")
    missing = await stage.call("GET", "principals/nobody", stage.admin)

    assert (seen["name"], seen["kind"], seen["roles"], seen["keys_live"]) == ("ada", "person", ["review"], 1)
    assert (missing.status, missing.word) == (404, "not_found")


async def test_an_unknown_principal_cannot_be_changed(stage: Stage) -> None:
    seen = await stage.call("PUT", "principals/nobody", stage.admin, {"roles": []})

    assert (seen.status, seen.word) == (404, "not_found")


async def test_changes_of_principals_are_audited_with_author_and_request(stage: Stage) -> None:
    issued = await stage.call(
        "POST",
        "principals/eve/keys",
        stage.admin,
        {"kind": "person", "roles": ["review"], "groups": ["finance"]},
        headers={"x-request-id": "req-1"},
    )
    await stage.call("PUT", "principals/eve", stage.admin, {"groups": []}, headers={"x-request-id": "req-2"})

    entries = (await stage.get("audit?subject=eve"))["items"]

    assert [(entry["action"], entry["actor"], entry["request_id"]) for entry in entries] == [
        ("principal_set", "root", "req-2"),
        ("key_issue", "root", "req-1"),
    ]
    assert entries[1]["details"]["key_id"] == issued.document["key_id"]
    assert issued.document["key"] not in str(entries)


async def test_principals_are_listed_by_name_page_by_page(stage: Stage) -> None:
    for name in ("d", "a", "c", "b"):
        await stage.person(name)

    names: list[str] = []
    cursor = ""
    while cursor is not None:
        page = await stage.get(f"principals?limit=2{cursor and '&cursor='}{cursor}")
        names += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"]

    assert names == ["a", "b", "c", "d", "root"]


async def test_a_principal_is_forgotten_once_its_keys_are_revoked_and_its_deeds_are_not(stage: Stage) -> None:
    eve = await stage.person("eve", "review")

    early = await stage.call("DELETE", "principals/eve", stage.admin)
    await stage.call("POST", f"api-keys/{eve.split('_')[1]}/revoke", stage.admin, {})
    gone = await stage.call("DELETE", "principals/eve", stage.admin)
    again = await stage.call("DELETE", "principals/eve", stage.admin)

    assert (early.status, early.word) == (409, "conflict")
    assert (gone.status, again.status) == (200, 404)
    assert "eve" not in [item["name"] for item in (await stage.get("principals"))["items"]]
    assert (await stage.call("GET", "principals/me", eve)).status == 401
    deeds = [item["action"] for item in (await stage.get("audit?subject=eve"))["items"]]
    assert {"key_issue", "key_revoke", "principal_remove"} <= set(deeds)
