"""Why a change of a webhook or a relay is refused."""

from __future__ import annotations

from datetime import datetime

from interlock.kernel.refusal import Refusal


class RelayHeld(Refusal):
    """Another server delivers to this target."""

    def __init__(self, relay: str, holder: str, until: datetime | None) -> None:
        super().__init__(f"{relay} is delivered by {holder} until {until}; try again after that")


class RelayLost(Refusal):
    """The fence is not the current one: another server has taken over. Stop delivering."""

    def __init__(self, relay: str) -> None:
        super().__init__(f"another server delivers to {relay} now; stop, and take it again when it is free")


class RelayGone(Refusal):
    """The target was removed."""

    def __init__(self, relay: str) -> None:
        super().__init__(f"{relay} was removed; there is nothing to deliver to")


class TooManyWebhooks(Refusal):
    def __init__(self, most: int) -> None:
        super().__init__(f"a tenant has at most {most} webhooks; remove one, or fan out behind one of them")


class NotDead(Refusal):
    """Only a dead letter can be sent again by hand."""

    def __init__(self, event_id: str) -> None:
        super().__init__(f"{event_id} is still being tried; it needs no help until it is a dead letter")
