"""A target: anything that actors change, with a version that its owner gives it.

A version is any string of the caller: an etag, a digest, a number. Versions are only compared for equality; none is
newer than another.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from interlock.kernel.record import Kind, Record

TOUCHES_KEPT = 20


class Touch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change, made through Interlock or outside it.

    `previous_version` is the version known before it, `based_on` the version that its author started from.
    `session` is the session of the actor that it was reported in, if any.
    `named` are the actors of the conflict that it led to, `undercut` the versions that they worked on.
    """

    actor: str
    kind: str
    version: str
    previous_version: str | None = None
    based_on: str | None = None
    summary: str = ""
    session: str = ""
    at: datetime
    conflict_id: str | None = None
    named: tuple[str, ...] = ()
    undercut: tuple[str, ...] = ()

    def is_by(self, actor: str, session: str) -> bool:
        """Whether this actor made it; two sessions of one principal are two actors, where both are known."""
        same_session = not (session and self.session) or session == self.session
        return self.actor == actor and same_session

    def tells(self, actor: str, version: str) -> bool:
        """Whether its conflict tells this actor that this version is gone. The first touch leaves any version."""
        left = version in (self.previous_version or version, *self.undercut)
        return self.conflict_id is not None and actor in self.named and left


class Target(Record, frozen=True, kw_only=True):
    """A target: its current version, and the last changes, newest first."""

    current: str
    touched_at: datetime
    touched_by: str
    touches: tuple[Touch, ...] = ()

    def has_moved_from(self, version: str | None) -> bool:
        """Whether it is at another version now; a request that names no version is bound to none."""
        return version is not None and self.current != version

    def conflict_of(self, version: str, *, naming: str) -> str | None:
        """The conflict, naming this actor, that moving the target away from this version led to, if any."""
        telling = (touch.conflict_id for touch in self.touches if touch.tells(naming, version))
        return next(telling, None)


TARGETS = Kind("target", Target, table="targets")
