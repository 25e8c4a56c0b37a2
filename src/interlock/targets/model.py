"""A target: anything that actors change, with the version that its owner gives it."""

from __future__ import annotations

from datetime import datetime

import msgspec

from interlock.kernel.record import Kind, Record


class Touch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change, made through Interlock or outside it."""

    actor: str
    kind: str
    version: str
    previous_version: str | None = None
    summary: str = ""
    at: datetime
    conflict_id: str | None = None


class Target(Record, frozen=True, kw_only=True):
    """What is known of a target: its version now, and the last changes, newest first."""

    current: str
    touched_at: datetime
    touched_by: str
    touches: tuple[Touch, ...] = ()

    def conflict_of(self, version: str) -> str | None:
        """The conflict that a touch opened when it moved the target away from this version, if one did."""
        moved = [touch.conflict_id for touch in self.touches if touch.previous_version == version]
        return next((conflict_id for conflict_id in moved if conflict_id), None)


TARGETS = Kind("target", Target, table="targets")
