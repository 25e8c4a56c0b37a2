"""Identity's commands, and the check that every other command makes first: may this caller do this?

A key is checked in the transaction that decides, so a revocation takes effect from the next decision on.
"""

from __future__ import annotations

import hmac
from datetime import datetime, timedelta

import msgspec

from interlock.kernel.record import NOTHING, Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import Command, World
from interlock.rooms.audit.model import Note, note
from interlock.rooms.identity.model import (
    API_KEYS,
    EVERY_ROLE,
    PRINCIPALS,
    SESSIONS,
    ApiKey,
    Caller,
    Principal,
    PrincipalKind,
    Role,
    Session,
    keep_name,
    name_reads,
)
from interlock.rooms.identity.owners import moved_under, owner_more, owner_reads
from interlock.rooms.identity.refusals import (
    Forbidden,
    KeysLive,
    KindMismatch,
    NotFound,
    PeopleOnly,
    SessionOver,
    Unauthenticated,
)

KEYS_TOPIC = "keys"
SESSION_IDLE_MAX = timedelta(minutes=30)


def caller_reads(caller: Caller) -> Reads:
    """What `identify` needs to see."""
    principal = PRINCIPALS.key(caller.tenant, caller.principal)
    key = () if caller.key_id is None else (API_KEYS.key(caller.tenant, caller.key_id),)
    if caller.session_id is None:
        return Reads(see=(*key, principal))
    return Reads(see=(*key, principal, SESSIONS.key(caller.tenant, caller.session_id)))


def identify(world: World, caller: Caller) -> Principal:
    """The principal behind the caller, or `Unauthenticated`."""
    key = None if caller.key_id is None else world.get(API_KEYS, caller.tenant, caller.key_id)
    principal = world.get(PRINCIPALS, caller.tenant, caller.principal)
    if caller.session_id is not None:
        session = world.get(SESSIONS, caller.tenant, caller.session_id)
        check_session(session, caller.key_digest, principal, key, world.now)
    elif caller.key_id is not None:
        check_key(key, caller.key_digest)
    if principal is None:
        raise Unauthenticated
    return principal


def require(world: World, caller: Caller, *roles: Role) -> Principal:
    """The principal behind the caller, if it has one of these roles."""
    principal = identify(world, caller)
    check_roles(principal, *roles)
    return principal


def require_administrator(world: World, caller: Caller) -> Principal:
    """The principal behind the caller, if it may change who may do what: an admin who is a person.

    A principal that can create a person or change the policy can approve their own requests, so no role is enough for
    an agent or a worker. A service may where the server's setting says so.
    """
    principal = identify(world, caller)
    check_is_person(principal, caller)
    check_roles(principal, Role.ADMIN)
    return principal


def check_is_person(principal: Principal, caller: Caller) -> None:
    """Raise `PeopleOnly` unless this is a person, or a service that may act as one."""
    is_trusted = principal.kind is PrincipalKind.SERVICE and caller.services_may_administer
    if principal.kind is not PrincipalKind.PERSON and not is_trusted:
        raise PeopleOnly(principal.id, principal.kind.value)


def record_people_only(
    world: World, caller: Caller | None, action: str, subject: str, refusal: Refusal
) -> None:
    """Audit that an agent, a worker or a service tried what only people may."""
    if caller is not None and isinstance(refusal, PeopleOnly):
        note(
            world,
            Note(
                tenant=caller.tenant,
                actor=caller.principal,
                action=f"{action}_refused",
                subject=subject,
                outcome=type(refusal).__name__,
                request_id=caller.request_id,
            ),
        )


def check_roles(principal: Principal, *roles: Role) -> None:
    if roles and set(roles).isdisjoint(principal.roles):
        raise Forbidden(principal.id, roles)


def check_key(key: ApiKey | None, digest: str) -> ApiKey:
    """The key, if it is known, matches in constant time and is not revoked, whatever the time: that is for good."""
    known = key.digest if key is not None else "0" * 64
    matches = hmac.compare_digest(known, digest)
    if key is None or not matches or key.revoked_at is not None:
        raise Unauthenticated
    return key


def check_session(
    session: Session | None, digest: str, principal: Principal | None, key: ApiKey | None, now: datetime
) -> Session:
    """The session, if its secret matches in constant time and it is live."""
    known = session.digest if session is not None else "0" * 64
    matches = hmac.compare_digest(known, digest)
    if session is None or not matches:
        raise SessionOver("the session is unknown")
    over = why_over(session, principal, key, now)
    if over is not None:
        raise SessionOver(over)
    return session


def why_over(session: Session, principal: Principal | None, key: ApiKey | None, now: datetime) -> str | None:
    """Why a session has ended, as a clause; None if it is live. `key` is the API key behind it, if it has one."""
    if session.ended_at is not None:
        return "the session was ended"
    if now >= session.expires_at:
        return "the session lasted as long as a session may"
    if now - session.seen_at >= SESSION_IDLE_MAX:
        return "the session was idle for too long"
    if session.key_id is not None and (key is None or key.revoked_at is not None):
        return "the API key behind the session was revoked"
    if principal is None or principal.id != session.principal or not principal.can_act:
        return f"{session.principal} can no longer sign in"
    if not set(session.roles) <= set(principal.roles):
        return f"{session.principal} lost a role since signing in"
    return None


class IssueKey(Command[Principal], frozen=True, kw_only=True):
    """Give a principal one more key, creating it if it is new.

    On a principal that exists, the given roles replace its roles; groups and owner only if given.
    `by` is the admin who asks, or None when the operator works on the store itself.
    """

    tenant: str
    name: str
    kind: PrincipalKind
    roles: tuple[Role, ...]
    groups: tuple[str, ...] | None = None
    owner: str | None = None
    key_id: str
    digest: str
    by: Caller | None = None

    def reads(self) -> Reads:
        own = (PRINCIPALS.key(self.tenant, self.name), API_KEYS.key(self.tenant, self.key_id))
        named = Reads(own=own) | name_reads(self.tenant, self.name)
        owner = owner_reads(self.tenant, self.name, self.owner) if self.owner else NOTHING
        return named | owner | _author_reads(self.by)

    def more(self, world: World) -> Reads:
        return owner_more(world, self.tenant, self.name, self.owner) if self.owner else NOTHING

    def decide(self, world: World) -> Principal:
        author = _author(world, self.by)
        before = world.get(PRINCIPALS, self.tenant, self.name)
        if before is not None and before.kind is not self.kind:
            raise KindMismatch(self.name, before.kind.value)
        keep_name(world, self.tenant, self.name)
        stored = world.put(PRINCIPALS, self._principal(world, before))
        world.put(
            API_KEYS,
            ApiKey(
                tenant=self.tenant,
                id=self.key_id,
                principal=self.name,
                digest=self.digest,
                created_at=world.now,
                created_by=author,
            ),
        )
        _record(world, stored, author, self.by, "key_issue", key_id=self.key_id)
        return stored

    def refused(self, world: World, refusal: Refusal) -> None:
        record_people_only(world, self.by, "key_issue", self.name, refusal)

    def _principal(self, world: World, before: Principal | None) -> Principal:
        base = before or Principal(tenant=self.tenant, id=self.name, kind=self.kind, created_at=world.now)
        given = msgspec.structs.replace(
            base,
            roles=self.roles,
            groups=base.groups if self.groups is None else self.groups,
            keys_live=base.keys_live + 1,
        )
        return moved_under(world, given, self.owner) if self.owner else given


class RevokeKey(Command[ApiKey], frozen=True, kw_only=True):
    """End a key for good. Repeating it changes nothing."""

    tenant: str
    key_id: str
    principal: str
    by: Caller | None = None

    def reads(self) -> Reads:
        own = (API_KEYS.key(self.tenant, self.key_id), PRINCIPALS.key(self.tenant, self.principal))
        return Reads(own=own) | _author_reads(self.by)

    def decide(self, world: World) -> ApiKey:
        author = _author(world, self.by)
        key = world.get(API_KEYS, self.tenant, self.key_id)
        principal = world.get(PRINCIPALS, self.tenant, self.principal)
        if key is None or principal is None or key.principal != principal.id:
            raise NotFound("key", self.key_id)
        if key.revoked_at is not None:
            return key
        left = max(0, principal.keys_live - 1)
        stored = world.put(PRINCIPALS, msgspec.structs.replace(principal, keys_live=left))
        _record(world, stored, author, self.by, "key_revoke", key_id=key.id)
        return world.put(API_KEYS, msgspec.structs.replace(key, revoked_at=world.now))

    def refused(self, world: World, refusal: Refusal) -> None:
        record_people_only(world, self.by, "key_revoke", self.principal, refusal)


class SetPrincipal(Command[Principal], frozen=True, kw_only=True):
    """Change what an existing principal may do. What is not given stays."""

    tenant: str
    name: str
    roles: tuple[Role, ...] | None = None
    groups: tuple[str, ...] | None = None
    owner: str | None = None
    by: Caller | None = None

    def reads(self) -> Reads:
        own = Reads(own=(PRINCIPALS.key(self.tenant, self.name),))
        owner = owner_reads(self.tenant, self.name, self.owner) if self.owner else NOTHING
        return own | owner | _author_reads(self.by)

    def more(self, world: World) -> Reads:
        return owner_more(world, self.tenant, self.name, self.owner) if self.owner else NOTHING

    def decide(self, world: World) -> Principal:
        author = _author(world, self.by)
        before = world.get(PRINCIPALS, self.tenant, self.name)
        if before is None:
            raise NotFound("principal", self.name)
        after = msgspec.structs.replace(
            before,
            roles=before.roles if self.roles is None else self.roles,
            groups=before.groups if self.groups is None else self.groups,
        )
        stored = world.put(PRINCIPALS, moved_under(world, after, self.owner) if self.owner else after)
        _record(world, stored, author, self.by, "principal_set")
        return stored

    def refused(self, world: World, refusal: Refusal) -> None:
        record_people_only(world, self.by, "principal_set", self.name, refusal)


class RemovePrincipal(Command[Principal], frozen=True, kw_only=True):
    """Forget a principal that can no longer act. What it did stays on record under its name.

    Principals that act for it still do: the chain of owners ends with this name.
    """

    tenant: str
    name: str
    by: Caller | None = None

    def reads(self) -> Reads:
        own = Reads(own=(PRINCIPALS.key(self.tenant, self.name),))
        return own | owner_reads(self.tenant, self.name, None) | _author_reads(self.by)

    def more(self, world: World) -> Reads:
        return owner_more(world, self.tenant, self.name, None)

    def decide(self, world: World) -> Principal:
        author = _author(world, self.by)
        principal = world.get(PRINCIPALS, self.tenant, self.name)
        if principal is None or principal.is_local:
            raise NotFound("principal", self.name)
        if principal.keys_live:
            raise KeysLive(principal.id, principal.keys_live)
        moved_under(world, principal, None)
        world.delete(PRINCIPALS, principal)
        _record(world, principal, author, self.by, "principal_remove")
        return principal

    def refused(self, world: World, refusal: Refusal) -> None:
        record_people_only(world, self.by, "principal_remove", self.name, refusal)


class EnsureLocalPerson(Command[Principal], frozen=True, kw_only=True):
    """The embedded store's own user: a person with every role, made on first use."""

    tenant: str
    name: str

    def reads(self) -> Reads:
        return Reads(own=(PRINCIPALS.key(self.tenant, self.name),)) | name_reads(self.tenant, self.name)

    def decide(self, world: World) -> Principal:
        before = world.get(PRINCIPALS, self.tenant, self.name)
        if before is not None:
            return before
        keep_name(world, self.tenant, self.name)
        person = Principal(
            tenant=self.tenant,
            id=self.name,
            kind=PrincipalKind.PERSON,
            roles=EVERY_ROLE,
            created_at=world.now,
            is_local=True,
        )
        return world.put(PRINCIPALS, person)


class BootstrapAdmin(Command[Principal | None], frozen=True, kw_only=True):
    """The first key of an empty store; None if another server was quicker."""

    tenant: str
    roles: tuple[Role, ...]
    key_id: str
    digest: str
    name: str = "admin"

    def reads(self) -> Reads:
        return self._issue().reads()

    def decide(self, world: World) -> Principal | None:
        if world.get(PRINCIPALS, self.tenant, self.name) is not None:
            return None
        return self._issue().decide(world)

    def _issue(self) -> IssueKey:
        return IssueKey(
            tenant=self.tenant,
            name=self.name,
            kind=PrincipalKind.PERSON,
            roles=self.roles,
            key_id=self.key_id,
            digest=self.digest,
        )


def _author(world: World, by: Caller | None) -> str:
    return require_administrator(world, by).id if by else "operator"


def _author_reads(by: Caller | None) -> Reads:
    return caller_reads(by) if by else Reads()


def _record(
    world: World, stored: Principal, author: str, by: Caller | None, action: str, **details: str
) -> None:
    """Audit a change of a principal, and tell every server, so that none goes by what it remembers."""
    facts = {"roles": [role.value for role in stored.roles], "groups": list(stored.groups)}
    note(
        world,
        Note(
            tenant=stored.tenant,
            actor=author,
            action=action,
            subject=stored.id,
            subject_version=stored.version,
            request_id=by.request_id if by else None,
            details={**facts, "owner": stored.owner, "keys_live": stored.keys_live, **details},
        ),
    )
    world.wake(KEYS_TOPIC)
