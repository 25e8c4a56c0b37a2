"""Where each relay's events go, and through which channel: what tenants added, and what the operator configured."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from interlock.kernel.storage import Store
from interlock.rooms.events.model import DEPLOYMENT, WEBHOOKS, Webhook
from interlock.rooms.events.signing import signing_secrets
from interlock.service.channel import Channel, Channels, Destination
from interlock.service.settings import Settings

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
