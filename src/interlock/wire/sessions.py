"""Sessions of people, and the links with which they sign in once."""

from __future__ import annotations

from datetime import datetime

import msgspec

from interlock.wire.marks import Given


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A person's sign-in to the console.

    `by` is how: "key", "link" or "oidc:<provider>". `live` is whether it still counts, and `over` why it does not.
    `current` marks the session that asked.
    """

    session_id: str
    principal: str
    by: Given[str] = None
    live: bool = False
    over: str | None = None
    current: bool = False
    client: str | None = None
    user_agent: str = ""
    opened_at: Given[datetime] = None
    seen_at: Given[datetime] = None
    expires_at: Given[datetime] = None
    ended_at: datetime | None = None
    ended_by: str | None = None


class SignInLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link that signs its maker in once. `path` leads to the console of the server that was asked.

    `token` is shown this once, and again only to a repeat under the same `Idempotency-Key`.
    """

    link_id: str
    token: str
    path: str
    expires_at: datetime
