"""Issuing a key twice under one idempotency key issues one key, and the store alone cannot reveal it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.api.embedded import open_embedded
from interlock.store import store_for
from interlock.store.sqlite import SqliteStore
from interlock.wire.http import Request
from tests.harness.in_process_api import InProcessApi, Seen, open_api

EVE = {"kind": "person", "roles": ["review"]}


async def issue(
    api: InProcessApi, admin: str, idempotency_key: str | None = "k", name: str = "eve", **body: Any
) -> Seen:
    return await api.call(
        "POST", f"principals/{name}/keys", admin, {**EVE, **body}, idempotency_key=idempotency_key
    )


async def keys_of(api: InProcessApi, name: str = "eve") -> list[str]:
    listed = (await api.get("api-keys"))["items"]
    return [key["key_id"] for key in listed if key["principal"] == name]


async def test_a_repeat_shows_the_same_key_byte_for_byte_and_issues_no_second(api: InProcessApi) -> None:
    first = await issue(api, api.admin)
    again = await issue(api, api.admin)

    assert (first.status, again.status) == (201, 201)
    assert again.body == first.body
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert await keys_of(api) == [first.document["key_id"]]
    assert (await api.get("principals/me", again.document["key"]))["name"] == "eve"


async def test_without_an_idempotency_key_each_call_issues_a_key(api: InProcessApi) -> None:
    first, second = await issue(api, api.admin, None), await issue(api, api.admin, None)
    assert len({first.document["key"], second.document["key"]}) == 2
    assert len(await keys_of(api)) == 2


async def test_another_request_under_the_same_key_is_refused(api: InProcessApi) -> None:
    await issue(api, api.admin)
    for other in (
        await issue(api, api.admin, roles=["admin"]),
        await issue(api, api.admin, name="eva"),
    ):
        assert (other.status, other.word) == (422, "idempotency_key_reused")


async def test_a_repeat_with_another_key_of_the_same_admin_is_told_what_was_issued(api: InProcessApi) -> None:
    first = await issue(api, api.admin)
    rotated = await api.person("root", "admin,audit,operate")

    again = await issue(api, rotated)

    assert (again.status, again.word) == (409, "key_already_issued")
    assert again.document["key_id"] == first.document["key_id"]
    assert first.document["key"] not in again.body.decode()
    assert again.document["next"]["arguments"] == {"key_id": first.document["key_id"]}
    assert len(await keys_of(api)) == 1


async def test_another_admin_under_the_same_idempotency_key_issues_a_key_of_its_own(
    api: InProcessApi,
) -> None:
    other = await api.person("ada", "admin")
    first, second = await issue(api, api.admin), await issue(api, other)
    assert first.document["key_id"] != second.document["key_id"]


async def test_a_repeat_by_an_admin_whose_key_was_revoked_is_refused(api: InProcessApi) -> None:
    ada = await api.person("ada", "admin")
    await issue(api, ada)
    await api.call("POST", f"api-keys/{ada.split('_')[1]}/revoke", api.admin, {})
    assert (await issue(api, ada)).status == 401


async def test_the_same_key_is_shown_by_another_server_and_stands_in_no_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'interlock.db'}"
    async with open_api(SqliteStore(tmp_path / "interlock.db")) as api:
        admin = api.admin
        first = await issue(api, admin)
    async with open_api(store_for(url)) as api:
        again = await issue(api, admin)

    assert again.body == first.body
    secret = first.document["key"].split("_", 2)[2]
    assert secret.encode() not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


@pytest.mark.parametrize("secret", ["", "a secret of the server's"])
async def test_the_owner_of_an_embedded_store_has_no_key_to_seal_with(
    secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_SECRET", secret)
    opened = await open_embedded("memory:")
    headers = {"content-type": "application/json", "idempotency-key": "k"}
    request = Request(
        method="POST", path="/api/v1/principals/eve/keys", headers=headers, body=json.dumps(EVE).encode()
    )
    first, again = await opened.respond(request), await opened.respond(request)
    await opened.close()

    if secret:
        assert (again.status, again.body) == (201, first.body)
    else:
        assert (first.status, again.status) == (201, 409)
        assert json.loads(again.body)["code"] == "key_already_issued"
