"""Sessions of people, and the links with which they sign in once.

A session is opened with an API key of a person, with a sign-in link, or for a person whom an identity provider vouches
for. The transaction that decides a command of a session checks the session, its key and its principal
(`rules.check_session`), so a session ends at once when its person, its key or one of its roles goes.
"""

from __future__ import annotations

import hmac
from datetime import datetime, timedelta
from typing import Any

import msgspec

from interlock.kernel.record import Params, Pick, Reads, micros
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.audit.model import Author, note
from interlock.rooms.identity.model import (
    API_KEYS,
    PRINCIPAL_NAMES,
    PRINCIPALS,
    SESSIONS,
    SIGN_IN_LINKS,
    Caller,
    Principal,
    PrincipalKind,
    PrincipalName,
    Role,
    Session,
    SignInLink,
    account_id,
    keep_name,
    name_reads,
)
from interlock.rooms.identity.refusals import (
    KindMismatch,
    LinkOver,
    NotFound,
    PeopleOnly,
    SessionOver,
    SignInRefused,
    Unauthenticated,
)
from interlock.rooms.identity.rules import (
    KEYS_TOPIC,
    caller_reads,
    check_key,
    identify,
    record_people_only,
    require_administrator,
)

SESSION_LASTS = timedelta(hours=12)
LINK_LASTS = timedelta(minutes=15)
# How exactly `seen_at` is kept: a page that is loaded again writes nothing within this time.
SEEN_EVERY = timedelta(minutes=1)
# How long what has expired can still be listed.
SESSIONS_KEPT = timedelta(days=30)
LINKS_KEPT = timedelta(days=1)

_UNKNOWN = "unknown"


class NewSession(msgspec.Struct, frozen=True, kw_only=True):
    """What a session begins with: the digest of its secret, and where it is opened from."""

    digest: str
    client: str | None = None
    user_agent: str = ""
    request_id: str = ""


class OpenSession(Command[Session], frozen=True, kw_only=True):
    """Sign a person in with an API key. `key_digest` is of the key that was presented, `principal` is the key's."""

    tenant: str
    key_id: str
    key_digest: str
    principal: str
    new: NewSession

    def reads(self) -> Reads:
        return Reads(
            see=(API_KEYS.key(self.tenant, self.key_id), PRINCIPALS.key(self.tenant, self.principal))
        )

    def decide(self, world: World) -> Session:
        key = check_key(world.get(API_KEYS, self.tenant, self.key_id), self.key_digest)
        principal = world.get(PRINCIPALS, self.tenant, self.principal)
        if principal is None or key.principal != principal.id:
            raise Unauthenticated
        return _opened(world, principal, self.new, by="key", key_id=key.id)

    def refused(self, world: World, refusal: Refusal) -> None:
        if world.get(API_KEYS, self.tenant, self.key_id) is None:
            return
        actor = self.principal if isinstance(refusal, PeopleOnly) else _UNKNOWN
        subject = (self.tenant, actor, self.principal)
        _note_refused(world, subject, refusal, self.new, key_id=self.key_id, by="key")


class OpenSessionByLink(Command[Session], frozen=True, kw_only=True):
    """Sign a person in with their link, once. `principal` and `key_id` are as the link says."""

    tenant: str
    link_id: str
    link_digest: str
    principal: str
    key_id: str | None = None
    new: NewSession

    def reads(self) -> Reads:
        key = () if self.key_id is None else (API_KEYS.key(self.tenant, self.key_id),)
        return Reads(
            own=(SIGN_IN_LINKS.key(self.tenant, self.link_id),),
            see=(PRINCIPALS.key(self.tenant, self.principal), *key),
        )

    def decide(self, world: World) -> Session:
        link = self._checked_link(world)
        principal = world.get(PRINCIPALS, self.tenant, self.principal)
        if principal is None or link.principal != principal.id or link.key_id != self.key_id:
            raise LinkOver("the person of this sign-in link is no longer here")
        key = None if self.key_id is None else world.get(API_KEYS, self.tenant, self.key_id)
        if self.key_id is not None and (key is None or key.revoked_at is not None):
            raise LinkOver("the API key that made this sign-in link was revoked")
        world.put(SIGN_IN_LINKS, msgspec.structs.replace(link, used_at=world.now))
        return _opened(world, principal, self.new, by="link", key_id=self.key_id, link_id=link.id)

    def refused(self, world: World, refusal: Refusal) -> None:
        if world.get(SIGN_IN_LINKS, self.tenant, self.link_id) is not None:
            subject = (self.tenant, _UNKNOWN, self.principal)
            _note_refused(world, subject, refusal, self.new, link_id=self.link_id, by="link")

    def _checked_link(self, world: World) -> SignInLink:
        link = world.get(SIGN_IN_LINKS, self.tenant, self.link_id)
        known = link.digest if link is not None else "0" * 64
        matches = hmac.compare_digest(known, self.link_digest)
        if link is None or not matches:
            raise LinkOver("this sign-in link is unknown")
        if link.used_at is not None:
            raise LinkOver("this sign-in link was used before, and works once")
        if world.now >= link.expires_at:
            raise LinkOver("this sign-in link has expired")
        return link


class OpenSessionFor(Command[Session], frozen=True, kw_only=True):
    """Sign in a person whom an identity provider vouches for. `subject` is how the provider names them.

    With `just_in_time` the principal is made if it is new, and gets these roles and groups; without, it must be here
    already, and keeps what it has. The first sign-in ties a principal to its provider and subject, so that no other
    account that takes the same name can become that person, and ties the account to the principal, so that an account
    with a new name is not a second person. A person who was here before their first sign-in is tied only with
    `may_adopt`. `session_id` was chosen when the sign-in began: it can be completed once.
    """

    tenant: str
    provider: str
    subject: str
    name: str
    roles: tuple[Role, ...] = ()
    groups: tuple[str, ...] = ()
    just_in_time: bool = False
    may_adopt: bool = False
    session_id: str | None = None
    new: NewSession

    def reads(self) -> Reads:
        own = [PRINCIPALS.key(self.tenant, self.name), PRINCIPAL_NAMES.key(self.tenant, self._account)]
        if self.session_id is not None:
            own.append(SESSIONS.key(self.tenant, self.session_id))
        return Reads(own=tuple(own)) | name_reads(self.tenant, self.name)

    def decide(self, world: World) -> Session:
        if self.session_id is not None and world.get(SESSIONS, self.tenant, self.session_id) is not None:
            raise SignInRefused("this sign-in was completed before, and works once; begin again")
        before = world.get(PRINCIPALS, self.tenant, self.name)
        if before is None and not self.just_in_time:
            raise SignInRefused(
                f"{self.name} is not a principal here; ask an administrator to add {self.name}"
            )
        if before is not None:
            self._check_tied(before)
        keep_name(world, self.tenant, self.name)
        self._keep_account(world)
        principal = self._stored(world, before)
        return _opened(world, principal, self.new, by=self._by, session_id=self.session_id)

    def refused(self, world: World, refusal: Refusal) -> None:
        subject = (self.tenant, _UNKNOWN, self.name)
        _note_refused(world, subject, refusal, self.new, by=self._by, provider_subject=self.subject)

    @property
    def _by(self) -> str:
        return f"oidc:{self.provider}"

    @property
    def _account(self) -> str:
        return account_id(self.provider, self.subject)

    def _keep_account(self, world: World) -> None:
        """Keep which principal this account is, or refuse it because it is another one."""
        kept = world.get(PRINCIPAL_NAMES, self.tenant, self._account)
        if kept is None:
            world.put(PRINCIPAL_NAMES, PrincipalName(tenant=self.tenant, id=self._account, name=self.name))
        elif kept.name != self.name:
            raise SignInRefused(f"this account is {kept.name} here, not {self.name}; sign in again")

    def _check_tied(self, before: Principal) -> None:
        if before.kind is not PrincipalKind.PERSON:
            raise KindMismatch(self.name, before.kind.value)
        tied = (before.provider, before.subject)
        if before.is_local or tied not in ((None, None), (self.provider, self.subject)):
            raise SignInRefused(
                f"{self.name} is another account here; ask an administrator to give one of the two another name"
            )
        if tied == (None, None) and not self.may_adopt:
            raise SignInRefused(
                f"{self.name} was here before and has never signed in with this provider; ask the operator of this "
                "server to set oidc_adopt if the two are one person, or sign in with an API key"
            )

    def _stored(self, world: World, before: Principal | None) -> Principal:
        """The principal as it is from now on, stored and audited if that is a change."""
        base = before or Principal(
            tenant=self.tenant, id=self.name, kind=PrincipalKind.PERSON, created_at=world.now
        )
        after = msgspec.structs.replace(
            base,
            provider=self.provider,
            subject=self.subject,
            roles=self.roles if self.just_in_time else base.roles,
            groups=self.groups if self.just_in_time else base.groups,
        )
        if before is not None and after == before:
            return before
        stored = world.put(PRINCIPALS, after)
        roles = [role.value for role in stored.roles]
        details = {"roles": roles, "groups": list(stored.groups), "provider_subject": self.subject}
        _note(world, (self.tenant, self._by, self.name), "principal_set", self.new.request_id, details)
        world.wake(KEYS_TOPIC)
        return stored


class NoteSignInRefused(Command[None], frozen=True, kw_only=True):
    """Audit that what a provider sent did not prove who a person is; nobody knows who it was."""

    tenant: str
    provider: str
    reason: str
    new: NewSession

    def reads(self) -> Reads:
        return Reads()

    def decide(self, world: World) -> None:
        facts = {"client": self.new.client, "reason": self.reason, "by": f"oidc:{self.provider}"}
        subject = (self.tenant, _UNKNOWN, _UNKNOWN)
        _note(world, subject, "session.refused", self.new.request_id, facts, outcome="NotProven")


class SeeSession(Command[Session], frozen=True, kw_only=True):
    """Note that the person of a session is still there, at most once a minute."""

    caller: Caller

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=_own_session(self.caller))

    def decide(self, world: World) -> Session:
        identify(world, self.caller)
        session_id = self.caller.session_id
        session = None if session_id is None else world.get(SESSIONS, self.caller.tenant, session_id)
        if session is None:
            raise SessionOver("there is no session")
        if world.now - session.seen_at < SEEN_EVERY:
            return session
        return world.put(SESSIONS, msgspec.structs.replace(session, seen_at=world.now))


class EndSession(Command[Session], frozen=True, kw_only=True):
    """End a session: one's own, or as an admin that of any person in the tenant. Repeating it changes nothing."""

    caller: Caller
    session_id: str

    def reads(self) -> Reads:
        return caller_reads(self.caller) | Reads(own=(SESSIONS.key(self.caller.tenant, self.session_id),))

    def decide(self, world: World) -> Session:
        who = identify(world, self.caller)
        session = world.get(SESSIONS, self.caller.tenant, self.session_id)
        if session is None:
            raise NotFound("session", self.session_id)
        if session.principal != who.id:
            require_administrator(world, self.caller)
        if session.ended_at is not None:
            return session
        ended = world.put(
            SESSIONS, msgspec.structs.replace(session, ended_at=world.now, ended_by=self.caller.principal)
        )
        subject = (ended.tenant, self.caller.principal, ended.principal)
        _note(world, subject, "session.ended", self.caller.request_id, {"session_id": ended.id})
        world.wake(KEYS_TOPIC)
        return ended

    def refused(self, world: World, refusal: Refusal) -> None:
        record_people_only(world, self.caller, "session_end", self.session_id, refusal)


class MakeSignInLink(Command[SignInLink], frozen=True, kw_only=True):
    """Make a link with which the caller, a person, can sign in once."""

    caller: Caller
    digest: str
    lasts: timedelta = LINK_LASTS

    def reads(self) -> Reads:
        return caller_reads(self.caller)

    def decide(self, world: World) -> SignInLink:
        who = identify(world, self.caller)
        _check_person(who)
        link = SignInLink(
            tenant=who.tenant,
            id=world.new_id("sil"),
            principal=who.id,
            digest=self.digest,
            key_id=self.caller.key_id,
            made_at=world.now,
            expires_at=world.now + self.lasts,
        )
        subject = (who.tenant, who.id, who.id)
        _note(world, subject, "sign_in_link.made", self.caller.request_id, {"link_id": link.id})
        return world.add(SIGN_IN_LINKS, link)

    def refused(self, world: World, refusal: Refusal) -> None:
        record_people_only(world, self.caller, "sign_in_link", self.caller.principal, refusal)


class OldSessions(Pick[Session], frozen=True, kw_only=True):
    """Sessions that expired so long ago that nobody lists them, in every tenant, the oldest first."""

    kind = SESSIONS
    query = "identity.old_sessions"

    def params(self, now: datetime) -> Params:
        return {"before": micros(now - SESSIONS_KEPT)}

    def matches(self, record: Session, now: datetime) -> bool:
        return record.expires_at < now - SESSIONS_KEPT

    def sort_key(self, record: Session) -> Any:
        return (record.expires_at, record.tenant, record.id)


class OldLinks(Pick[SignInLink], frozen=True, kw_only=True):
    """Sign-in links that expired some time ago, in every tenant, the oldest first."""

    kind = SIGN_IN_LINKS
    query = "identity.old_links"

    def params(self, now: datetime) -> Params:
        return {"before": micros(now - LINKS_KEPT)}

    def matches(self, record: SignInLink, now: datetime) -> bool:
        return record.expires_at < now - LINKS_KEPT

    def sort_key(self, record: SignInLink) -> Any:
        return (record.expires_at, record.tenant, record.id)


class ForgetSessions(Command[int], frozen=True, kw_only=True):
    """Drop up to `most` old sessions and as many old links; returns how many of the more frequent ones there were."""

    most: int = 100

    def reads(self) -> Reads:
        return Reads(picks=(OldSessions(limit=self.most), OldLinks(limit=self.most)))

    def decide(self, world: World) -> int:
        sessions = world.pick(OldSessions(limit=self.most))
        links = world.pick(OldLinks(limit=self.most))
        for session in sessions:
            world.delete(SESSIONS, session)
        for link in links:
            world.delete(SIGN_IN_LINKS, link)
        return max(len(sessions), len(links))


def _opened(
    world: World,
    principal: Principal,
    new: NewSession,
    *,
    by: str,
    key_id: str | None = None,
    session_id: str | None = None,
    **details: str,
) -> Session:
    """A session of this principal, stored and audited, if it is a person who can act."""
    _check_person(principal)
    if not principal.can_act:
        raise Unauthenticated(f"{principal.id} has no key any more")
    session = Session(
        tenant=principal.tenant,
        id=session_id or world.new_id("ses"),
        principal=principal.id,
        digest=new.digest,
        by=by,
        roles=principal.roles,
        key_id=key_id,
        client=new.client,
        user_agent=new.user_agent,
        opened_at=world.now,
        seen_at=world.now,
        expires_at=world.now + SESSION_LASTS,
    )
    facts = {"session_id": session.id, "by": by, "client": new.client, "key_id": key_id, **details}
    _note(world, (principal.tenant, principal.id, principal.id), "session.opened", new.request_id, facts)
    return world.add(SESSIONS, session)


def _check_person(principal: Principal) -> None:
    """Nobody but a person signs in, whatever a server lets its services do."""
    if principal.kind is not PrincipalKind.PERSON:
        raise PeopleOnly(principal.id, principal.kind.value)


def _own_session(caller: Caller) -> tuple[Any, ...]:
    return () if caller.session_id is None else (SESSIONS.key(caller.tenant, caller.session_id),)


# The fields of an audit entry: the tenant, who did it, and whom it is about.
_Subject = tuple[str, str, str]


def _note_refused(world: World, subject: _Subject, refusal: Refusal, new: NewSession, **details: str) -> None:
    facts = {"client": new.client, "reason": refusal.detail, **details}
    _note(world, subject, "session.refused", new.request_id, facts, outcome=type(refusal).__name__)


def _note(
    world: World,
    subject: _Subject,
    action: str,
    request_id: str,
    details: dict[str, Any],
    *,
    outcome: str = "done",
) -> None:
    tenant, actor, about = subject
    given = {name: value for name, value in details.items() if value is not None}
    note(
        world,
        Author(tenant=tenant, principal=actor, request_id=request_id or None),
        action,
        about,
        outcome=outcome,
        details=given,
    )
