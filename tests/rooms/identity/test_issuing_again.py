"""Issuing a key twice under one idempotency key issues one key, which the store cannot tell to anybody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.api.embedded import open_embedded
from interlock.store import store_for
from interlock.store.sqlite import SqliteStore
from interlock.wire.http import Request
from tests.harness.in_process_api import Seen, Stage, open_stage

EVE = {"kind": "person", "roles": ["review"]}


async def issue(
    stage: Stage, admin: str, idempotency_key: str | None = "k", name: str = "eve", **body: Any
) -> Seen:
    return await stage.call(
        "POST", f"principals/{name}/keys", admin, {**EVE, **body}, idempotency_key=idempotency_key
    )


async def keys_of(stage: Stage, name: str = "eve") -> list[str]:
    listed = (await stage.get("api-keys"))["items"]
    return [key["key_id"] for key in listed if key["principal"] == name]


async def test_a_repeat_shows_the_same_key_byte_for_byte_and_issues_no_second(stage: Stage) -> None:
    first = await issue(stage, stage.admin)
    again = await issue(stage, stage.admin)

    assert (first.status, again.status) == (201, 201)
    assert again.body == first.body
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert await keys_of(stage) == [first.document["key_id"]]
    assert (await stage.get("principals/me", again.document["key"]))["name"] == "eve"


async def test_without_an_idempotency_key_each_call_issues_a_key(stage: Stage) -> None:
    first, second = await issue(stage, stage.admin, None), await issue(stage, stage.admin, None)
    assert len({first.document["key"], second.document["key"]}) == 2
    assert len(await keys_of(stage)) == 2


async def test_another_request_under_the_same_key_is_refused(stage: Stage) -> None:
    await issue(stage, stage.admin)
    for other in (
        await issue(stage, stage.admin, roles=["admin"]),
        await issue(stage, stage.admin, name="eva"),
    ):
        assert (other.status, other.word) == (422, "idempotency_key_reused")


async def test_a_repeat_with_another_key_of_the_same_admin_is_told_what_was_issued(stage: Stage) -> None:
    first = await issue(stage, stage.admin)
    rotated = await stage.person("root", "admin,audit,operate")

    again = await issue(stage, rotated)

    assert (again.status, again.word) == (409, "key_already_issued")
    assert again.document["key_id"] == first.document["key_id"]
    assert first.document["key"] not in again.body.decode()
    assert again.document["next"]["arguments"] == {"key_id": first.document["key_id"]}
    assert len(await keys_of(stage)) == 1


async def test_another_admin_under_the_same_idempotency_key_issues_a_key_of_its_own(stage: Stage) -> None:
    other = await stage.person("ada", "admin")
    first, second = await issue(stage, stage.admin), await issue(stage, other)
    assert first.document["key_id"] != second.document["key_id"]


async def test_a_repeat_by_an_admin_whose_key_was_revoked_is_refused(stage: Stage) -> None:
    ada = await stage.person("ada", "admin")
    await issue(stage, ada)
    await stage.call("POST", f"api-keys/{ada.split('_')[1]}/revoke", stage.admin, {})
    assert (await issue(stage, ada)).status == 401


async def test_the_same_key_is_shown_by_another_server_and_stands_in_no_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'interlock.db'}"
    async with open_stage(SqliteStore(tmp_path / "interlock.db")) as stage:
        admin = stage.admin
        first = await issue(stage, admin)
    async with open_stage(store_for(url)) as stage:
        again = await issue(stage, admin)

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
