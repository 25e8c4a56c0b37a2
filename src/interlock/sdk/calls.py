"""Turns an operation's arguments into a request, and the answer into its type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast
from urllib.parse import quote, urlencode

import msgspec

from interlock.kernel.codec.canonical import NotCanonical, canonical, digest
from interlock.sdk.flow import Flow, Request, Response, Say
from interlock.sdk.outcomes import InvalidRequest, UnexpectedAnswer, decoder_of
from interlock.sdk.session import IDEMPOTENCY_KEY, Session, exchange
from interlock.wire.fields import Body
from interlock.wire.problem import Problem

if TYPE_CHECKING:
    from interlock.kernel.codec.strict import JsonValue

T = TypeVar("T")
BodyT = TypeVar("BodyT", bound=Body)

# What a request says: a body of `wire/`, or the fields of one, as a caller gave them.
Sent: TypeAlias = Body | Mapping[str, object]

ROOT = "/api/v1"
USER_AGENT = "interlock-python"
KEY_NAME_CHARACTERS_MAX = 4096


def path(*segments: str) -> str:
    """A path below the API's root, each segment quoted; an id can never climb out of its place."""
    for segment in segments:
        if segment in ("", ".", ".."):
            raise invalid(f"{segment!r} is not an id; pass exactly what the service returned")
    return "/".join((ROOT, *map(_quoted, segments)))


@lru_cache(maxsize=256)
def _quoted(segment: str) -> str:
    return quote(segment, safe="")


def words(given: Iterable[str]) -> list[str]:
    """Several words, or one: a text is one word, never its letters."""
    return [given] if isinstance(given, str) else list(given)


def fetch(
    session: Session,
    where: str,
    kind: type[T],
    query: Mapping[str, str | int | None] | None = None,
    *,
    hold_seconds: float = 0.0,
    deadline_seconds: float = inf,
    say: Say | None = None,
) -> Flow[T]:
    """GET `where`; parameters that are None are left out. Times as for `exchange`."""
    request = Request(method="GET", path=where, query=_spelled(query or {}), headers=_headers(session))
    response = yield from exchange(
        session, request, hold_seconds=hold_seconds, deadline_seconds=deadline_seconds, say=say
    )
    return decoded(response, kind)


def fetch_text(session: Session, where: str) -> Flow[str]:
    """GET `where`, which answers in plain text."""
    request = Request(method="GET", path=where, headers=_headers(session) | {"accept": "text/plain"})
    return (yield from exchange(session, request)).body.decode()


def given(kind: type[BodyT], /, **fields: object) -> BodyT:
    """A body that says this much. What is None or not named is not said: it is as the service has it by default."""
    return kind(**(dict.fromkeys(kind.__struct_fields__) | fields))


def ask(session: Session, where: str, kind: type[T], body: Sent) -> Flow[T]:
    """Ask by POST what changes nothing: to repeat it is harmless without a key, and no answer is kept for it."""
    request = _written("POST", where, _headers(session), body)
    return decoded((yield from exchange(session, request, is_question=True)), kind)


def change(
    session: Session,
    where: str,
    kind: type[T],
    body: Sent | None = None,
    *,
    key: str | None,
    scope: str = "",
    method: str = "POST",
    hold_seconds: float = 0.0,
    busy_seconds: float | None = None,
    say: Say | None = None,
) -> Flow[T]:
    """Send a change under an idempotency key; see `change_answered`."""
    response = yield from change_answered(
        session,
        where,
        body,
        key=key,
        scope=scope,
        method=method,
        hold_seconds=hold_seconds,
        busy_seconds=busy_seconds,
        say=say,
    )
    return decoded(response, kind)


def change_answered(
    session: Session,
    where: str,
    body: Sent | None = None,
    *,
    key: str | None,
    scope: str = "",
    method: str = "POST",
    hold_seconds: float = 0.0,
    busy_seconds: float | None = None,
    say: Say | None = None,
) -> Flow[Response]:
    """Send a change under an idempotency key that survives its retries.

    `key` names the caller's intent: the same name on the same path and scope is the same request, also
    after a restart of this process. Without one the call gets a name of its own. Fields that are None
    are left out of the body, but for a payload, of which null is one. Times as for `exchange`.
    """
    name = fresh_name() if key is None else _checked_name(key)
    headers = _headers(session) | {IDEMPOTENCY_KEY: derived_key(where, scope, name)}
    request = _written(method, where, headers, body or {})
    return (
        yield from exchange(
            session,
            request,
            name=name,
            hold_seconds=hold_seconds,
            busy_seconds=busy_seconds,
            say=say,
        )
    )


def change_named(session: Session, where: str, kind: type[T], body: Body, *, named_by: str) -> Flow[T]:
    """Send a change that a field of its own names: the service knows a repeat by that, and keeps no answer for it."""
    request = _written("POST", where, _headers(session), body)
    response = yield from exchange(session, request, name=str(getattr(body, named_by)), named_by=named_by)
    return decoded(response, kind)


def put_document(
    session: Session,
    where: str,
    kind: type[T],
    document: bytes,
    media_type: str,
    *,
    query: Mapping[str, str | int | None],
    key: str | None,
) -> Flow[T]:
    """PUT a whole document, under a key too: a late repeat must not undo a newer document."""
    name = fresh_name() if key is None else _checked_name(key)
    headers = _headers(session) | {
        IDEMPOTENCY_KEY: derived_key(where, "", name),
        "content-type": media_type,
    }
    request = Request(method="PUT", path=where, query=_spelled(query), headers=headers, body=document)
    return decoded((yield from exchange(session, request, name=name)), kind)


def _spelled(query: Mapping[str, str | int | None]) -> str:
    return urlencode([(name, str(value)) for name, value in query.items() if value is not None])


def _written(method: str, where: str, headers: dict[str, str], body: Sent) -> Request:
    content = b""
    if present := _said(body):
        headers["content-type"], content = "application/json", encoded(present)
    return Request(method=method, path=where, headers=headers, body=content)


def _said(body: Sent) -> dict[str, object]:
    """The fields that were said. What they hold is not converted: what is no JSON is to be refused."""
    fields = msgspec.structs.asdict(body) if isinstance(body, Body) else body
    return {
        name: _said(value) if isinstance(value, Body) else value
        for name, value in fields.items()
        if value is not None or name == "payload"
    }


def fresh_name() -> str:
    """A new unique name."""
    import uuid_utils

    return uuid_utils.uuid7().hex


def derived_key(where: str, scope: str, name: str) -> str:
    """The idempotency key of an intent: any name becomes a few visible ASCII characters."""
    return digest("idempotency-key/v1", [where, scope, name])


def encoded(body: object) -> bytes:
    """Canonical JSON: a repeated request is the same bytes, and NaN is refused, not turned into null."""
    try:
        return canonical(cast("JsonValue", body))
    except NotCanonical as error:
        raise invalid(f"the request is not JSON: {error}; convert the value before passing it") from error


def decoded(response: Response, kind: type[T]) -> T:
    """The answer as its type."""
    try:
        return decoder_of(kind).decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        problem = Problem(
            status=response.status,
            code="unexpected_answer",
            title="Not an answer of Interlock",
            detail=f"the answer could not be read: {error}; check the URL, and that server and client "
            "are of versions that know each other",
        )
        raise UnexpectedAnswer(problem) from error


def invalid(detail: str) -> InvalidRequest:
    """A request that is refused before it is sent."""
    return InvalidRequest(Problem(status=400, code="invalid_request", title="Invalid request", detail=detail))


def _checked_name(name: str) -> str:
    if not 0 < len(name) <= KEY_NAME_CHARACTERS_MAX:
        raise invalid(f"key must have 1 to {KEY_NAME_CHARACTERS_MAX} characters; this one has {len(name)}")
    if any("\ud800" <= character <= "\udfff" for character in name):
        raise invalid(f"key {name!r} has half of a character (a lone surrogate); give it as whole text")
    return name


def _headers(session: Session) -> dict[str, str]:
    headers = {
        "accept": "application/json, application/problem+json",
        "user-agent": USER_AGENT,
        "interlock-via": session.via,
    }
    if session.key is not None:
        headers["authorization"] = f"Bearer {session.key}"
    return headers
