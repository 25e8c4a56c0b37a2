"""The server itself: what it runs with."""

from __future__ import annotations

from interlock.sdk.calls import fetch, path
from interlock.sdk.flow import Flow
from interlock.sdk.session import Session
from interlock.wire.server import ServerSettings


def settings(session: Session) -> Flow[ServerSettings]:
    """Read what the server runs with, without credentials; for its operators and admins."""
    return (yield from fetch(session, path("settings"), ServerSettings))
