"""What a channel is: one way for events to leave, such as a webhook, a broker or a message to a person.

A channel only delivers, and says what came of it. The relay that drives it (`relay_loop.py`) does everything else:
it holds the destination so that no two servers deliver at once, chooses which events are due, keeps the order, waits
longer after each failure, makes dead letters, and remembers how far it is. A channel keeps no state that matters.

The channels themselves are in `interlock/channels`, one file each. Their table is handed to the service when it is
put together, so that nothing in here imports a channel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

import msgspec

from interlock.rooms.events.deliveries import Backoff
from interlock.rooms.events.model import BrokerMark, Delivery
from interlock.service.settings import Settings

REASON_CHARACTERS_MAX = 300


def no_secrets() -> tuple[str, ...]:
    """The secrets of a destination that needs none."""
    return ()


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """Where one relay's events go. `tenant` and `id` are the relay's; no `types` means every type."""

    tenant: str
    id: str
    address: str
    types: tuple[str, ...] = ()
    # Another version means that it was changed, and that its channel is opened anew.
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
    batch_max: int = 1  # events in one delivery
    at_once: int = 8  # deliveries at a time
    in_order: bool = False
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
    """The destination will never take it: a dead letter at once. A channel that is `in_order` cannot give up."""

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
        """Let go of connections, whatever their state."""

    @classmethod
    def of_deployment(cls, settings: Settings) -> Destination | None:
        """The destination that the operator configured for the events of all tenants, if there is one."""
        return None


Channels = Sequence[type[Channel]]
# Loads the table when it is needed: a command that opens the store for a moment does not pay for HTTP clients.
LoadChannels = Callable[[], Channels]


def no_channels() -> Channels:
    """The table of a service that delivers nothing."""
    return ()


def channel_of(channels: Channels, kind: str) -> type[Channel] | None:
    """The channel of a kind."""
    return next((channel for channel in channels if channel.kind == kind), None)
