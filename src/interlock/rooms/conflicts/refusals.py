"""Why a conflict cannot be resolved."""

from __future__ import annotations

from datetime import datetime

from interlock.kernel.refusal import Refusal


class AlreadyResolved(Refusal):
    def __init__(self, conflict_id: str, by: str, at: datetime | None, resolution: str) -> None:
        super().__init__(
            f"conflict {conflict_id} was resolved by {by} as '{resolution}'; nothing is left to do"
        )
        self.state = "resolved"
        self.by, self.at = by, at
