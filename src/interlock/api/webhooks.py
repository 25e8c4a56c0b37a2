"""Webhooks over HTTP, for admins of a tenant: their addresses, their deliveries, and dead letters."""

from __future__ import annotations

import secrets
from datetime import datetime
from typing import Any, cast

import msgspec

from interlock.api.app import encode
from interlock.api.calls import REPLAYED, Asked, answer_once, caller_of, decide
from interlock.api.operations import Answer, Operation, Reply
from interlock.api.pages import PageQuery, id_cursor, position
from interlock.api.problem import invalid
from interlock.kernel.codec.sealing import CannotUnseal
from interlock.kernel.codec.strict import JsonFault
from interlock.kernel.ids import new_id
from interlock.kernel.storage import cut
from interlock.rooms.events import queries
from interlock.rooms.events import queries as outbox
from interlock.rooms.events.addresses import BadUrl, check_url, read_networks
from interlock.rooms.events.cloud_events import BadTypes, read_types
from interlock.rooms.events.model import (
    BROKER,
    DEPLOYMENT,
    EVENT_TYPES,
    RELAYS,
    WEBHOOKS,
    Delivery,
    DeliveryState,
    Relay,
    Webhook,
)
from interlock.rooms.events.signing import BadSecret, kept_secret, open_secret, read_secret, spell_secret
from interlock.rooms.events.webhooks import AddWebhook, Redeliver, RemoveWebhook, RotateSecret
from interlock.rooms.identity.refusals import NotFound
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire import events as wire
from interlock.wire.fields import OMITTED, Page

_SECRET_BYTES = 32


async def add(call: Asked[None, wire.AddWebhookBody]) -> Answer:
    """Check the address and begin with the next event."""
    body, service = call.body, call.services
    try:
        check_url(body.url, read_networks(service.settings.webhook_allow_private))
        types = read_types(body.types or ())
        secret = body.secret or spell_secret(secrets.token_bytes(_SECRET_BYTES))
        read_secret(secret)
    except BadUrl as error:
        raise invalid(JsonFault("/url", str(error))) from None
    except BadTypes as error:
        raise invalid(JsonFault("/types", str(error))) from None
    except BadSecret as error:
        raise invalid(JsonFault("/secret", str(error))) from None
    webhook_id = new_id("wh")
    command = AddWebhook(
        webhook_id=webhook_id,
        url=body.url,
        types=types,
        description=body.description,
        secret=kept_secret(secret, webhook_id, service.settings.secret),
        start_after=await outbox.head(service.store),
        by=caller_of(call),
    )
    return await _shown(call, command, secret)


async def listed(call: Asked[PageQuery, None]) -> Reply:
    found = await queries.list_webhooks(
        call.services.store,
        call.caller.tenant,
        before=id_cursor(call.query.cursor, "wh"),
        limit=call.query.limit,
    )
    items = [await _view(call.services, webhook) for webhook in found.items]
    return Reply(200, Page(items=tuple(items), next_cursor=found.next_cursor))


async def read(call: Asked[None, None]) -> Reply:
    return Reply(200, await _view(call.services, await _found(call)))


async def remove(call: Asked[None, None]) -> Answer:
    command = RemoveWebhook(webhook_id=call.path["webhook_id"], by=caller_of(call))
    return await decide(call, command, lambda webhook: Reply(200, plain_view(webhook)))


async def rotate(call: Asked[None, None]) -> Answer:
    secret = spell_secret(secrets.token_bytes(_SECRET_BYTES))
    webhook_id = call.path["webhook_id"]
    kept = kept_secret(secret, webhook_id, call.services.settings.secret)
    command = RotateSecret(webhook_id=webhook_id, secret=kept, by=caller_of(call))
    return await _shown(call, command, secret)


async def test(call: Asked[None, None]) -> Answer | Reply:
    """Post a signed test event now, and say what the receiver answered."""
    return await answer_once(call, lambda: _tested(call))


async def _tested(call: Asked[None, None]) -> Reply:
    # Imported here, so that a command that opens the store for a moment does not pay for HTTP clients.
    from interlock.channels.table import CHANNELS
    from interlock.service.channel import Tried, route_of, try_now

    service, webhook = call.services, await _found(call)
    route = route_of(CHANNELS, webhook, service.settings, service.now)
    if route is None:
        tried = Tried(milliseconds=0, error=f"this server has no channel {webhook.kind!r}; ask a newer one")
    else:
        channel = route.channel(route.destination, service.settings)
        tried = await try_now(channel, route.destination, service.now())
    return Reply(
        200,
        wire.WebhookTest(
            delivered=tried.error is None,
            milliseconds=tried.milliseconds,
            status=tried.status,
            error=tried.error,
        ),
    )


async def letters(call: Asked[PageQuery, None]) -> Reply:
    webhook = await _found(call)
    found = await queries.deliveries(
        call.services.store,
        webhook.tenant,
        webhook.id,
        DeliveryState.DEAD,
        after=position(call.query.cursor) or 0,
        limit=call.query.limit + 1,
    )
    page, cursor = cut(found, call.query.limit, lambda delivery: str(delivery.position))
    return Reply(200, Page(items=tuple(letter_view(each) for each in page), next_cursor=cursor))


async def redeliver(call: Asked[None, None]) -> Answer:
    command = Redeliver(
        webhook_id=call.path["webhook_id"], event_id=call.path["event_id"], by=caller_of(call)
    )
    return await decide(call, command, lambda letter: Reply(200, letter_view(letter)))


async def relays(call: Asked[None, None]) -> Reply:
    service = call.services
    head = await outbox.head(service.store)
    broker = await service.store.get(RELAYS, DEPLOYMENT, BROKER)
    return Reply(
        200, wire.Relays(position=head, broker=progress_of(broker, head, service.now()) if broker else None)
    )


async def _shown(call: Asked[Any, Any], command: AddWebhook | RotateSecret, secret: str) -> Answer:
    """The answer with the new secret; a repeat gets the one that was new when it was first asked."""
    status = 201 if isinstance(command, AddWebhook) else 200
    answer = await decide(call, command, lambda webhook: Reply(status, without_secret(webhook)))
    told = msgspec.json.decode(answer.body, type=wire.Webhook)
    shown = await _secret_of(call, told) if answer.headers == REPLAYED else secret
    return Answer(answer.status, encode(msgspec.structs.replace(told, secret=shown)), answer.headers)


async def _secret_of(call: Asked[Any, Any], told: wire.Webhook) -> str | None:
    """The secret of that time. The record's version tells: nothing but a new secret changes a webhook."""
    webhook = await call.services.store.get(WEBHOOKS, call.caller.tenant, told.id)
    if webhook is None or webhook.version != told.version:
        return None
    try:
        return open_secret(webhook.secret, webhook.id, call.services.settings.secret)
    except CannotUnseal:
        return None


async def _found(call: Asked[Any, Any]) -> Webhook:
    webhook = await call.services.store.get(WEBHOOKS, call.caller.tenant, call.path["webhook_id"])
    if webhook is None:
        raise NotFound("webhook", call.path["webhook_id"])
    return webhook


async def _view(service: Service, webhook: Webhook) -> wire.Webhook:
    store, tenant = service.store, webhook.tenant
    relay = await store.get(RELAYS, tenant, webhook.id)
    return msgspec.structs.replace(
        plain_view(webhook),
        progress=progress_of(relay, await outbox.head(store), service.now()) if relay else None,
        waiting=await queries.count_deliveries(store, tenant, webhook.id, DeliveryState.WAITING),
        dead=await queries.count_deliveries(store, tenant, webhook.id, DeliveryState.DEAD),
    )


def plain_view(webhook: Webhook) -> wire.Webhook:
    return wire.Webhook(
        id=webhook.id,
        url=webhook.url,
        types=webhook.types,
        description=webhook.description,
        created_at=webhook.created_at,
        created_by=webhook.created_by,
        version=OMITTED,
        secret=OMITTED,
    )


def without_secret(webhook: Webhook) -> wire.Webhook:
    """What is kept of the answer for repeats; a secret is kept in one place only, with its webhook."""
    return wire.Webhook(
        id=webhook.id,
        url=webhook.url,
        types=webhook.types,
        description=OMITTED,
        created_at=OMITTED,
        created_by=OMITTED,
        progress=OMITTED,
        waiting=OMITTED,
        dead=OMITTED,
        version=webhook.version,
    )


def progress_of(relay: Relay, head: int, now: datetime) -> wire.Progress:
    is_held = not relay.is_free_at(now)
    return wire.Progress(
        state="failing" if relay.failures else "delivering" if is_held else "unattended",
        position=relay.position,
        behind=max(0, head - relay.position),
        failures=relay.failures,
        error=relay.error or None,
        failing_since=relay.failing_since,
        retry_at=relay.retry_at,
        moved_at=relay.moved_at,
    )


def letter_view(delivery: Delivery) -> wire.DeadLetter:
    return wire.DeadLetter(
        event_id=delivery.event_id,
        type=delivery.type,
        subject=delivery.subject,
        position=delivery.position,
        state=delivery.state.value,
        attempts=delivery.attempts,
        error=delivery.error,
        since=delivery.since,
        event=cast(Any, msgspec.Raw(delivery.body.encode())),  # byte for byte as it was signed
    )


_ROOT = "/api/v1/webhooks"
_ONE = _ROOT + "/{webhook_id}"
_TAG = "Events"
_ID = {"webhook_id": "The id that adding the webhook returned."}
_LETTER = {**_ID, "event_id": "The event's own id, `evt_…`."}

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="add_webhook", method="POST", path=_ROOT, tag=_TAG, roles=("admin",),
        summary="Send events to an address",
        description="Requests are signed after the Standard Webhooks specification with the secret that this "
        "answer shows once. Events that happen from now on are posted, each at least once. `types` narrows them, "
        "by name or by a pattern such as `approval.*`; without it they are all of these: "
        + ", ".join(EVENT_TYPES) + ".",
        body=wire.AddWebhookBody, answers={201: wire.Webhook}, answer=add, problems=("conflict", "people_only"),
        example={"url": "https://example.com/interlock", "types": ["approval.*"]},
    ),
    Operation(
        id="list_webhooks", method="GET", path=_ROOT, tag=_TAG, roles=("admin", "operate"),
        summary="Where events go, and how far they got", query=PageQuery,
        answers={200: Page[wire.Webhook]}, answer=listed,
    ),
    Operation(
        id="get_webhook", method="GET", path=_ONE, tag=_TAG, roles=("admin", "operate"), parameters=_ID,
        summary="Read one webhook", answers={200: wire.Webhook}, answer=read,
    ),
    Operation(
        id="remove_webhook", method="DELETE", path=_ONE, tag=_TAG, roles=("admin",), parameters=_ID,
        summary="Send no more to an address", answers={200: wire.Webhook}, answer=remove,
        problems=("people_only",),
    ),
    Operation(
        id="rotate_webhook_secret", method="POST", path=_ONE + "/rotate", tag=_TAG, roles=("admin",),
        summary="Sign with a new secret; the old one signs too for a day", parameters=_ID,
        answers={200: wire.Webhook}, answer=rotate, problems=("people_only",),
    ),
    Operation(
        id="test_webhook", method="POST", path=_ONE + "/test", tag=_TAG, roles=("admin",), parameters=_ID,
        summary="Post a test event now", answers={200: wire.WebhookTest}, answer=test,
    ),
    Operation(
        id="list_dead_letters", method="GET", path=_ONE + "/dead-letters", tag=_TAG,
        roles=("admin", "operate"), parameters=_ID, query=PageQuery,
        summary="Events that a webhook never took, oldest first", answers={200: Page[wire.DeadLetter]},
        answer=letters,
    ),
    Operation(
        id="redeliver_dead_letter", method="POST", path=_ONE + "/dead-letters/{event_id}/redeliver",
        tag=_TAG, roles=("admin", "operate"), parameters=_LETTER,
        summary="Try a dead letter again", answers={200: wire.DeadLetter}, answer=redeliver,
        problems=("conflict",),
    ),
    Operation(
        id="get_relays", method="GET", path="/api/v1/relays", tag=_TAG, roles=("admin", "operate"),
        summary="The newest position, and how far the broker is", answers={200: wire.Relays}, answer=relays,
    ),
)  # fmt: skip
