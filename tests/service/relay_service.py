"""A service in this process whose events are told by hand, and webhooks added to it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

from interlock.api.assembly import assemble
from interlock.channels.nats import NatsChannel
from interlock.channels.webhook import Resolve, WebhookChannel
from interlock.kernel.ids import new_id
from interlock.kernel.record import Kind, Reads, Record
from interlock.kernel.world import Command, World
from interlock.rooms.events import queries as outbox
from interlock.rooms.events.model import RELAYS, WEBHOOKS, EventType, PlacedEvent, Relay, Webhook, announce
from interlock.rooms.events.signing import spell_secret
from interlock.rooms.events.webhooks import AddWebhook
from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.principals import EnsureLocalPerson
from interlock.service.channel import Channels
from interlock.service.logs import Log
from interlock.service.relays import Relaying
from interlock.service.service import Service
from interlock.service.settings import Settings
from interlock.store import store_for

TENANT = "default"
SECRET = spell_secret(b"a secret of thirty-two bytes....")
LOOPBACK = "127.0.0.0/8,::1/128"


class Count(Record, frozen=True, kw_only=True):
    """How much was told about one subject."""

    n: int = 0


# Borrows a table: what matters is that telling about a subject owns a record, as every job's events do.
COUNTS = Kind("count", Count, table="policy_buckets", columns=("full_at",), values=lambda count: (count.n,))


class Tell(Command[int], frozen=True, kw_only=True):
    """Write the next event about a subject; `n` in its data counts from 1."""

    subject: str
    tenant: str = TENANT
    type: EventType = "target.touched"
    fails: bool = False

    def reads(self) -> Reads:
        return Reads(own=(COUNTS.key(self.tenant, self.subject),))

    def decide(self, world: World) -> int:
        before = world.get(COUNTS, self.tenant, self.subject)
        n = (before.n if before else 0) + 1
        world.put(COUNTS, Count(tenant=self.tenant, id=self.subject, n=n))
        announce(world, self.tenant, self.type, self.subject, {"n": n})
        if self.fails:
            raise RuntimeError("the command breaks after it announced something")
        return n


class RelayService:
    """An open service, and what tests do with it."""

    def __init__(self, service: Service, relaying: Relaying) -> None:
        self.service = service
        self.relaying = relaying
        self.app = assemble(service, Log(level="error"))

    async def tell(
        self,
        subject: str,
        *,
        times: int = 1,
        tenant: str = TENANT,
        type: EventType = "target.touched",  # noqa: A002 - the field is called so
    ) -> None:
        """Tell about a subject, one batch after another."""
        for _ in range(times):
            await self.service.kernel.run(Tell(subject=subject, tenant=tenant, type=type))

    async def tell_all(self, subjects: int, times: int) -> int:
        """Tell about many subjects at once; returns how many events that made."""
        stories = (self.tell(f"story-{n}", times=times) for n in range(subjects))
        await asyncio.gather(*stories)
        return subjects * times

    async def add_webhook(
        self, url: str, *, types: tuple[str, ...] = (), start_after: int = 0, kind: str = "webhook"
    ) -> Webhook:
        """Add a webhook as the local person, without what the API checks."""
        person = await self.service.kernel.run(EnsureLocalPerson(tenant=TENANT, name="local:test"))
        command = AddWebhook(
            webhook_id=new_id("wh"),
            kind=kind,
            url=url,
            types=types,
            description="",
            secret=SECRET,
            start_after=start_after,
            by=Caller(tenant=TENANT, principal=person.id),
        )
        return await self.service.kernel.run(command)

    async def relay(self, relay_id: str, tenant: str = TENANT) -> Relay:
        """The stored progress of a relay."""
        found = await self.service.store.get(RELAYS, tenant, relay_id)
        assert found is not None
        return found

    async def webhook(self, webhook_id: str) -> Webhook | None:
        return await self.service.store.get(WEBHOOKS, TENANT, webhook_id)

    async def placed(self) -> list[PlacedEvent]:
        """Every event that has a position."""
        found: list[PlacedEvent] = []
        while page := await outbox.every_event_after(
            self.service.store, found[-1].position if found else 0, limit=500
        ):
            found += page
        return found

    async def until_placed(self, count: int, *, seconds: float = 60) -> list[PlacedEvent]:
        """Return once that many events have positions."""
        async with asyncio.timeout(seconds):
            while len(found := await self.placed()) < count:
                await asyncio.sleep(0.02)
        return found


@contextlib.asynccontextmanager
async def relaying_service(
    store: str,
    *,
    relaying: bool = True,
    feeding: bool = True,
    resolve: Resolve | None = None,
    channels: Channels | None = None,
    **settings: object,
) -> AsyncGenerator[RelayService]:
    """A service on `store` that relays; loopback may be reached unless the settings say otherwise."""
    chosen: dict[str, object] = {"webhook_allow_private": LOOPBACK, "webhook_retry_base_seconds": 0.02}
    configured = Settings(store=store, **(chosen | settings))  # type: ignore[arg-type]
    service = Service(store_for(store), configured)
    await service.open(sweeping=False)
    relay_service = RelayService(
        service,
        Relaying(
            service.kernel,
            service.store,
            service.feed,
            service.relay_measures,
            configured,
            channels or (webhooks_that(resolve), NatsChannel),
            now=service.now,
        ),
    )
    if feeding:
        await service.feed.start()
    if feeding and relaying:
        relay_service.relaying.start()
    try:
        yield relay_service
    finally:
        await relay_service.relaying.close()
        await service.close()


def webhooks_that(resolves: Resolve | None) -> type[WebhookChannel]:
    """The channel of webhooks, with names resolved by the test."""

    class ResolvingChannel(WebhookChannel):
        resolve = resolves

    return ResolvingChannel


def orders(events: list[dict[str, object]]) -> dict[str, list[int]]:
    """For each subject the counts in the order in which they were first seen."""
    found: dict[str, list[int]] = {}
    seen: set[object] = set()
    for event in events:
        if event["id"] not in seen:
            seen.add(event["id"])
            data = event["data"]
            assert isinstance(data, dict)
            found.setdefault(str(event["subject"]), []).append(data["n"])
    return found


def utc_now() -> datetime:
    return datetime.now(UTC)
