"""Who is calling: `Authorization: Bearer <key>` or `X-API-Key: <key>`."""

from __future__ import annotations

import re
from urllib.parse import unquote

from interlock.api.http import Request
from interlock.identity.refusals import Unauthenticated
from interlock.kernel.refusal import Fault
from interlock.kernel.storage import StoreDown
from interlock.runtime.keyring import Known
from interlock.runtime.service import Service

# These are asked by POST, but nothing is decided, so no transaction checks the key again.
_ONLY_ASKING = frozenset({"/api/v1/policy/evaluate", "/api/v1/policy/simulate"})
_START = re.compile(r"/api/v1/workflows/([^/]+)/runs")
_WORKFLOW = re.compile(r"[A-Za-z0-9_.:\-]{1,200}")


async def authenticate(request: Request, service: Service) -> Known:
    """The caller behind a request's key. Calls that the kernel decides are checked again there.

    What the kernel has no room for is refused first: in an overload a no must cost next to nothing.
    """
    deciding = request.method not in ("GET", "HEAD") and request.path not in _ONLY_ASKING
    try:
        if deciding:
            service.kernel.check_room(len(request.body))
        return await service.keyring.known(presented_key(request), recent_will_do=deciding)
    except (Fault, StoreDown):
        _count_start(request, service)
        raise


def _count_start(request: Request, service: Service) -> None:
    """Count a start that was not even asked about: in an outage no other comes as far as the gate.

    Whose it was is known only of a key that came before.
    """
    start = _START.fullmatch(request.path) if request.method == "POST" else None
    workflow = unquote(start[1]) if start else ""
    if _WORKFLOW.fullmatch(workflow) and (caller := service.keyring.last_known(presented_key(request))):
        service.admission_stats.count(caller.tenant, workflow, "unavailable")


def presented_key(request: Request) -> str:
    """The key that came with a request; two different ones are as good as none."""
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    keys = {request.headers.get("x-api-key", "").strip()}
    if scheme.lower() == "bearer":
        keys.add(bearer.strip())
    keys.discard("")
    if len(keys) != 1:
        raise Unauthenticated
    return keys.pop()
