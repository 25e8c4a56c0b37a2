"""Signing people in and out, for the console: each function takes what a browser presented, and says who it is.

The token of a session is what the console keeps in its cookie. To act in the session, it makes requests with the
token as their key and `made_via` set; a token that is sent over the network is worth nothing.
"""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import NamedTuple

import msgspec

from interlock.kernel.refusal import Fault
from interlock.rooms.identity import queries
from interlock.rooms.identity.keys import LINK_PREFIX, digest_of, id_of, make_secret, token_of, token_parts
from interlock.rooms.identity.model import PRINCIPAL_NAMES, Caller, Role, Session, SignInLink, account_id
from interlock.rooms.identity.principals import EnsureLocalPerson
from interlock.rooms.identity.refusals import LinkOver, Unauthenticated
from interlock.rooms.identity.sessions import (
    LINK_LASTS,
    SEEN_EVERY,
    EndSession,
    MakeSignInLink,
    NewSession,
    NoteSignInRefused,
    OpenSession,
    OpenSessionByLink,
    OpenSessionFor,
    SeeSession,
)
from interlock.service.keyring import Known
from interlock.service.local_kernel import local_user
from interlock.service.service import Service
from interlock.service.settings import TENANT_DEFAULT

SIGN_IN_PATH = "/console/sign-in"

_USER_AGENT_CHARACTERS_MAX = 200
_BANNER_LINK_LASTS = timedelta(hours=12)


class Opened(NamedTuple):
    """A session just opened; `token` is given to the browser, and kept nowhere else."""

    token: str
    session: Session


class MadeLink(NamedTuple):
    """A sign-in link just made; `token` is shown once."""

    token: str
    link: SignInLink

    @property
    def path(self) -> str:
        """Where the link leads, under the address of the server."""
        return sign_in_path(self.token)


class Vouched(msgspec.Struct, frozen=True, kw_only=True):
    """Whom an identity provider vouches for, with the roles and groups that its groups stand for here.

    `subject` is the provider's own, lasting name of the account (`sub`); `name` is the principal's.
    """

    provider: str
    subject: str
    name: str
    roles: tuple[Role, ...] = ()
    groups: tuple[str, ...] = ()
    tenant: str = TENANT_DEFAULT


def sign_in_path(token: str) -> str:
    """Where a link with this token leads, under the address of the server."""
    return f"{SIGN_IN_PATH}?link={token}"


async def open_with_key(
    service: Service, key: str, *, client: str | None = None, user_agent: str = "", request_id: str = ""
) -> Opened:
    """Sign a person in with their API key, or raise `Unauthenticated` or `PeopleOnly`."""
    key_id = id_of(key)
    found = await queries.find_key(service.store, key_id) if key_id else None
    if found is None:
        raise Unauthenticated
    known, principal = found
    secret = make_secret()
    command = OpenSession(
        tenant=known.tenant,
        key_id=known.id,
        key_digest=digest_of(key),
        principal=principal.id,
        new=_new_session(secret.digest, client, user_agent, request_id),
    )
    session = await service.kernel.run(command)
    return Opened(token_of(session.id, secret.text), session)


async def open_with_link(
    service: Service, token: str, *, client: str | None = None, user_agent: str = "", request_id: str = ""
) -> Opened:
    """Sign a person in with their link, or raise `LinkOver`: it works once."""
    parts = token_parts(token, LINK_PREFIX)
    link = await queries.find_link(service.store, parts.record_id) if parts else None
    if parts is None or link is None:
        raise LinkOver("this sign-in link is unknown")
    secret = make_secret()
    command = OpenSessionByLink(
        tenant=link.tenant,
        link_id=link.id,
        link_digest=parts.digest,
        principal=link.principal,
        key_id=link.key_id,
        new=_new_session(secret.digest, client, user_agent, request_id),
    )
    session = await service.kernel.run(command)
    return Opened(token_of(session.id, secret.text), session)


async def open_for(
    service: Service,
    who: Vouched,
    *,
    just_in_time: bool,
    may_adopt: bool = False,
    session_id: str | None = None,
    client: str | None = None,
    user_agent: str = "",
    request_id: str = "",
) -> Opened:
    """Sign in a person whom an identity provider vouches for, or raise `SignInRefused`.

    With `just_in_time` the principal is made if it is new, and gets the roles and groups of `who`. With `may_adopt` it
    may be a person who was here before. An account that signed in before is the principal it was then, whatever it is
    called now. With a `session_id` this succeeds once.
    """
    secret = make_secret()
    account = account_id(who.provider, who.subject)
    kept = await service.store.get(PRINCIPAL_NAMES, who.tenant, account)
    command = OpenSessionFor(
        tenant=who.tenant,
        provider=who.provider,
        subject=who.subject,
        name=who.name if kept is None else kept.name,
        roles=who.roles,
        groups=who.groups,
        just_in_time=just_in_time,
        may_adopt=may_adopt,
        session_id=session_id,
        new=_new_session(secret.digest, client, user_agent, request_id),
    )
    session = await service.kernel.run(command)
    service.keyring.forget()
    return Opened(token_of(session.id, secret.text), session)


async def note_refused(
    service: Service, provider: str, tenant: str, reason: str, *, client: str | None, user_agent: str
) -> None:
    """Audit a sign-in with a provider that proved nothing."""
    new = _new_session("", client, user_agent, "")
    await service.kernel.run(NoteSignInRefused(tenant=tenant, provider=provider, reason=reason, new=new))


async def see(service: Service, token: str) -> Known:
    """Who is signed in with this token, or `Unauthenticated`. Notes at most once a minute that they are there."""
    known = await service.keyring.known(token, recent_will_do=False, sessions_count=True)
    if known.session is None:
        raise Unauthenticated("this is not a session")
    if service.now() - known.session.seen_at >= SEEN_EVERY:
        # If the store takes no change now, it may still be read: the page is shown, and the next one notes it.
        with contextlib.suppress(Fault):
            session = await service.kernel.run(SeeSession(caller=known.caller))
            return Known(known.caller, known.who, session)
    return known


async def end(service: Service, token: str, *, request_id: str = "") -> Session | None:
    """Sign out. None if there was no live session with this token."""
    try:
        known = await service.keyring.known(token, recent_will_do=False, sessions_count=True)
        if known.session is None:
            return None
        caller = msgspec.structs.replace(known.caller, request_id=request_id)
        return await service.kernel.run(EndSession(caller=caller, session_id=known.session.id))
    except Unauthenticated:
        return None
    finally:
        service.keyring.forget()


async def make_link(service: Service, caller: Caller, *, lasts: timedelta = LINK_LASTS) -> MadeLink:
    """A link with which the caller, a person, can sign in once."""
    secret = make_secret()
    link = await service.kernel.run(MakeSignInLink(caller=caller, digest=secret.digest, lasts=lasts))
    return MadeLink(token_of(link.id, secret.text), link)


async def make_local_link(service: Service) -> MadeLink:
    """A link for the person whose file this store is, who is made if they are new: for the banner of a local server."""
    name = f"local:{local_user()}"
    await service.kernel.run(EnsureLocalPerson(tenant=TENANT_DEFAULT, name=name))
    caller = Caller(tenant=TENANT_DEFAULT, principal=name)
    return await make_link(service, caller, lasts=_BANNER_LINK_LASTS)


def _new_session(digest: str, client: str | None, user_agent: str, request_id: str) -> NewSession:
    # Headers may hold what cannot be stored as text.
    shown = user_agent.encode("utf-8", "replace").decode()[:_USER_AGENT_CHARACTERS_MAX]
    return NewSession(digest=digest, client=client, user_agent=shown, request_id=request_id)
