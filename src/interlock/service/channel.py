"""What a channel is: one way for events to leave, such as a webhook, a broker or a message to a person.

A channel only delivers, and says what came of it. The relay that drives it (`relay_loop.py`) does everything else:
it holds the destination so that no two servers deliver at once, chooses which events are due, keeps the order, waits
longer after each failure, makes dead letters, and remembers how far it is. A channel keeps no state that matters.

`Destinations` finds where each relay's events go, and through which channel: what tenants added, and what the operator
configured.

The channels themselves are in `interlock/channels`, one file each. Their table is handed to the service when it is
put together, so that nothing in here imports a channel.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import ClassVar

import msgspec

from interlock.kernel.ids import new_id
from interlock.kernel.storage import Store
from interlock.rooms.events.deliveries import Backoff, as_delivery
from interlock.rooms.events.model import (
    DEPLOYMENT,
    WEBHOOKS,
    BrokerMark,
    Delivery,
    Event,
    PlacedEvent,
    Webhook,
)
from interlock.rooms.events.signing import signing_secrets
from interlock.service.settings import Settings

log = logging.getLogger(__name__)

TEST_TYPE = "webhook.test"

_REASON_CHARACTERS_MAX = 300


def no_secrets() -> tuple[str, ...]:
    """The secrets of a destination that needs none."""
    return ()


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """Where one relay's events go. `tenant` and `id` are the relay's; no `types` means every type."""

    tenant: str
    id: str
    address: str
    types: tuple[str, ...] = ()
    # Another version means that the destination was changed; its channel is then opened anew.
    version: int = 0
    # What signs or signs in, the current one first, opened at the moment of use. Raises `CannotUnseal`.
    secrets: Callable[[], tuple[str, ...]] = no_secrets


class ChannelLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How a relay drives a channel.

    Usually each event stands for itself: one that is not taken is tried again while others go on, holds back only its
    own subject, and is a dead letter in the end. A channel that is `in_order` is a copy of everything in the order of
    positions: what is not taken holds back all that comes after it and is tried until it is taken, so there are no
    dead letters.
    """

    seconds: float  # the relay ends a delivery that takes longer
    backoff: Backoff = Backoff()
    at_once: int = 8  # deliveries at a time; one if it is in order
    in_order: bool = False
    batch_max: int = 1  # events in one delivery; more than one only if it is in order
    look_seconds: float = 5.0  # how often to look when nothing is known to be new


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """The destination has all of it. `status` if it answered with a number, `mark` if it said where it is now."""

    status: int | None = None
    mark: BrokerMark | None = None


class TryAgain(msgspec.Struct, frozen=True):
    """The destination took nothing that counts; try later, and no sooner than it asked for."""

    why: str
    after_seconds: float = 0.0


class GiveUp(msgspec.Struct, frozen=True):
    """The destination will never take it: a dead letter at once. One that is in order is tried again all the same."""

    why: str


Outcome = Delivered | TryAgain | GiveUp


class Standing(msgspec.Struct, frozen=True):
    """How far a destination is, and by what it was recognised when it got there."""

    position: int
    mark: BrokerMark | None = None


class Channel(ABC):
    """One open way to one destination: made when a relay takes it over, closed when the relay lets go of it.

    Opening connects to nothing; the first delivery does. Deliveries may be asked for at once, `limits.at_once` of
    them, and any of them may be cancelled.
    """

    kind: ClassVar[str]  # how stored destinations and metrics name it
    limits: ChannelLimits

    @abstractmethod
    def __init__(self, destination: Destination, settings: Settings) -> None: ...

    @abstractmethod
    async def deliver(self, letters: Sequence[Delivery]) -> Outcome:
        """Deliver all of these, which is one event unless `limits.batch_max` says more; at least once is enough.

        Whatever it raises counts as `TryAgain`, and is logged as a defect of the channel.
        """

    async def resume(self, standing: Standing) -> Standing | TryAgain:
        """Where an `in_order` destination really is, asked before each delivery: further back if it lost something."""
        return standing

    async def close(self) -> None:  # noqa: B027 - a channel may have nothing to close
        """Close all connections, in any state."""

    @classmethod
    def of_deployment(cls, settings: Settings) -> Destination | None:
        """The destination that the operator configured for the events of all tenants; only if it is `in_order`.

        Its tenant is `DEPLOYMENT`. What is not in order belongs to a tenant, who sees its dead letters.
        """
        return None


Channels = Sequence[type[Channel]]


async def attempt(channel: Channel, letters: Sequence[Delivery]) -> Outcome:
    """Deliver within the channel's time. Every error becomes an outcome, with a reason of bounded length."""
    try:
        async with asyncio.timeout(channel.limits.seconds):
            outcome = await channel.deliver(letters)
    except TimeoutError:
        return TryAgain(f"it was not delivered within {channel.limits.seconds:g} s")
    except Exception as error:
        log.exception("a channel raised where it should say what came of it; kind %s", channel.kind)
        return TryAgain(reason_of(error))
    if isinstance(outcome, Delivered):
        return outcome
    return msgspec.structs.replace(outcome, why=outcome.why[:_REASON_CHARACTERS_MAX])


async def asked(channel: Channel, standing: Standing) -> Standing | TryAgain:
    """Where the destination is, asked within the channel's time."""
    try:
        async with asyncio.timeout(channel.limits.seconds):
            return await channel.resume(standing)
    except TimeoutError:
        return TryAgain(f"it did not answer within {channel.limits.seconds:g} s")
    except Exception as error:
        log.exception("a channel raised where it should say what came of it; kind %s", channel.kind)
        return TryAgain(reason_of(error))


def reason_of(error: Exception) -> str:
    """An error as it is kept and shown."""
    return f"{type(error).__name__}: {error}"[:_REASON_CHARACTERS_MAX]


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What a test delivery came to."""

    milliseconds: int
    status: int | None = None
    error: str | None = None


async def try_now(channel: Channel, destination: Destination, now: datetime) -> Tried:
    """Deliver a test event now, outside the outbox; its position is 0, which no real event has."""
    event = Event(tenant=destination.tenant, id=new_id("evt"), at=now, type=TEST_TYPE, subject=destination.id)
    began = time.monotonic()
    try:
        outcome = await attempt(channel, [as_delivery(PlacedEvent(0, event), destination.id, now)])
    finally:
        await channel.close()
    milliseconds = round((time.monotonic() - began) * 1000)
    if isinstance(outcome, Delivered):
        return Tried(milliseconds=milliseconds, status=outcome.status)
    return Tried(milliseconds=milliseconds, error=outcome.why)


RelayKey = tuple[str, str]


class Route(msgspec.Struct, frozen=True):
    """A destination, and the channel that leads to it."""

    channel: type[Channel]
    destination: Destination


class Destinations:
    """Finds the route of a relay among the channels of this server."""

    def __init__(
        self, channels: Channels, store: Store, settings: Settings, now: Callable[[], datetime]
    ) -> None:
        self._channels = channels
        self._store = store
        self._settings = settings
        self._now = now
        self._of_deployment = {
            (DEPLOYMENT, destination.id): Route(channel, destination)
            for channel in channels
            if (destination := channel.of_deployment(settings)) is not None
        }

    def of_deployment(self) -> list[RelayKey]:
        """The relays to what the operator configured."""
        return list(self._of_deployment)

    async def find(self, tenant: str, relay_id: str) -> Route | None:
        """The route as it is now; None if the destination is gone, or if this server has no channel of its kind."""
        if tenant == DEPLOYMENT:
            return self._of_deployment.get((tenant, relay_id))
        webhook = await self._store.get(WEBHOOKS, tenant, relay_id)
        return webhook and route_of(self._channels, webhook, self._settings, self._now)


def route_of(
    channels: Channels, webhook: Webhook, settings: Settings, now: Callable[[], datetime]
) -> Route | None:
    """The route to what a tenant added; None if there is no channel of its kind."""
    destination = Destination(
        tenant=webhook.tenant,
        id=webhook.id,
        address=webhook.url,
        types=webhook.types,
        version=webhook.version,
        secrets=lambda: signing_secrets(webhook, now(), settings.secret),
    )
    return next((Route(channel, destination) for channel in channels if channel.kind == webhook.kind), None)
