"""Who calls: principals, their API keys, sessions of people in the console, and the keys that sign permits."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.sdk.calls import change, fetch, given, path, words
from interlock.sdk.flow import Flow
from interlock.sdk.session import Session
from interlock.wire import identity as wire
from interlock.wire.fields import Page
from interlock.wire.identity import ApiKey, IssuedKey, PermitKeys, Principal, RotateKeysBody, SignInLink
from interlock.wire.identity import Session as PersonSession


def whoami(session: Session) -> Flow[Principal]:
    """Read which principal this client acts as, with its roles and groups."""
    return (yield from fetch(session, path("principals", "me"), Principal))


def principals(
    session: Session, *, limit: int | None = None, cursor: str | None = None
) -> Flow[Page[Principal]]:
    """List the principals of your tenant by name; for admins."""
    query = {"limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("principals"), Page[Principal], query))


def get_principal(session: Session, name: str) -> Flow[Principal]:
    """Read one principal: its kind, roles, groups and owner; for admins. Raises `NotFound`."""
    return (yield from fetch(session, path("principals", name), Principal))


def set_principal(
    session: Session,
    name: str,
    *,
    roles: Sequence[wire.Role] | None = None,
    groups: Sequence[str] | None = None,
    owner: str | None = None,
) -> Flow[Principal]:
    """Change what a principal may do; what is left out stays as it is. For people who are admins.

    `owner` is the person who answers for an agent or a worker, and so cannot approve what it asks for.
    """
    body = given(
        wire.SetPrincipalBody,
        roles=None if roles is None else words(roles),
        groups=None if groups is None else words(groups),
        owner=owner,
    )
    return (yield from change(session, path("principals", name), Principal, body, key=None, method="PUT"))


def delete_principal(session: Session, name: str) -> Flow[Principal]:
    """Forget a principal that has no API key left. Raises `Conflict` while it has one.

    What it did stays on record under its name, so do not give the name to another.
    """
    return (yield from change(session, path("principals", name), Principal, key=None, method="DELETE"))


def api_keys(
    session: Session,
    *,
    principal: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Flow[Page[ApiKey]]:
    """List API keys without their secrets, newest first: all of your tenant, or those of one `principal`."""
    query = {"principal": principal, "limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("api-keys"), Page[ApiKey], query))


def create_api_key(
    session: Session,
    name: str,
    *,
    kind: wire.PrincipalKind,
    roles: Sequence[wire.Role],
    groups: Sequence[str] | None = None,
    owner: str | None = None,
    key: str | None = None,
) -> Flow[IssuedKey]:
    """Give the principal `name` an API key, and create the principal if it is new.

    The answer's `key` is the secret. It is shown this once, and again to a repeat under the same `key`, which names
    the intent. Raises `Conflict` if the principal exists with another kind, roles, groups or owner.
    """
    body = given(
        wire.IssueKeyBody,
        kind=kind,
        roles=words(roles),
        groups=None if groups is None else words(groups),
        owner=owner,
    )
    return (yield from change(session, path("principals", name, "keys"), IssuedKey, body, key=key))


def revoke_api_key(session: Session, key_id: str, *, key: str | None = None) -> Flow[ApiKey]:
    """End an API key for good: the next call with it raises `Unauthenticated`. Takes its `key_id`, not the secret."""
    return (yield from change(session, path("api-keys", key_id, "revoke"), ApiKey, key=key))


def sessions(
    session: Session,
    *,
    principal: str | None = None,
    everybody: bool = False,
    limit: int | None = None,
    cursor: str | None = None,
) -> Flow[Page[PersonSession]]:
    """List your sessions, newest first; those of another `principal` or of `everybody` for admins."""
    query = {"principal": principal, "all": "true" if everybody else None, "limit": limit, "cursor": cursor}
    return (yield from fetch(session, path("sessions"), Page[PersonSession], query))


def end_session(session: Session, session_id: str, *, key: str | None = None) -> Flow[PersonSession]:
    """End a session: your own, or as an admin that of any person. The person is signed out at once."""
    return (yield from change(session, path("sessions", session_id, "end"), PersonSession, key=key))


def make_sign_in_link(session: Session, *, key: str | None = None) -> Flow[SignInLink]:
    """Make a link that signs you in to the console once, within 15 minutes; for people only."""
    return (yield from change(session, path("sign-in-links"), SignInLink, key=key))


def signing_keys(session: Session) -> Flow[PermitKeys]:
    """The public keys for `verify_permit`; read them now and then, and whenever a key is unknown."""
    return (yield from fetch(session, path("keys"), PermitKeys))


def rotate_signing_keys(
    session: Session, *, lead_seconds: int = 300, revoke: bool = False, key: str | None = None
) -> Flow[PermitKeys]:
    """Sign permits with a new key, published at once and used after `lead_seconds`; returns all public keys.

    `revoke` is for a stolen key: every other is withdrawn at once, and with it the permits that it signed.
    """
    body = RotateKeysBody(lead_seconds=lead_seconds, revoke=revoke)
    return (yield from change(session, path("keys", "rotate"), PermitKeys, body, key=key))
