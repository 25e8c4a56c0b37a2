"""The check that every command makes first: may this caller do this?

A key is checked in the transaction that decides, so a revocation takes effect from the next decision on.
"""

from __future__ import annotations

import hmac
from datetime import datetime, timedelta

from interlock.kernel.record import Reads
from interlock.kernel.refusal import Refusal
from interlock.kernel.world import World
from interlock.rooms.audit.model import note
from interlock.rooms.identity.model import (
    API_KEYS,
    PRINCIPALS,
    SESSIONS,
    ApiKey,
    Caller,
    Principal,
    PrincipalKind,
    Role,
    Session,
)
from interlock.rooms.identity.refusals import (
    Forbidden,
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
        note(world, caller, f"{action}_refused", subject, outcome=type(refusal).__name__)


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
