"""A caller of the whole API in this process, with a key of their own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from interlock.rooms.identity.model import EVERY_ROLE, PrincipalKind, Role
from interlock.service.operator import issue_key
from interlock.wire.http import Request, Response
from tests.api.events.event_stream import Block, blocks
from tests.service.relay_service import RelayService


class Client:
    """Calls the API without a socket."""

    def __init__(self, relay_service: RelayService, key: str, key_id: str) -> None:
        self.key_id = key_id
        self.key = key
        self._app = relay_service.app

    async def get(self, path: str, query: str = "", **headers: str) -> Response:
        """One GET."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self._send("GET", path, query=query, headers=named)

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """One request; status and decoded answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        content = b"" if body is None else json.dumps(body).encode()
        response = await self._send(
            method, path, headers={"content-type": "application/json", **named}, body=content
        )
        return response.status, json.loads(response.body)

    async def stream(self, query: str = "", **headers: str) -> AsyncIterator[Block]:
        """The stream of events."""
        response = await self.get("/api/v1/events", query, **headers)
        assert response.status == 200, response.body
        assert response.header("content-type") == "text/event-stream"
        assert response.stream is not None
        return blocks(response.stream)

    async def _send(
        self, method: str, path: str, *, headers: dict[str, str], query: str = "", body: bytes = b""
    ) -> Response:
        sent = {"authorization": f"Bearer {self.key}", **headers}
        return await self._app.respond(
            Request(method=method, path=path, query=query, headers=sent, body=body)
        )


async def client_of(
    relay_service: RelayService,
    name: str = "reader",
    *,
    tenant: str = "default",
    roles: tuple[Role, ...] = EVERY_ROLE,
) -> Client:
    """A caller with a fresh key."""
    made = await issue_key(relay_service.service, name, kind=PrincipalKind.PERSON, roles=roles, tenant=tenant)
    return Client(relay_service, made.key, made.key_id)
