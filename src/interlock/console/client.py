"""How pages call the API: the same operations as any other client, in process, as the person who is signed in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from interlock.wire.http import Request, Response

T = TypeVar("T")
Respond = Callable[[Request], Awaitable[Response]]

VIA = "console"


class OperationFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What pages know of an operation: where it is, and which roles may call it (any one of them; none: all)."""

    id: str
    method: str
    path: str
    roles: tuple[str, ...] = ()


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A problem document as pages show it. `fields` are those of the case, beside the ones that all have."""

    code: str = "internal_error"
    title: str = ""
    status: int = 500
    detail: str = ""
    retryable: bool = False
    retry_after_ms: int | None = None
    fields: Mapping[str, Any] = {}


class Refused(Exception):
    """The API answered with a problem."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.code}: {refusal.detail}")
        self.refusal = refusal


class Api:
    """The operations, for one request of one browser.

    `has_changed` says that one of them changed something, or may have.
    """

    def __init__(
        self, respond: Respond, operations: Mapping[str, OperationFacts], *, token: str, request: Request
    ) -> None:
        self._respond = respond
        self._operations = operations
        self._token = token
        self._request = request
        self.has_changed = False

    async def ask(
        self,
        operation_id: str,
        shape: type[T],
        *,
        path: Mapping[str, str] | None = None,
        query: Mapping[str, object] | None = None,
        body: object = None,
        content_type: str = "application/json",
        once: str = "",
    ) -> T:
        """Call an operation and read its answer as `shape`; raises `Refused`. Parameters that are None are left out.

        `once` is an idempotency key: a form that is sent again under it gets the first answer again.
        """
        headers = {"idempotency-key": once} if once else None
        response = await self.respond(
            operation_id, path=path, query=query, body=body, content_type=content_type, headers=headers
        )
        if response.status >= 400:
            raise Refused(read_refusal(response))
        return msgspec.json.decode(response.body, type=shape)

    async def respond(
        self,
        operation_id: str,
        *,
        path: Mapping[str, str] | None = None,
        query: Mapping[str, object] | None = None,
        body: object = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Call an operation; the answer as it is. A body of bytes is sent as it is, everything else as JSON."""
        facts = self._operations[operation_id]
        sent = {"authorization": f"Bearer {self._token}", **(headers or {})}
        data = b""
        if body is not None:
            sent["content-type"] = content_type
            data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        response = await self._respond(
            Request(
                method=facts.method,
                path=_filled(facts.path, path or {}),
                query=urlencode(
                    {name: _spelled(value) for name, value in (query or {}).items() if value is not None}
                ),
                headers=sent,
                body=data,
                gone=self._request.gone,
                client=self._request.client,
                scheme=self._request.scheme,
                made_via=VIA,
            )
        )
        if facts.method != "GET" and (
            response.status < 400 or read_refusal(response).code == "outcome_unknown"
        ):
            self.has_changed = True
        return response


def read_refusal(response: Response) -> Refusal:
    """The problem in an answer."""
    document = msgspec.json.decode(response.body)
    return msgspec.convert({**document, "fields": document}, Refusal)


def _filled(template: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        template = template.replace("{" + name + "}", quote(value, safe=""))
    return template


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
