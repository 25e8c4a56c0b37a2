"""Finds the principal of a presented key, or of the session whose token is presented.

A caller who only reads is looked up each time. For calls through the kernel a recent look-up is enough, because the
deciding transaction checks key and roles again. Concurrent calls with the same key share one look-up, so that a burst
does not queue for the reading connections.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime

import msgspec

from interlock.kernel.clock import utc_now
from interlock.kernel.refusal import StoreUnavailable
from interlock.kernel.storage import Store, StoreDown
from interlock.rooms.identity.keys import SESSION_PREFIX, TokenParts, digest_of, id_of, token_parts
from interlock.rooms.identity.model import API_KEYS, PRINCIPALS, Caller, Principal, Session
from interlock.rooms.identity.queries import find_session
from interlock.rooms.identity.refusals import Unauthenticated
from interlock.rooms.identity.rules import check_key, check_session

_RECENT_SECONDS = 1.0
_KEPT_MAX = 10_000


class Known(msgspec.Struct, frozen=True):
    """A caller and the principal behind it, with the session in which a person calls, if it is one."""

    caller: Caller
    who: Principal
    session: Session | None = None

    @property
    def tenant(self) -> str:
        return self.caller.tenant

    @property
    def principal(self) -> str:
        return self.caller.principal

    @property
    def roles(self) -> tuple[str, ...]:
        return self.who.roles


class Keyring:
    """Looks keys up, and remembers for a moment whom they belong to."""

    def __init__(self, store: Store, *, now: Callable[[], datetime] = utc_now) -> None:
        self._store = store
        self._now = now
        self._recent: OrderedDict[str, tuple[float, Known]] = OrderedDict()
        self._asking: dict[str, asyncio.Task[Known]] = {}

    def forget(self) -> None:
        """Keys or roles may have changed; a look-up under way may be out of date already."""
        self._recent.clear()
        self._asking.clear()

    def last_known(self, key: str) -> Known | None:
        """Whom this key belonged to when it last came, if still remembered: for counting, not for permission."""
        kept = self._recent.get(digest_of(key))
        return kept[1] if kept else None

    async def known(self, key: str, recent_will_do: bool, *, sessions_count: bool = False) -> Known:
        """Who presents this key, or `Unauthenticated`.

        A session's token is as good as a key only where `sessions_count`: for what this process asks on behalf of
        a person whose cookie it has checked.
        """
        if not sessions_count and token_parts(key, SESSION_PREFIX) is not None:
            raise Unauthenticated("a session is not a key")
        digest = digest_of(key)
        if not recent_will_do:
            return await self._look_up_and_keep(key, digest)
        kept = self._recent.get(digest)
        if kept and time.monotonic() - kept[0] < _RECENT_SECONDS:
            return kept[1]
        return await asyncio.shield(self._asking.get(digest) or self._ask(key, digest))

    async def known_or_nobody(self, key: str) -> Known | None:
        """The principal of this key; None if it is not a key or the store cannot be asked."""
        try:
            return await self.known(key, recent_will_do=True)
        except (Unauthenticated, StoreUnavailable, StoreDown):
            return None

    def _ask(self, key: str, digest: str) -> asyncio.Task[Known]:
        """A look-up that other requests with the same key join."""
        asking = asyncio.get_running_loop().create_task(self._look_up_and_keep(key, digest))
        self._asking[digest] = asking

        def finish(done: asyncio.Task[Known]) -> None:
            if self._asking.get(digest) is done:
                del self._asking[digest]
            if not done.cancelled():
                done.exception()  # The caller may have left; an exception that is never read would be logged.

        asking.add_done_callback(finish)
        return asking

    async def _look_up_and_keep(self, key: str, digest: str) -> Known:
        found = await self._look_up(key, digest)
        self._keep(digest, found)
        return found

    async def _look_up(self, key: str, digest: str) -> Known:
        session = token_parts(key, SESSION_PREFIX)
        if session is not None:
            return await self._look_up_session(session)
        key_id = id_of(key)
        rows = await self._store.query("identity.caller_by_key", {"key_id": key_id}) if key_id else []
        if not rows:
            check_key(None, digest)
            raise Unauthenticated
        record, principal = API_KEYS.decode(rows[0][0]), PRINCIPALS.decode(rows[0][1])
        check_key(record, digest)
        caller = Caller(tenant=record.tenant, principal=principal.id, key_id=record.id, key_digest=digest)
        return Known(caller, principal)

    async def _look_up_session(self, token: TokenParts) -> Known:
        session, who, key = await find_session(self._store, token.record_id) or (None, None, None)
        session = check_session(session, token.digest, who, key, self._now())
        if who is None:
            raise Unauthenticated
        caller = Caller(
            tenant=session.tenant,
            principal=who.id,
            key_id=session.key_id,
            key_digest=token.digest,
            session_id=session.id,
        )
        return Known(caller, who, session)

    def _keep(self, digest: str, found: Known) -> None:
        self._recent[digest] = (time.monotonic(), found)
        if len(self._recent) > _KEPT_MAX:
            self._recent.popitem(last=False)
