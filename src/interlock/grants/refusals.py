"""Why a grant cannot be issued, revoked or claimed."""

from __future__ import annotations

from interlock.kernel.refusal import Refusal


class BadSignature(Refusal):
    """A grant that comes with a signature must come with a good one."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the grant was not issued ({why}); register the key with `interlock signer add`, or sign again"
        )


class GrantOver(Refusal):
    def __init__(self, grant_id: str, state: str) -> None:
        super().__init__(f"grant {grant_id} is {state}; there is nothing left to revoke")
        self.state = state


class NotClaimed(Refusal):
    """No grant fits: nothing was consumed. An expected answer, not an error; it is audited."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
