"""The server's settings over HTTP: what it runs with, without credentials."""

from __future__ import annotations

from typing import Any

from interlock.api.calls import Asked
from interlock.api.descriptions import own_version
from interlock.api.operations import Operation, Reply
from interlock.api.problem import ProblemError, problem
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.service.settings import TENANT_DEFAULT, room_at
from interlock.service.settings_report import report
from interlock.wire import server as wire


async def read(call: Asked[None, None]) -> Reply:
    if call.caller.tenant != TENANT_DEFAULT:
        why = f"only principals of the tenant {TENANT_DEFAULT}, which runs this server, may read its settings"
        raise ProblemError(problem("forbidden", why))
    service = call.services
    place, _ = room_at(service.settings.store)
    shown = wire.ServerSettings(
        version=own_version(),
        store_kind=_kind(service.settings.store),
        store_place=place,
        started_at=service.started_at,
        settings=tuple(
            wire.Setting(
                name=each.name,
                value=each.value,
                source=each.source,
                secret=each.is_secret,
                meaning=each.meaning,
            )
            for each in report(service.settings)
        ),
    )
    return Reply(200, shown)


def _kind(url: str) -> str:
    scheme = url.partition(":")[0]
    return "postgresql" if scheme == "postgres" else scheme


OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="get_settings", method="GET", path="/api/v1/settings", tag="Health", roles=("operate", "admin"),
        summary="What this server runs with, without credentials",
        description="For principals of the tenant `default`, which runs the server. Of several workers, the one that "
        "answers tells of itself.",
        answers={200: wire.ServerSettings}, answer=read,
    ),
)  # fmt: skip
