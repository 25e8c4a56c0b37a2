"""A small service with one operation of each shape, served by the real core."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec

from interlock.api.app import App
from interlock.api.operations import Answer, Call, Operation, RawBody, Reply
from interlock.api.pages import PageQuery
from interlock.api.problem import ProblemError, problem
from interlock.service.logs import Log
from interlock.service.metrics import Registry
from interlock.wire.fields import Body, DurationText, Page
from interlock.wire.http import Request, Response
from interlock.wire.problem import Problem

KEY = "key-of-ada"


class Person(msgspec.Struct, frozen=True):
    """A caller."""

    tenant: str
    principal: str
    roles: frozenset[str]


class Shelf(msgspec.Struct):
    """The services: a place that operations can be seen to have touched."""

    placed: list[object] = msgspec.field(default_factory=list[object])
    started: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    go_on: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    closed: asyncio.Event = msgspec.field(default_factory=asyncio.Event)


class Spot(Body, frozen=True, kw_only=True):
    """Where a thing goes."""

    row: int
    column: int = 0


class Place(Body, frozen=True, kw_only=True):
    """A thing to place."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
    weight: float | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    spot: Spot | None = None
    spots: list[Spot] = msgspec.field(default_factory=list[Spot])
    keep_for: DurationText | None = None
    payload: Any = None


class Remark(Body, frozen=True, kw_only=True):
    """A body of which nothing is required."""

    note: str | None = None


class Things(PageQuery, frozen=True, kw_only=True):
    """A filtered list."""

    state: str | None = None
    heavy: bool = False


class Thing(msgspec.Struct, frozen=True, kw_only=True):
    """A thing on the shelf."""

    id: str
    name: str = ""


class RoomRefusal(Exception):
    """Stands for the refusals of rooms, which only `translate` knows."""


class NobodyExpectedThis(Exception):
    """Stands for a bug."""


ACall = Call[Person, Shelf, Any, Any]


async def place(call: Call[Person, Shelf, None, Place]) -> Reply:
    call.services.placed.append(call.body)
    return Reply(201, Thing(id="thing_1", name=call.body.name), headers=(("location", "/things/thing_1"),))


async def listed(call: Call[Person, Shelf, Things, None]) -> Reply:
    names = [call.query.state or "any", str(call.query.limit), str(call.query.heavy)]
    return Reply(200, Page(items=tuple(Thing(id=name) for name in names), next_cursor=call.query.cursor))


async def read(call: Call[Person, Shelf, None, None]) -> Reply:
    return Reply(200, Thing(id=call.path["key"], name=call.caller.principal))


async def remark(call: Call[Person, Shelf, None, Remark]) -> Reply:
    return Reply(200, Thing(id=call.path["key"], name=call.body.note or ""))


async def touch(call: Call[Person, Shelf, None, None]) -> Reply:
    return Reply(200, Thing(id=call.path["key"]))


async def upload(call: Call[Person, Shelf, None, bytes]) -> Answer:
    return Answer(200, call.body, (("idempotency-replayed", "true"),), "application/yaml")


async def refuse(call: ACall) -> Reply:
    raise RoomRefusal(call.path["key"])


async def busy(call: ACall) -> Reply:
    raise ProblemError(problem("lock_busy", "held", retry_after_ms=1001, members={"holder": "someone"}))


async def stored_problem(call: ACall) -> Answer:
    body = b'{"code":"policy_throttled","retry_after_ms":2500}'
    return Answer(429, body, content_type="application/problem+json")


async def broken(call: ACall) -> Reply:
    raise NobodyExpectedThis(f"no luck with {call.request.body.decode()} {call.request.query}")


async def slow(call: ACall) -> Reply:
    call.services.started.set()
    await call.services.go_on.wait()
    call.services.placed.append("finished")
    return Reply(200, Thing(id="slow"))


async def stream(call: ACall) -> Response:
    async def chunks() -> AsyncIterator[bytes]:
        try:
            yield b"data: 1\n\n"
            call.services.started.set()
            await call.services.go_on.wait()
            yield b"data: 2\n\n"
        finally:
            call.services.closed.set()

    return Response(status=200, headers=(("content-type", "text/event-stream"),), stream=chunks())


async def torn_stream(call: ACall) -> Response:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"
        raise NobodyExpectedThis("in the middle")

    return Response(status=200, stream=chunks())


async def health(call: ACall) -> Reply:
    return Reply(200, Thing(id="ok"))


def _op(name: str, method: Any, path: str, answer: Any, **more: Any) -> Operation[Person, Shelf, Any, Any]:
    return Operation(id=name, method=method, path=path, answer=answer, summary=name, tag="Things", **more)


OPERATIONS = (
    _op(
        "place_thing",
        "POST",
        "/api/v1/things",
        place,
        body=Place,
        roles=("submit", "admin"),
        answers={201: Thing},
        problems=("conflict", "lock_busy"),
        example={"name": "vase", "spot": {"row": 1}},
    ),
    _op("list_things", "GET", "/api/v1/things", listed, query=Things, answers={200: Page[Thing]}),
    _op("read_thing", "GET", "/api/v1/things/{key}", read, answers={200: Thing}),
    _op("remark_thing", "POST", "/api/v1/things/{key}/remark", remark, body=Remark, answers={200: Thing}),
    _op("touch_thing", "POST", "/api/v1/things/{key}/touch", touch, answers={200: Thing}),
    _op("claim_things", "POST", "/api/v1/things/claim", health, answers={200: Thing}),
    _op(
        "upload",
        "PUT",
        "/api/v1/policy",
        upload,
        body=RawBody(("application/yaml", "application/json")),
        answers={200: Thing},
    ),
    _op("audit_things", "GET", "/api/v1/audit", health, roles=("audit",), answers={200: Thing}),
    _op("refuse", "POST", "/api/v1/refuse/{key}", refuse, problems=("conflict",)),
    _op("busy", "POST", "/api/v1/busy", busy, problems=("lock_busy",)),
    _op("stored_problem", "POST", "/api/v1/stored-problem", stored_problem),
    _op("broken", "POST", "/api/v1/broken", broken, body=RawBody(("text/plain", "application/json"))),
    _op("broken_read", "GET", "/api/v1/broken", broken, query=Things),
    _op("slow", "POST", "/api/v1/slow", slow),
    _op("stream", "GET", "/api/v1/stream", stream),
    _op("torn_stream", "GET", "/api/v1/torn", torn_stream),
    _op("health", "GET", "/healthz", health, public=True, answers={200: Thing}),
)


async def authenticate(request: Request, shelf: Shelf) -> Person:
    if request.headers.get("authorization") != f"Bearer {KEY}":
        raise ProblemError(problem("unauthenticated", "unknown key"))
    return Person("acme", "ada", frozenset({"submit"}))


def translate(error: Exception) -> Problem | None:
    if not isinstance(error, RoomRefusal):
        return None
    if str(error) == "translation-breaks":
        raise KeyError("translation")
    return problem("conflict", f"{error} is taken", members={"state": "taken"})


class Service:
    """The app under test, what it holds, and what it said."""

    def __init__(self, **log: Any) -> None:
        self.lines: list[str] = []
        self.shelf = Shelf(placed=[])
        self.metrics = Registry()
        self.app: App[Person, Shelf] = App(
            operations=OPERATIONS,
            services=self.shelf,
            authenticate=authenticate,
            translate=translate,
            log=Log(write=self.lines.append, **log),
            metrics=self.metrics,
        )

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: str = "",
        key: str | None = KEY,
        content_type: str | None = "application/json",
        **headers: str,
    ) -> Response:
        """Send one request; `body` is sent as JSON unless it is bytes."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if key is not None:
            sent["authorization"] = f"Bearer {key}"
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        if raw and content_type is not None:
            sent["content-type"] = content_type
        return await self.app.respond(Request(method=method, path=path, query=query, headers=sent, body=raw))


PROBLEM_FIELDS = {"type", "title", "status", "detail", "code", "retryable"}


def refused(response: Response) -> dict[str, Any]:
    """Read a problem document, after checking what every one of them must have."""
    problem = json.loads(response.body)
    assert response.header("content-type") == "application/problem+json"
    assert problem.keys() >= PROBLEM_FIELDS
    assert problem["status"] == response.status
    assert problem["type"] == f"/problems/{problem['code']}"
    assert (
        problem["retryable"] == ("retry_after_ms" in problem) == (response.header("retry-after") is not None)
    )
    assert response.header("x-request-id")
    return problem
