"""Authenticates the caller: `Authorization: Bearer <key>` or `X-API-Key: <key>`.

A session's token counts as a key only in a request that a part of this process made (`Request.made_via`): what comes
over a wire brings a cookie to the console, and never a token to the API.
"""

from __future__ import annotations

from interlock.api.heads import announced_bytes
from interlock.rooms.identity.refusals import Unauthenticated
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire.http import Request

# These are asked by POST, but nothing is decided, so no transaction checks the key again.
_ONLY_ASKING = frozenset({"/api/v1/policy/evaluate", "/api/v1/policy/simulate"})


async def authenticate(request: Request, service: Service) -> Known:
    """The caller behind a request's key. Calls that the kernel decides are checked again there.

    It is asked when only the head of a request is there, so that nobody's body is kept but a known caller's. What
    the kernel has no room for is refused first: in an overload a no must cost next to nothing.
    """
    deciding = request.method not in ("GET", "HEAD") and request.path not in _ONLY_ASKING
    if deciding:
        service.kernel.check_room(len(request.body) or announced_bytes(request.headers))
    return await service.keyring.known(
        presented_key(request), recent_will_do=deciding, sessions_count=request.made_via is not None
    )


def presented_key(request: Request) -> str:
    """The key that came with a request; two different ones are as good as none."""
    keys = presented_keys(request)
    if len(keys) != 1:
        raise Unauthenticated("two different keys were sent" if keys else "no key was sent")
    return keys.pop()


def presented_keys(request: Request) -> set[str]:
    """Every key that came with a request."""
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    keys = {request.headers.get("x-api-key", "").strip()}
    if scheme.lower() == "bearer":
        keys.add(bearer.strip())
    keys.discard("")
    return keys
