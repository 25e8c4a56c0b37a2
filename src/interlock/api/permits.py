"""The keys that sign permits, over HTTP: read and rotate them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from interlock.api.calls import Asked, caller_of, decide
from interlock.api.operations import Answer, Operation, Reply
from interlock.rooms.permits.model import KeyRing
from interlock.rooms.permits.verification import ALGORITHM
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire import identity as wire


async def keys(call: Asked[None, None]) -> Reply:
    return Reply(200, _view(await call.services.permits.ring(), call.services.now()))


async def rotate(call: Asked[None, wire.RotateKeysBody]) -> Answer:
    permits, body = call.services.permits, call.body
    command = permits.rotation(by=caller_of(call), lead_seconds=body.lead_seconds, revoke=body.revoke)
    answer = await decide(call, command, lambda ring: Reply(200, _view(ring, call.services.now())))
    permits.forget()
    return answer


def _view(ring: KeyRing, now: datetime) -> wire.PermitKeys:
    return wire.PermitKeys(
        keys=tuple(
            wire.PermitKey(
                kid=key.kid,
                x=key.public,
                alg=ALGORITHM,
                signs_from=key.signs_from,
                published_until=key.published_until,
            )
            for key in ring.published(now)
        )
    )


_TAG = "Permits"

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="permit_keys", method="GET", path="/api/v1/keys", tag=_TAG, public=True,
        summary="The public keys that check permits", answers={200: wire.PermitKeys}, answer=keys,
    ),
    Operation(
        id="rotate_permit_keys", method="POST", path="/api/v1/keys/rotate", tag=_TAG, roles=("admin",),
        summary="Sign permits with a new key", body=wire.RotateKeysBody, answers={200: wire.PermitKeys}, answer=rotate,
        description="The new key is published at once and signs after `lead_seconds`; old ones stay "
        "published until every permit they signed has run out.",
        problems=("people_only",),
    ),
)  # fmt: skip
