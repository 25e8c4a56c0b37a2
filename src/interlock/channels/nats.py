"""NATS JetStream: copies of events in a stream, and how to tell that the stream lost some.

The broker is never the record. A stream that was made anew, or that ends before what it acknowledged, has
lost events; the store still has them, and the relay goes back to send them again. `Nats-Msg-Id` is the
event's id, so what the stream still has is not doubled within its window for duplicates.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar
from urllib.parse import quote

import msgspec

from interlock.rooms.events.cloud_events import MEDIA_TYPE
from interlock.rooms.events.deliveries import Backoff
from interlock.rooms.events.model import BROKER, DEPLOYMENT, BrokerMark, Delivery
from interlock.service.channel import (
    Channel,
    ChannelLimits,
    Delivered,
    Destination,
    Outcome,
    Standing,
    TryAgain,
    reason_of,
)
from interlock.service.settings import Settings

log = logging.getLogger(__name__)

POSITION_HEADER = "Interlock-Position"
DUPLICATES_SECONDS = 120.0

BATCH_MAX = 200

_IO_SECONDS = 5.0
_LOOK_SECONDS = 2.0
_BACKOFF = Backoff(base_seconds=0.1, most_seconds=5.0)


class NatsChannel(Channel):
    """Copies every event to the stream, in the order of positions."""

    kind: ClassVar[str] = "broker"

    def __init__(self, destination: Destination, settings: Settings) -> None:
        self._target = BrokerTarget(
            url=destination.address, stream=settings.nats_stream, subject=settings.nats_subject
        )
        self._broker: Broker | None = None
        self._mark: BrokerMark | None = None
        self.limits = ChannelLimits(
            seconds=_IO_SECONDS * (BATCH_MAX + 1),  # each wave of a batch has a clock of its own
            backoff=_BACKOFF,
            batch_max=BATCH_MAX,
            in_order=True,
            look_seconds=_LOOK_SECONDS,
        )

    @classmethod
    def of_deployment(cls, settings: Settings) -> Destination | None:
        if not settings.nats_url:
            return None
        return Destination(tenant=DEPLOYMENT, id=BROKER, address=settings.nats_url)

    async def resume(self, standing: Standing) -> Standing | TryAgain:
        """Look at the stream before adding to it; if it has lost something, go back."""
        try:
            if self._broker is None:
                self._broker = await connect(self._target)
            self._mark = found = await self._broker.look()
            if not has_lost(standing.mark, found):
                return standing
            # A stream that lost only its end is the same stream, so its newest copy says where it ends. A new
            # stream is filled from the beginning.
            is_same = standing.mark is not None and standing.mark.created == found.created
            last = await self._broker.last_position(found) if is_same else 0
        except Exception as error:  # noqa: BLE001 - whatever the client raises, the stream cannot be asked
            return await self._broken(error)
        return Standing(min(standing.position, last), found)

    async def deliver(self, letters: Sequence[Delivery]) -> Outcome:
        if self._broker is None or self._mark is None:
            return TryAgain("the stream has to be looked at first")
        try:
            last = await self._broker.publish(letters)
        except Exception as error:  # noqa: BLE001 - whatever the client raises, the stream did not take all of it
            return await self._broken(error)
        self._mark = BrokerMark(self._mark.created, max(self._mark.sequence, last))
        return Delivered(mark=self._mark)

    async def close(self) -> None:
        broker, self._broker = self._broker, None
        if broker is not None:
            await broker.close()

    async def _broken(self, error: Exception) -> TryAgain:
        """Close the connection after an error, because its state is unknown."""
        await self.close()
        return TryAgain(reason_of(error))


class BrokerDown(Exception):
    """The broker did not take what it was sent; the message says why."""


class BrokerTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Which stream, where."""

    url: str
    stream: str
    subject: str


class Broker:
    """One connection to the stream."""

    def __init__(self, target: BrokerTarget, client: Any) -> None:
        self._target = target
        self._client = client
        self._stream = client.jetstream(timeout=_IO_SECONDS)

    async def close(self) -> None:
        """Let go of the connection, whatever its state."""
        try:
            async with asyncio.timeout(_IO_SECONDS):
                await self._client.close()
        except Exception as error:  # noqa: BLE001 - it is being thrown away
            log.debug("closing the broker's connection: %s", error)

    async def look(self) -> BrokerMark:
        """What the stream looks like now; it is made if there is none."""
        from nats.js.errors import NotFoundError

        try:
            return _mark(await self._stream.stream_info(self._target.stream))
        except NotFoundError:
            return _mark(await self._stream.add_stream(_configuration(self._target)))

    async def last_position(self, mark: BrokerMark) -> int:
        """The position of the newest copy in the stream; 0 if it has none, or one that is not ours."""
        from nats.js.errors import NotFoundError

        try:
            found: Any = await self._stream.get_msg(self._target.stream, seq=mark.sequence)
        except NotFoundError:
            return 0
        headers: Mapping[str, str] = found.headers or {}
        text = headers.get(POSITION_HEADER, "")
        return int(text) if text.isascii() and text.isdigit() else 0

    async def publish(self, letters: Sequence[Delivery]) -> int:
        """Store copies in their order; returns the stream's sequence of the last. All or `BrokerDown`.

        The next event of a subject is sent only when the one before it is acknowledged: otherwise one
        that is lost on the way would be stored after its successor when it is sent again.
        """
        last = 0
        for wave in waves(letters):
            futures = [await self._send(letter) for letter in wave]
            async with asyncio.timeout(_IO_SECONDS):
                answers = await asyncio.gather(*futures, return_exceptions=True)
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise BrokerDown(f"it did not store an event: {answer!r}") from answer
                last = max(last, int(answer.seq))
        return last

    async def _send(self, letter: Delivery) -> asyncio.Future[Any]:
        return await self._stream.publish_async(
            subject_of(self._target.subject, letter.tenant, letter.type),
            letter.body.encode(),
            wait_stall=_IO_SECONDS,
            stream=self._target.stream,
            headers={
                "Nats-Msg-Id": letter.event_id,
                "Content-Type": MEDIA_TYPE,
                POSITION_HEADER: str(letter.position),
            },
        )


async def connect(target: BrokerTarget) -> Broker:
    """A connection that does not mend itself: after a break the stream has to be looked at first."""
    try:
        nats: Any = import_module("nats")
    except ImportError:
        raise BrokerDown("the NATS client is not installed; in the clone: pip install '.[nats]'") from None

    async def note(error: Exception) -> None:
        log.debug("the broker's connection: %s", error)

    client = await nats.connect(
        target.url,
        allow_reconnect=False,
        connect_timeout=int(_IO_SECONDS),
        error_cb=note,
        name="interlock",
        max_outstanding_pings=2,
        ping_interval=5,
    )
    return Broker(target, client)


def waves(letters: Sequence[Delivery]) -> list[list[Delivery]]:
    """Events in their order, cut before each one whose subject is in the current part already."""
    parts: list[list[Delivery]] = []
    seen: set[tuple[str, str]] = set()
    for letter in letters:
        subject = (letter.tenant, letter.subject)
        if not parts or subject in seen:
            parts.append([])
            seen.clear()
        parts[-1].append(letter)
        seen.add(subject)
    return parts


def subject_of(prefix: str, tenant: str, event_type: str) -> str:
    """`<prefix>.<tenant>.<type>`; what has a meaning in NATS subjects is percent-encoded in the tenant."""
    safe = quote(tenant, safe="").replace(".", "%2E").replace("*", "%2A").replace("~", "%7E")
    return f"{prefix}.{safe}.{event_type}"


def has_lost(known: BrokerMark | None, found: BrokerMark) -> bool:
    """Whether the stream cannot have all that it acknowledged: another one, or one that ends too early."""
    return known is None or known.created != found.created or found.sequence < known.sequence


def _mark(info: Any) -> BrokerMark:
    return BrokerMark(created=str(info.created), sequence=int(info.state.last_seq))


def _configuration(target: BrokerTarget) -> Any:
    from nats.js.api import StorageType, StreamConfig

    return StreamConfig(
        name=target.stream,
        subjects=[f"{target.subject}.>"],
        storage=StorageType.FILE,
        duplicate_window=DUPLICATES_SECONDS,
    )
