"""Calling one method on a client of either kind, against a scripted server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from interlock import AsyncInterlock, Interlock
from tests.sdk.scripted_server import ScriptedServer
from tests.sdk.virtual_time import success

JOB = success(201, id="job_1", state="PENDING", job_hash="sha256:0", later_field={"unknown": True})

both = pytest.mark.parametrize("kind", ["blocking", "async"])


def called(kind: str, url: str, name: str, *args: Any, **kwargs: Any) -> Any:
    """Call one method on a fresh client of either kind."""
    options = {"key": "il_secret", "retry": kwargs.pop("retry", None)}
    if kind == "blocking":
        with Interlock(url, **options) as il:
            return getattr(il, name)(*args, **kwargs)

    async def call() -> Any:
        async with AsyncInterlock(url, **options) as il:
            return await getattr(il, name)(*args, **kwargs)

    return asyncio.run(call())


def sent(server: ScriptedServer, place: int = -1) -> tuple[str, str, str, Any]:
    request = server.received[place]
    return request.method, request.path, request.query, json.loads(request.body) if request.body else None
