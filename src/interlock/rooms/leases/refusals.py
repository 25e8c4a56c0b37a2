"""Why a lease cannot be acquired or used."""

from __future__ import annotations

from datetime import datetime

import msgspec

from interlock.kernel.refusal import Next, Refusal

_WAIT_SECONDS = 30


class HolderSeen(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds it, or goes first, as shown to others. A caller that has yet to take it has no `lease_id`."""

    principal: str
    purpose: str
    since: datetime
    expires_at: datetime
    lease_id: str | None
    resource: str


class LeaseHeld(Refusal):
    """Another holder has it, another caller is in line before you, or it is kept for a principal."""

    def __init__(
        self, resource: str, holder: HolderSeen | None, retry_after_seconds: float, why: str
    ) -> None:
        super().__init__(f"{resource} {why}; wait in line, or retry in {retry_after_seconds:.1f} s")
        self.next = Next("acquire_lease", {"resource": resource, "wait_seconds": _WAIT_SECONDS})
        self.holder = holder
        self.retry_after_seconds = retry_after_seconds


class LeaseFenceStale(Refusal):
    """The caller does not hold the lease under this fence, or no longer does. `holder` holds its resource now."""

    def __init__(self, lease_id: str, *, state: str, holder: str | None) -> None:
        super().__init__(
            f"lease {lease_id} is {state}, and this fence does not hold it. Stop writing, and acquire it again"
        )
        self.state, self.holder = state, holder
        self.conflict_id: str | None = None


class LeaseNotActionable(Refusal):
    def __init__(self, lease_id: str, state: str, verb: str) -> None:
        super().__init__(f"lease {lease_id} is {state}, so it cannot {verb}; read what became of it")
        self.next = Next("get_lease", {"lease_id": lease_id})
        self.state = state


class ProgressRequired(Refusal):
    def __init__(self, lease_id: str, renewals: int) -> None:
        super().__init__(
            f"lease {lease_id} was renewed {renewals} times without progress; send progress or a checkpoint, "
            "or release it"
        )
        self.state = "no_progress"


class ResourceTooDeep(Refusal):
    def __init__(self, most: int) -> None:
        super().__init__(f"a resource has at most {most} parts between slashes; name it more shortly")


class ResourceUnclear(Refusal):
    def __init__(self, resource: str) -> None:
        super().__init__(
            f"{resource}: `**` stands only at the end, after a slash: `path/**` is everything under a path"
        )


class CheckpointTooLarge(Refusal):
    def __init__(self, bytes_found: int, bytes_max: int) -> None:
        super().__init__(
            f"this takes {bytes_found} bytes and may take {bytes_max}; keep the bulk elsewhere and send a "
            "reference and its hash"
        )
        self.limit_bytes = bytes_max
