"""Signing secrets of webhooks: sealed where there is something to seal with, and kept in one place only."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from interlock.kernel.codec.sealing import CannotUnseal
from interlock.kernel.idempotency import KEPT_ANSWERS
from interlock.rooms.events.model import Webhook
from interlock.rooms.events.signing import kept_secret, open_secret, signature, signing_secrets
from interlock.wire.http import Request
from tests.api.events.api_client import Client, client_of
from tests.harness.webhook_receiver import Receiver
from tests.service.relay_service import SECRET, RelayService, relaying_service

ROOT = "/api/v1/webhooks"
AT = datetime(2026, 5, 1, tzinfo=UTC)


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = await Receiver().start()
    try:
        yield receiver
    finally:
        await receiver.stop()


async def ask(
    relay_service: RelayService, client: Client, path: str, body: Any, key: str
) -> tuple[dict[str, Any], bool]:
    """One POST under an idempotency key: the answer, and whether it is a replay."""
    headers = {
        "authorization": f"Bearer {client.key}",
        "content-type": "application/json",
        "idempotency-key": key,
    }
    content = json.dumps(body).encode() if body is not None else b""
    response = await relay_service.app.respond(
        Request(method="POST", path=path, query="", headers=headers, body=content)
    )
    assert response.status in (200, 201), response.body
    return json.loads(response.body), response.header("idempotency-replayed") == "true"


async def everything_stored(relay_service: RelayService) -> str:
    """What a thief of the database would find of webhooks and of answers."""
    listed = await relay_service.service.store.query(
        "events.tenant_webhooks", {"tenant": "default", "limit": 100}
    )
    return " ".join(str(row) for row in listed)


async def test_with_a_secret_of_the_deployment_what_is_stored_is_sealed_and_still_signs(
    sqlite_url: str,
) -> None:
    async with (
        receiving() as receiver,
        relaying_service(sqlite_url, secret="of the deployment") as relay_service,
    ):
        client = await client_of(relay_service)
        _, made = await client.call("POST", ROOT, {"url": receiver.url})
        stored = await everything_stored(relay_service)
        _, tried = await client.call("POST", f"{ROOT}/{made['id']}/test")
        await relay_service.tell("a")
        await receiver.until_taken(2)
    assert "whsec_" in made["secret"]
    assert "sealed_" in stored
    assert made["secret"] not in stored
    assert tried["delivered"] is True
    for request in receiver.taken:
        sent_at = int(request.headers["webhook-timestamp"])
        expected = signature(made["secret"], request.headers["webhook-id"], sent_at, request.body)
        assert request.headers["webhook-signature"] == expected


async def test_under_another_secret_nothing_is_sent_and_the_relay_says_why(sqlite_url: str) -> None:
    async with receiving() as receiver:
        async with relaying_service(sqlite_url, relaying=False, secret="the first") as relay_service:
            _, made = await (await client_of(relay_service)).call("POST", ROOT, {"url": receiver.url})
        async with relaying_service(sqlite_url, relaying=False, secret="another") as relay_service:
            client = await client_of(relay_service, "other")
            _, tried = await client.call("POST", f"{ROOT}/{made['id']}/test")
            await client.call("POST", f"{ROOT}/{made['id']}/rotate")
            _, again = await client.call("POST", f"{ROOT}/{made['id']}/test")
    assert tried["delivered"] is False
    assert f"the secret of {made['id']} was sealed with another INTERLOCK_SECRET" in tried["error"]
    assert again["delivered"] is True
    assert len(receiver.received) == 1


@pytest.mark.parametrize("secret", ["", "of the deployment"])
async def test_a_repeat_is_shown_the_same_secret_although_no_answer_keeps_it(
    sqlite_url: str, secret: str
) -> None:
    body = {"url": "https://example.com/hook"}
    async with relaying_service(sqlite_url, relaying=False, secret=secret) as relay_service:
        client = await client_of(relay_service)
        first = await ask(relay_service, client, ROOT, body, "add-1")
        again = await ask(relay_service, client, ROOT, body, "add-1")
        path = f"{ROOT}/{first[0]['id']}/rotate"
        rotated = await ask(relay_service, client, path, None, "rotate-1")
        rotated_again = await ask(relay_service, client, path, None, "rotate-1")
        late = await ask(relay_service, client, ROOT, body, "add-1")
        answers = await kept_answers(relay_service)
    assert (first[1], again[1]) == (False, True)
    assert again[0] == first[0]
    assert rotated_again[0] == rotated[0]
    assert rotated[0]["secret"] not in (None, first[0]["secret"])
    assert (late[1], late[0]["secret"]) == (True, None)
    assert len(answers) == 2
    assert not any("whsec_" in answer or "sealed_" in answer for answer in answers)


def test_a_sealed_secret_opens_for_its_own_webhook_alone() -> None:
    kept = kept_secret(SECRET, "wh_1", "s")
    assert open_secret(kept, "wh_1", "s") == SECRET
    for webhook, secret in (("wh_2", "s"), ("wh_1", "t"), ("wh_1", "")):
        with pytest.raises(CannotUnseal):
            open_secret(kept, webhook, secret)


def test_a_secret_from_before_there_was_one_to_seal_with_still_signs() -> None:
    assert open_secret(kept_secret(SECRET, "wh_1", ""), "wh_1", "later") == SECRET


def test_after_a_rotation_a_lost_secret_no_longer_matters() -> None:
    webhook = Webhook(
        tenant="default",
        id="wh_1",
        url="https://example.com",
        secret=kept_secret(SECRET, "wh_1", "new"),
        old_secret=kept_secret(SECRET, "wh_1", "lost"),
        old_secret_until=AT.replace(year=2027),
        created_at=AT,
        created_by="ann",
    )
    assert signing_secrets(webhook, AT, "new") == (SECRET,)


async def kept_answers(relay_service: RelayService) -> list[str]:
    """The bodies of every answer that is kept for repeats."""
    from interlock.store.sqlite.driver import connect

    database = connect(relay_service.service.settings.store.removeprefix("sqlite:///"))
    try:
        return [str(row[0]) for row in database.execute(f"SELECT body FROM {KEPT_ANSWERS.table}").fetchall()]
    finally:
        database.close()
