"""Sessions of people over HTTP: who is signed in, how to end that, and links to sign in with."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from interlock.api.calls import Asked, caller_of, decide
from interlock.api.identity import sealing_secret
from interlock.api.operations import Answer, Operation, Reply
from interlock.api.pages import PageQuery, id_cursor
from interlock.api.problem import ProblemError, problem
from interlock.kernel.codec.sealing import CannotUnseal, seal, unseal
from interlock.rooms.identity import queries
from interlock.rooms.identity.keys import NewSecret, make_secret, token_of
from interlock.rooms.identity.model import Role, Session, SignInLink
from interlock.rooms.identity.queries import FoundSession
from interlock.rooms.identity.rules import check_roles, why_over
from interlock.rooms.identity.sessions import EndSession, MakeSignInLink
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.service.sessions import sign_in_path
from interlock.wire import identity as wire
from interlock.wire.fields import Page


class SessionsQuery(PageQuery, frozen=True, kw_only=True):
    principal: (
        Annotated[
            str, msgspec.Meta(min_length=1, max_length=100, description="Those of this person; admins only.")
        ]
        | None
    ) = None
    all: Annotated[bool, msgspec.Meta(description="Those of everybody in the tenant; admins only.")] = False


class KeptLink(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a sign-in link for repeats: its token only sealed, and not at all without a secret."""

    link_id: str
    expires_at: datetime
    sealed: bytes | None


async def list_sessions(call: Asked[SessionsQuery, None]) -> Reply:
    query, caller = call.query, call.caller
    whose = None if query.all else query.principal or caller.principal
    if whose != caller.principal:
        check_roles(caller.who, Role.ADMIN)
    found, cursor = await queries.list_sessions(
        call.services.store,
        caller.tenant,
        principal=whose,
        before=id_cursor(query.cursor, "ses"),
        limit=query.limit,
    )
    return Reply(200, Page(items=tuple(_listed(call, each) for each in found), next_cursor=cursor))


async def end_session(call: Asked[None, None]) -> Answer:
    command = EndSession(caller=caller_of(call), session_id=call.path["session_id"])
    answer = await decide(
        call, command, lambda ended: Reply(200, _view(call, ended, "the session was ended"))
    )
    call.services.keyring.forget()
    return answer


async def make_sign_in_link(call: Asked[None, None]) -> Answer:
    secret = make_secret()
    command = MakeSignInLink(caller=caller_of(call), digest=secret.digest)
    made: list[str] = []

    def kept(link: SignInLink) -> Reply:
        made[:] = [link.id]
        return Reply(201, _kept_link(call, link, secret))

    answer = await decide(call, command, kept)
    link = msgspec.json.decode(answer.body, type=KeptLink)
    is_new = made == [link.link_id]
    token = token_of(link.link_id, secret.text) if is_new else _unsealed(call, link)
    view = wire.SignInLink(
        link_id=link.link_id, token=token, path=sign_in_path(token), expires_at=link.expires_at
    )
    return Answer(answer.status, msgspec.json.encode(view), answer.headers)


def _kept_link(call: Asked[None, None], link: SignInLink, secret: NewSecret) -> KeptLink:
    sealing = sealing_secret(call)
    token = token_of(link.id, secret.text).encode()
    sealed = seal(token, sealing, purpose=_PURPOSE, about=link.id) if sealing else None
    return KeptLink(link_id=link.id, expires_at=link.expires_at, sealed=sealed)


def _unsealed(call: Asked[None, None], kept: KeptLink) -> str:
    try:
        if kept.sealed is None:
            raise CannotUnseal("there was no secret to seal it with")
        return unseal(kept.sealed, sealing_secret(call), purpose=_PURPOSE, about=kept.link_id).decode()
    except CannotUnseal:
        detail = (
            f"this request made the sign-in link {kept.link_id} before, and only its requester can be shown "
            "it again; make another one under a new idempotency key"
        )
        raise ProblemError(problem("conflict", detail, members={"link_id": kept.link_id})) from None


def _listed(call: Asked[Any, Any], found: FoundSession) -> wire.Session:
    over = why_over(found.session, found.principal, found.key, call.services.now())
    return _view(call, found.session, over)


def _view(call: Asked[Any, Any], session: Session, over: str | None) -> wire.Session:
    return wire.Session(
        session_id=session.id,
        principal=session.principal,
        by=session.by,
        live=over is None,
        over=over,
        current=call.caller.caller.session_id == session.id,
        client=session.client,
        user_agent=session.user_agent,
        opened_at=session.opened_at,
        seen_at=session.seen_at,
        expires_at=session.expires_at,
        ended_at=session.ended_at,
        ended_by=session.ended_by,
    )


_TAG = "Identity"
_PURPOSE = b"interlock sign-in link v1"

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="list_sessions", method="GET", path="/api/v1/sessions", tag=_TAG, query=SessionsQuery,
        summary="Your sessions, newest first; those of others for admins",
        answers={200: Page[wire.Session]}, answer=list_sessions, problems=("forbidden",),
    ),
    Operation(
        id="end_session", method="POST", path="/api/v1/sessions/{session_id}/end", tag=_TAG,
        parameters={"session_id": "The id of the session."},
        summary="End a session: your own, or as an admin that of any person",
        description="The person is signed out at once. To end one that has ended changes nothing.",
        answers={200: wire.Session}, answer=end_session, problems=("not_found", "forbidden", "people_only"),
    ),
    Operation(
        id="make_sign_in_link", method="POST", path="/api/v1/sign-in-links", tag=_TAG,
        summary="Make a link that signs you in to the console, once",
        description="It works for 15 minutes, and ends with the key it was made with. People only.",
        answers={201: wire.SignInLink}, answer=make_sign_in_link, problems=("people_only", "conflict"),
    ),
)  # fmt: skip
