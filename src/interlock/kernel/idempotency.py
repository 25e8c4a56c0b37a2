"""Idempotency: the first answer under a key is stored in the transaction that decided it.

`Once` wraps a command. If the key has an answer, the stored bytes are returned and nothing is decided; if the key was
used for a different request, it raises `IdempotencyKeyReused`. Refusals and faults store nothing, so their key stays
unused.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Generic, TypeVar

import msgspec

from interlock.kernel.record import NOTHING, Kind, Reads, Record, micros
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World

T = TypeVar("T")


class Rendered(msgspec.Struct, frozen=True):
    """An answer as it leaves: status and exact bytes. It is kept at least until `keep_until`."""

    status: int
    body: bytes
    replayed: bool = False
    content_type: str = "application/json"
    keep_until: datetime | None = None


class KeptAnswer(Record, frozen=True, kw_only=True):
    """The answer that was given under one idempotency key. The id is the digest of its scope and key."""

    request_digest: str
    status: int
    body: str
    content_type: str = "application/json"
    expires_at: datetime


KEPT_ANSWERS = Kind(
    "answer",
    KeptAnswer,
    table="answers",
    columns=("expires_at",),
    values=lambda answer: (micros(answer.expires_at),),
)


class IdempotencyKeyReused(Refusal):
    """The key was used before for a different request."""

    def __init__(self) -> None:
        super().__init__(
            "this idempotency key was used for a different request; give a new request a key of its own"
        )


class Once(Command[Rendered], Generic[T], frozen=True, kw_only=True):
    """Decide `inner` once per key, and answer every repeat with the same bytes.

    `check` may refuse a repeat: the caller must still have the rights of the first call. It sees what `inner` reads.
    """

    inner: Command[T]
    tenant: str
    answer_id: str
    request_digest: str
    keep_for: timedelta
    render: Callable[[T], Rendered]
    check: Callable[[World], object] | None = None

    def reads(self) -> Reads:
        return self.inner.reads() | Reads(own=(KEPT_ANSWERS.key(self.tenant, self.answer_id),))

    def more(self, world: World) -> Reads:
        # A repeat is answered even if the records it was about have changed or are gone.
        return NOTHING if self._kept(world) else self.inner.more(world)

    def decide(self, world: World) -> Rendered:
        kept = self._kept(world)
        if kept is not None:
            return self._replay(world, kept)
        rendered = self.render(self.inner.decide(world))
        world.put(
            KEPT_ANSWERS,
            KeptAnswer(
                tenant=self.tenant,
                id=self.answer_id,
                request_digest=self.request_digest,
                status=rendered.status,
                body=rendered.body.decode(),
                content_type=rendered.content_type,
                expires_at=max(world.now + self.keep_for, rendered.keep_until or world.now),
            ),
        )
        return rendered

    def refused(self, world: World, refusal: Refusal) -> None:
        if not isinstance(refusal, IdempotencyKeyReused):
            self.inner.refused(world, refusal)

    def _kept(self, world: World) -> KeptAnswer | None:
        kept = world.get(KEPT_ANSWERS, self.tenant, self.answer_id)
        return kept if kept is not None and kept.expires_at > world.now else None

    def _replay(self, world: World, kept: KeptAnswer) -> Rendered:
        if self.check is not None:
            self.check(world)
        if kept.request_digest != self.request_digest:
            raise IdempotencyKeyReused
        return Rendered(kept.status, kept.body.encode(), replayed=True, content_type=kept.content_type)
