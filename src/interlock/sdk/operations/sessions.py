"""Sessions of people who signed in to the console, and links to sign in with."""

from __future__ import annotations

from interlock.sdk.calls import change, fetch, path
from interlock.sdk.flow import Flow
from interlock.sdk.session import Session
from interlock.wire.fields import Page
from interlock.wire.identity import Session as PersonSession
from interlock.wire.identity import SignInLink


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
