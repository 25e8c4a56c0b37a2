"""Webhooks over HTTP: added with a secret shown once, watched, tried, rotated, removed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock.rooms.events.model import WEBHOOKS_MAX
from interlock.rooms.events.signing import signature
from interlock.rooms.identity.model import Role
from tests.api.events.api_client import Client, client_of
from tests.harness.webhook_receiver import Received, Receiver, Reply
from tests.service.relay_service import relaying_service

ROOT = "/api/v1/webhooks"


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(f"{request.param}_url")


async def add(client: Client, url: str, **fields: Any) -> dict[str, Any]:
    status, made = await client.call("POST", ROOT, {"url": url, **fields})
    assert status == 201, made
    return made


async def test_the_secret_is_shown_once_and_signs_what_is_sent(store_url: str) -> None:
    receiver = await Receiver().start()
    async with relaying_service(store_url) as relay_service:
        client = await client_of(relay_service)
        made = await add(client, receiver.url, types=["target.*"], description="a book")
        await relay_service.tell("a")
        await receiver.until_taken(1)
        status, seen = await client.call("GET", f"{ROOT}/{made['id']}")
        _, listed = await client.call("GET", ROOT)
    await receiver.stop()
    request = receiver.taken[0]
    sent_at = int(request.headers["webhook-timestamp"])
    expected = signature(made["secret"], request.headers["webhook-id"], sent_at, request.body)
    assert request.headers["webhook-signature"] == expected
    assert status == 200
    assert "secret" not in seen
    assert (seen["url"], seen["types"], seen["description"]) == (receiver.url, ["target.*"], "a book")
    assert [item["id"] for item in listed["items"]] == [made["id"]]


async def test_a_webhook_gets_what_happens_after_it_was_added(sqlite_url: str) -> None:
    receiver = await Receiver().start()
    async with relaying_service(sqlite_url) as relay_service:
        client = await client_of(relay_service)
        await relay_service.tell("before", times=3)
        await add(client, receiver.url)
        await relay_service.tell("after")
        await receiver.until_taken(1)
    await receiver.stop()
    assert [event["subject"] for event in receiver.events()] == ["after"]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"url": "https://10.0.0.1/hook"}, "/url"),
        ({"url": "ftp://example.com"}, "/url"),
        ({"url": "https://example.com", "types": ["No Type"]}, "/types"),
        ({"url": "https://example.com", "types": ["job.*", "job.done"]}, "/types"),
        ({"url": "https://example.com", "secret": "whsec_c2hvcnQ="}, "/secret"),
        ({"url": "https://example.com", "secret": "word"}, "/secret"),
    ],
)
async def test_what_cannot_be_delivered_to_is_refused(
    sqlite_url: str, body: dict[str, Any], path: str
) -> None:
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        status, refused = await (await client_of(relay_service)).call("POST", ROOT, body)
    assert (status, refused["errors"][0]["path"]) == (400, path)


async def test_only_admins_add_and_remove_and_other_tenants_see_nothing(sqlite_url: str) -> None:
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        admin = await client_of(relay_service)
        reviewer = await client_of(relay_service, "rita", roles=(Role.REVIEW,))
        stranger = await client_of(relay_service, "sam", tenant="elsewhere")
        made = await add(admin, "https://example.com/hook")
        refused = await reviewer.call("POST", ROOT, {"url": "https://example.com/other"})
        unseen = [
            await stranger.call(method, f"{ROOT}/{made['id']}{rest}")
            for method, rest in (("GET", ""), ("DELETE", ""), ("POST", "/test"), ("POST", "/rotate"))
        ]
        _, listed = await stranger.call("GET", ROOT)
    assert refused[0] == 403
    assert [(status, body["code"]) for status, body in unseen] == [(404, "not_found")] * 4
    assert listed["items"] == []


async def test_a_tenant_has_a_bounded_number_of_webhooks(sqlite_url: str) -> None:
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        client = await client_of(relay_service)
        for n in range(WEBHOOKS_MAX):
            await add(client, f"https://example.com/{n}")
        status, refused = await client.call("POST", ROOT, {"url": "https://example.com/more"})
    assert (status, refused["code"]) == (409, "conflict")


async def test_a_test_says_what_the_receiver_answered(sqlite_url: str) -> None:
    receiver = await Receiver().start()
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        client = await client_of(relay_service)
        made = await add(client, receiver.url)
        well = await client.call("POST", f"{ROOT}/{made['id']}/test")
        receiver.behave = lambda _: Reply(status=418)
        badly = await client.call("POST", f"{ROOT}/{made['id']}/test")
    await receiver.stop()
    assert (well[1]["delivered"], well[1]["status"]) == (True, 204)
    assert (badly[1]["delivered"], badly[1]["error"]) == (False, "it answered 418")
    assert receiver.received[0].event["type"] == "dev.interlock.webhook.test"


async def test_a_test_under_a_key_is_posted_once_and_its_answer_kept(sqlite_url: str) -> None:
    receiver = await Receiver().start()
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        client = await client_of(relay_service)
        path = f"{ROOT}/{(await add(client, receiver.url))['id']}"
        first = await client.call("POST", f"{path}/test", idempotency_key="k")
        await client.call("DELETE", path)
        again = await client.call("POST", f"{path}/test", idempotency_key="k")
    await receiver.stop()
    assert first[0] == 200
    assert again == first
    assert len(receiver.received) == 1


async def test_after_a_rotation_both_secrets_sign(sqlite_url: str) -> None:
    receiver = await Receiver().start()
    async with relaying_service(sqlite_url) as relay_service:
        client = await client_of(relay_service)
        made = await add(client, receiver.url)
        _, rotated = await client.call("POST", f"{ROOT}/{made['id']}/rotate")
        await relay_service.tell("a")
        await receiver.until_taken(1)
    await receiver.stop()
    request = receiver.taken[0]
    sent_at = int(request.headers["webhook-timestamp"])
    expected = [
        signature(secret, request.headers["webhook-id"], sent_at, request.body)
        for secret in (rotated["secret"], made["secret"])
    ]
    assert request.headers["webhook-signature"].split(" ") == expected
    assert made["secret"] != rotated["secret"]


async def test_a_dead_letter_is_listed_and_delivered_again_on_request(store_url: str) -> None:
    sick = {"is": True}

    def behave(_: Received) -> Reply:
        return Reply(status=500) if sick["is"] else Reply()

    receiver = await Receiver(behave).start()
    async with relaying_service(store_url, webhook_attempts_max=2) as relay_service:
        client = await client_of(relay_service)
        made = await add(client, receiver.url)
        await relay_service.tell("a")
        listed: dict[str, Any] = {"items": []}
        async with asyncio.timeout(30):
            while not listed["items"]:
                _, listed = await client.call("GET", f"{ROOT}/{made['id']}/dead-letters")
                await asyncio.sleep(0.02)
        letter = listed["items"][0]
        _, view = await client.call("GET", f"{ROOT}/{made['id']}")
        sick["is"] = False
        again = f"{ROOT}/{made['id']}/dead-letters/{letter['event_id']}/redeliver"
        status, _ = await client.call("POST", again)
        await receiver.until_taken(1)
        async with asyncio.timeout(30):
            while (await client.call("POST", again))[0] != 404:
                await asyncio.sleep(0.02)
    await receiver.stop()
    assert (letter["attempts"], letter["error"], letter["event"]["subject"]) == (2, "it answered 500", "a")
    assert (view["dead"], view["waiting"], view["progress"]["state"]) == (1, 0, "failing")
    assert status == 200
    assert receiver.events()[0]["id"] == letter["event_id"]


async def test_a_dead_letter_of_a_removed_webhook_is_not_there_any_more(store_url: str) -> None:
    receiver = await Receiver(lambda _: Reply(status=500)).start()
    async with relaying_service(store_url, webhook_attempts_max=1) as relay_service:
        client = await client_of(relay_service)
        made = await add(client, receiver.url)
        await relay_service.tell("a")
        view: dict[str, Any] = {"dead": 0}
        async with asyncio.timeout(30):
            while not view["dead"]:
                _, view = await client.call("GET", f"{ROOT}/{made['id']}")
                await asyncio.sleep(0.02)
        _, listed = await client.call("GET", f"{ROOT}/{made['id']}/dead-letters")
        await client.call("DELETE", f"{ROOT}/{made['id']}")
        letter = listed["items"][0]["event_id"]
        status, _ = await client.call("POST", f"{ROOT}/{made['id']}/dead-letters/{letter}/redeliver")
    await receiver.stop()
    assert status == 404


async def test_what_happens_to_webhooks_is_audited_without_secrets(sqlite_url: str) -> None:
    async with relaying_service(sqlite_url, relaying=False) as relay_service:
        client = await client_of(relay_service)
        made = await add(client, "https://example.com/hook")
        await client.call("POST", f"{ROOT}/{made['id']}/rotate")
        await client.call("DELETE", f"{ROOT}/{made['id']}")
        response = await client.get("/api/v1/audit", f"subject={made['id']}")
    assert b"whsec_" not in response.body
    actions = [
        word for word in ("webhook_remove", "webhook_rotate", "webhook_add") if word.encode() in response.body
    ]
    assert actions == ["webhook_remove", "webhook_rotate", "webhook_add"]
